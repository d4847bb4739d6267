package mssqlstore

import (
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "sqlserver")
}

// Open returns a Store on connections of its own, which Close closes. The URL is
// sqlserver://[user[:password]@]host[:port]?database=NAME, or sqlserver://host/INSTANCE?database=NAME, with the parameters
// of the driver as its query ("encrypt=true"), and "schema=" and "table=" for the tables. A
// parameter that is not known is refused: the driver would ignore it. Open does no I/O. The error matches store.ErrInvalid and does not
// show the URL, which may hold a password.
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
	c := newConnector(config, options.Dial)
	db := sql.OpenDB(c)
	b, err := newBackend(db, options)
	if err != nil {
		db.Close()
		return nil, err
	}
	// As many as ask at a time, but no more than do a server good. A new one takes many times as long as a request.
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	db.SetConnMaxIdleTime(4 * time.Minute)
	b.own = c
	b.address = fmt.Sprintf("SQL Server at %s, database %s, table %s", serverOf(&config), config.Database, b.o.quoted(&tables[0]))
	return b, nil
}

func serverOf(c *msdsn.Config) string {
	if c.Instance != "" {
		return c.Host + "\\" + c.Instance
	}
	return fmt.Sprintf("%s:%d", c.Host, c.Port)
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("%w: the SQL Server URL: %s: want sqlserver://user:password@host:port?database=NAME&encrypt=true, with special characters of the password as %%XX", store.ErrInvalid, fmt.Sprintf(format, args...))
}

// known are the driver's parameters that a URL may have, and those that it gives another name. Authentication by
// Microsoft Entra ID is of another package of the driver: give its connections to New.
var known = []string{
	msdsn.Database, msdsn.Encrypt, msdsn.TrustServerCertificate, msdsn.Certificate, msdsn.ServerCertificate, msdsn.TLSMin, msdsn.PacketSize,
	msdsn.ConnectionTimeout, msdsn.HostNameInCertificate, msdsn.KeepAlive, msdsn.ServerSpn, msdsn.WorkstationID, msdsn.AppName, msdsn.ApplicationIntent,
	msdsn.FailoverPartner, msdsn.FailOverPort, msdsn.FailoverPartnerSpn, msdsn.DialTimeout, msdsn.MultiSubnetFailover, msdsn.NoTraceID, msdsn.EpaEnabled,
	"authenticator", "schema", "table",
}

// parseURL reads a URL as Open does: the driver's settings, and the options of New.
func parseURL(rawURL string, o *Options) (c msdsn.Config, options *Options, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return c, nil, badURL("it cannot be read")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, nil, badURL("its parameters cannot be read")
	}
	var all Options
	if o != nil {
		all = *o
	}
	lower := url.Values{}
	for name, values := range query {
		name = strings.ToLower(name)
		if !slices.Contains(known, name) {
			return c, nil, badURL("there is no parameter %.40q", name)
		}
		if len(values) > 1 || lower.Has(name) {
			return c, nil, badURL("%s is there twice", name)
		}
		lower.Set(name, values[0])
	}
	for name, to := range map[string]*string{"schema": &all.Schema, "table": &all.Table} {
		if lower.Has(name) && lower.Get(name) == "" {
			return c, nil, badURL("%s= names none", name)
		} else if lower.Has(name) {
			*to = lower.Get(name)
		}
		lower.Del(name)
	}
	instance := strings.TrimPrefix(u.Path, "/")
	switch {
	case !strings.EqualFold(u.Scheme, "sqlserver"):
		return c, nil, badURL("it does not begin with sqlserver://")
	case u.Hostname() == "":
		return c, nil, badURL("it has no host")
	case strings.Contains(u.Host, ","):
		return c, nil, badURL("it has several hosts, and a store is one server")
	case strings.Contains(instance, "/"), instance != "" && u.Port() != "":
		return c, nil, badURL("its path is the name of an instance, which has no port; the database is ?database=NAME")
	case lower.Get(msdsn.Database) == "":
		return c, nil, badURL("it names no database: ?database=NAME")
	case u.Fragment != "":
		return c, nil, badURL("write # as %%23")
	case lower.Has(msdsn.ApplicationIntent) && !strings.EqualFold(lower.Get(msdsn.ApplicationIntent), "ReadWrite"):
		return c, nil, badURL("locks are written: they need the primary, with applicationintent=ReadWrite")
	}
	if !lower.Has(msdsn.AppName) {
		lower.Set(msdsn.AppName, "holdfast")
	}
	u.Scheme, u.RawQuery = "sqlserver", lower.Encode()
	if c, err = msdsn.Parse(u.String()); err != nil {
		return c, nil, badURL("its parameters are not those of the driver")
	}
	if c.Port == 0 && c.Instance == "" {
		c.Port = 1433
	}
	c.DisableRetry = true // each request is sent once
	return c, &all, nil
}
