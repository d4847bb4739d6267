package connect

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/store"
)

// ParseURL parses a URL of one of the schemes, and the settings named in ours. The driver gets the
// others exactly as they are written: to it, as to libpq, + is not a blank, so package url cannot
// decode and encode them again.
func ParseURL(rawURL string, schemes []string, ours ...string) (*pgxpool.Config, map[string]string, error) {
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
			if own[name], err = url.PathUnescape(value); err != nil { //mutant:pg-url-own
				return nil, nil, errURL
			}
		} else if setting != "" {
			theirs = append(theirs, setting) //mutant:pg-url-as-written
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

// namesHost reports whether the URL names all of its hosts. Otherwise the driver would use PGHOST
// or this host. But a job that is started elsewhere has another environment, and would use another
// lock.
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

// errURL shows nothing of the URL, because the parsers' errors repeat parts of it.
var errURL = fmt.Errorf("%w: the PostgreSQL URL cannot be read: want postgres://user:password@host:port/database?setting=value, with special characters as %%XX", store.ErrInvalid)
