package mssqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "sqlserver")
}

// A Dial connects to an address. It is called for each connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

type dialer Dial

// DialContext implements [mssql.Dialer].
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

// A connector makes connections. A log-in continues after its caller has left, and its connection serves the next call.
// Otherwise callers with less time than a log-in takes would never get a connection.
type connector struct{ *mssql.Connector }

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.Connector.Connect(context.WithoutCancel(ctx)) //mutant:mssql-login-outlives-its-caller
}

// Open returns a Store on its own connections, which Close closes. The URL is
// sqlserver://[user[:password]@]host[:port]?database=NAME, or sqlserver://host/INSTANCE?database=NAME, with parameters of
// the driver in its query ("encrypt=true"), and "schema=" and "table=" for the tables. Unknown parameters are refused,
// because the driver would ignore them. Open does no I/O. The error matches store.ErrInvalid and does not show the URL,
// which may hold a password.
func Open(rawURL string, o *Options) (*Store, error) {
	b, err := open(rawURL, o)
	if err != nil {
		return nil, err
	}
	return storeOf(b), nil
}

func open(rawURL string, o *Options) (*backend, error) {
	config, options, err := parseURL(rawURL, o)
	if err != nil {
		return nil, err
	}
	c := connector{mssql.NewConnectorConfig(config)}
	if options.Dial != nil {
		c.Dialer = dialer(options.Dial)
	}
	db := sql.OpenDB(c)
	b, err := newBackend(db, options)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// One for each concurrent call, up to a number that is good for a server. A new one takes many times as long as a
	// request.
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	db.SetConnMaxIdleTime(4 * time.Minute)
	b.Own = db
	at := fmt.Sprintf("%s:%d", config.Host, config.Port)
	if config.Instance != "" {
		at = config.Host + "\\" + config.Instance
	}
	b.Address = fmt.Sprintf("SQL Server at %s, database %s, table %s", at, config.Database, b.o.locks())
	return b, nil
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("%w: the SQL Server URL: %s: want sqlserver://user:password@host:port?database=NAME&encrypt=true, with special characters of the password as %%XX", store.ErrInvalid, fmt.Sprintf(format, args...))
}

// known are the parameters of the driver, and of this package, that a URL may have. Authentication by Microsoft Entra ID
// is in another package of the driver: give its connections to New.
var known = []string{
	msdsn.Database, msdsn.Encrypt, msdsn.TrustServerCertificate, msdsn.Certificate, msdsn.ServerCertificate, msdsn.TLSMin, msdsn.PacketSize,
	msdsn.ConnectionTimeout, msdsn.HostNameInCertificate, msdsn.KeepAlive, msdsn.ServerSpn, msdsn.WorkstationID, msdsn.AppName, msdsn.ApplicationIntent,
	msdsn.FailoverPartner, msdsn.FailOverPort, msdsn.FailoverPartnerSpn, msdsn.DialTimeout, msdsn.MultiSubnetFailover, msdsn.NoTraceID, msdsn.EpaEnabled,
	"authenticator", "schema", "table",
}

// parseURL reads a URL as Open does. It returns the driver's settings and the options for New.
func parseURL(rawURL string, o *Options) (c msdsn.Config, options *Options, err error) {
	u, err := row.ParseURL(rawURL, badURL, "sqlserver")
	if err != nil {
		return c, nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, nil, badURL("its parameters cannot be read")
	}
	lower := url.Values{}
	for name, values := range query {
		name = strings.ToLower(name)
		switch {
		case !slices.Contains(known, name):
			return c, nil, badURL("there is no parameter %.40q", name)
		case len(values) > 1 || lower.Has(name):
			return c, nil, badURL("%s is there twice", name)
		case values[0] == "":
			return c, nil, badURL("%s= is empty", name)
		}
		lower.Set(name, values[0])
	}
	instance := strings.TrimPrefix(u.Path, "/")
	switch {
	case strings.Contains(instance, "/"), instance != "" && u.Port() != "":
		return c, nil, badURL("its path is the name of an instance, which has no port; the database is ?database=NAME")
	case !lower.Has(msdsn.Database):
		return c, nil, badURL("it names no database: ?database=NAME")
	case !strings.EqualFold(cmp.Or(lower.Get(msdsn.ApplicationIntent), "ReadWrite"), "ReadWrite"):
		return c, nil, badURL("locks are written: they need the primary, with applicationintent=ReadWrite")
	}
	var all Options
	if o != nil {
		all = *o
	}
	all.Schema, all.Table = cmp.Or(lower.Get("schema"), all.Schema), cmp.Or(lower.Get("table"), all.Table)
	lower.Del("schema")
	lower.Del("table")
	lower.Set(msdsn.AppName, cmp.Or(lower.Get(msdsn.AppName), "holdfast"))
	u.Scheme, u.RawQuery = "sqlserver", lower.Encode()
	if c, err = msdsn.Parse(u.String()); err != nil {
		return c, nil, badURL("its parameters are not those of the driver")
	}
	if c.Port == 0 && c.Instance == "" {
		c.Port = 1433
	}
	c.ConnTimeout = cmp.Or(c.ConnTimeout, 15*time.Second) //mutant:mssql-silence-ends
	c.DisableRetry = true                                 // each request is sent once
	return c, &all, nil
}
