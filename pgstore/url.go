package pgstore

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/store"
)

// ParseURL reads the URL of a Store, for who has something to set on the pool
// that is made from it: postgres://user:password@host:port/database, or
// postgresql://, with the settings of libpq and of [pgxpool.ParseConfig] as its
// query, and schema=…, table=… and listen=… of the Options. The error matches
// store.ErrInvalid and does not show the URL, which may hold a password.
func ParseURL(rawURL string) (*pgxpool.Config, *Options, error) {
	c, own, err := parse(rawURL, []string{"postgres", "postgresql"}, "schema", "table", "listen")
	if err != nil {
		return nil, nil, err
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "holdfast"
	}
	return c, &Options{Schema: own["schema"], Table: own["table"], Listen: own["listen"]}, nil
}

// ParseSessionURL is [ParseURL] for a SessionStore: postgres+session://…, or
// either scheme of ParseURL, with schema=… and tokens=1 of the SessionOptions.
func ParseSessionURL(rawURL string) (*pgxpool.Config, *SessionOptions, error) {
	c, own, err := parse(rawURL, []string{"postgres", "postgresql", "postgres+session", "postgresql+session"}, "schema", "tokens")
	if err != nil {
		return nil, nil, err
	}
	o := &SessionOptions{Schema: own["schema"]}
	switch tokens := own["tokens"]; tokens {
	case "", "0":
	case "1":
		o.Tokens = true
	default:
		return nil, nil, fmt.Errorf("%w: PostgreSQL URL: tokens=%.20s: write 1 or 0", store.ErrInvalid, tokens)
	}
	return c, o, nil
}

// parse reads a URL of one of the schemes, and the settings that are ours. The
// driver is given the others as they are written: to it, as to libpq, + is no
// blank, so they cannot be decoded and encoded again by package url.
func parse(rawURL string, schemes []string, ours ...string) (*pgxpool.Config, map[string]string, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || !slices.Contains(schemes, strings.ToLower(scheme)) {
		return nil, nil, errURL
	}
	where, query, _ := strings.Cut(rest, "?")
	own := map[string]string{}
	var theirs []string
	for setting := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(setting, "=")
		if name, err := url.PathUnescape(key); err == nil && slices.Contains(ours, name) {
			if own[name], err = url.PathUnescape(value); err != nil {
				return nil, nil, errURL
			}
		} else if setting != "" {
			theirs = append(theirs, setting)
		}
	}
	if !namesHost(where, theirs) {
		return nil, nil, errNoHost
	}
	c, err := pgxpool.ParseConfig("postgres://" + where + "?" + strings.Join(theirs, "&"))
	if err != nil {
		return nil, nil, errURL
	}
	return c, own, nil
}

// namesHost reports whether the URL says where the server is, for all of its hosts.
// The driver looks into PGHOST, or takes this host in its place: but a job that is
// started elsewhere has another environment, and its lock would be another.
func namesHost(where string, settings []string) bool {
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		if (key == "host" || key == "service") && value != "" {
			return true
		}
	}
	hosts, _, _ := strings.Cut(where[strings.LastIndex(where, "@")+1:], "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" || host[0] == ':' {
			return false
		}
	}
	return true
}

var errNoHost = fmt.Errorf("%w: the PostgreSQL URL names no host, or an empty one: want postgres://user:password@host:port/database, or ?host=/run/postgresql for a socket; PGHOST is not used", store.ErrInvalid)

// errURL shows nothing of the URL: the parsers' errors repeat parts of it.
var errURL = fmt.Errorf("%w: the PostgreSQL URL cannot be read: want postgres://user:password@host:port/database?setting=value, with special characters as %%XX", store.ErrInvalid)
