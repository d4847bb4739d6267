package mysqlstore

import (
	"cmp"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "mysql", "mariadb")
}

// Open returns a Store on its own connections, which Close closes. The URL is
// mysql://[user[:password]@]host[:port]/database, or the same with mariadb://, with
// parameters of the driver's DSN in its query ("tls=true"), and "table=" for the table.
// Open does no I/O. The error matches store.ErrInvalid and does not show the URL, which
// may hold a password.
func Open(rawURL string, o *Options) (*Store, error) {
	c, options, err := ParseURL(rawURL, o)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, badURL("the driver does not like its parameters")
	}
	db := sql.OpenDB(connector)
	b, err := newBackend(db, options)
	if err != nil {
		db.Close()
		return nil, err
	}
	// One for each concurrent call, up to a number that is good for a server.
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	db.SetConnMaxIdleTime(time.Minute)
	b.Own = db
	b.Address = fmt.Sprintf("MySQL or MariaDB at %s, database %s, table %s", c.Addr, c.DBName, b.o.Table)
	return storeOf(b), nil
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("%w: the MySQL URL: %s: want mysql://user:password@host:port/database, with special characters of the password as %%XX", store.ErrInvalid, fmt.Sprintf(format, args...))
}

// lockWait is the setting for how many seconds a statement waits for a locked row.
const lockWait = "innodb_lock_wait_timeout"

// ParseURL reads a URL as [Open] does, for a program that makes the connections itself. It
// returns the driver's settings, and the options for [New]: a copy of o, with the table of
// the URL if it names one. Its errors are those of [Open].
func ParseURL(rawURL string, o *Options) (*mysql.Config, *Options, error) {
	u, err := row.ParseURL(rawURL, badURL, "mysql", "mariadb")
	if err != nil {
		return nil, nil, err
	}
	var all Options
	if o != nil {
		all = *o
	}
	var params []string // the driver parses them itself
	for param := range strings.SplitSeq(u.RawQuery, "&") {
		table, ok := strings.CutPrefix(param, "table=")
		if !ok {
			params = append(params, param)
		} else if all.Table = table; table == "" {
			return nil, nil, badURL("table= names none")
		}
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, nil, badURL("it names no database")
	}
	c, err := mysql.ParseDSN("tcp(" + net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306")) + ")/?" + strings.Join(params, "&"))
	if err != nil {
		return nil, nil, badURL("its parameters are not those of the driver")
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	if c.Params[lockWait] == "" {
		c.Params[lockWait] = "1" // the server's default is 50 s, even after the client has left
	}
	c.DBName = database
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Logger = &mysql.NopLogger{} // failures are returned as errors
	return c, &all, nil
}
