// Package open turns a URL into a store. The table of schemes is in this file,
// so a program that imports it links every driver; one that knows its store
// should use that store's own package.
package open

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/mysqlstore"
	"github.com/holdfast-go/holdfast/pgstore"
	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/redisstore/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// schemes has what opens the URLs of each scheme. What a function is given has
// been parsed; its errors must not repeat the URL, which may hold a password.
var schemes = map[string]func(rawURL string, u *url.URL) (store.Store, error){
	"file":            file,
	"mem":             mem,
	"redis":           redis,
	"rediss":          redis,
	"redis+cluster":   redis,
	"rediss+cluster":  redis,
	"redis+sentinel":  redis,
	"rediss+sentinel": redis,
	"redlock":         redlock,

	"etcd":     etcd,
	"zk":       zooKeeper,
	"nats":     natsURL,
	"nats+tls": natsURL,

	"mongodb":     mongodb,
	"mongodb+srv": mongodb,

	"mysql":   mysql,
	"mariadb": mysql,

	"postgres":   postgres,
	"postgresql": postgres,

	"postgres+session":   postgresSession,
	"postgresql+session": postgresSession,
}

// URL opens the store that the URL names:
//
//	file:/DIR            package filestore; DIR is made if it is missing
//	file:/DIR?trust-fs=1 the same, on a file system that hosts may share
//	redis://…, rediss:// package redisstore, with the URLs of go-redis
//	etcd://HOST:PORT,…   package etcdstore; its Open has the options
//	zk://HOST:PORT,…     package zkstore; its Open has the options
//	mongodb://…          package mongostore; mongodb+srv:// too, with the connection
//	                     strings of MongoDB, and ?collection=… for where
//	nats://HOST:PORT,…   package natsstore; its Open has the options; nats+tls:// with TLS
//	mysql://…            package mysqlstore; mariadb:// too, with the parameters of
//	                     go-sql-driver/mysql, and ?table=… for where
//	redlock:URL,URL,URL  package redlock on the redis:// or rediss:// URLs; ?max-ttl=60s
//	                     and ?timeout=1s behind the last
//	redis+cluster://…    package redisstore on a Redis Cluster: host:port,host:port
//	redis+sentinel://…   package redisstore behind Sentinel: host:port,host:port/master
//	postgres://…         package pgstore, in a table; postgresql:// too, with the
//	                     URLs of pgx and libpq, ?schema=…&table=… for where, and
//	                     ?listen=host:port beside a pooler
//	postgres+session://… the same in session mode: ?tokens=1 has it give fencing
//	                     tokens, from a sequence in ?schema=…
//	mem:                 package memstore: a new store, shared with nobody
//
// It does no I/O over the network, but for an etcd: URL with a user, who logs in
// at once, a nats: URL, which begins to connect, and for the name service with
// mongodb+srv:. Closing the store frees all that was opened.
// A server's URL names its host, and a directory begins with /. What a driver would
// take in its place, this host most often, is a store that nobody else uses. For
// PostgreSQL the host may also be ?host=… (the directory of a socket) or ?service=…,
// and is never taken from PGHOST.
// A URL that is not understood is a store.ErrInvalid; the other errors are the
// store's. No error has a user name or password of the URL in it.
func URL(rawURL string) (store.Store, error) {
	scheme, _, ok := strings.Cut(rawURL, ":")
	if !ok {
		return nil, fmt.Errorf("%w: a store is named by a URL, like file:/var/lib/locks or redis://host:6379; this one has no scheme", store.ErrInvalid)
	}
	open, ok := schemes[strings.ToLower(scheme)]
	if !ok {
		return nil, fmt.Errorf("%w: no store has URLs that begin with %.20q; there are: %s", store.ErrInvalid,
			scheme+":", strings.Join(slices.Sorted(maps.Keys(schemes)), ", "))
	}
	u, err := parse(rawURL)
	if err != nil {
		// The parser's error repeats parts of the URL.
		return nil, fmt.Errorf("%w: the %s: URL cannot be read: special characters in user, password or path must be written as %%XX", store.ErrInvalid, scheme)
	}
	return open(rawURL, u)
}

// Secret reports whether the URL holds something that others must not see: a
// user name or a password, or what cannot be told from them because the URL
// cannot be read.
func Secret(rawURL string) bool {
	u, err := parse(rawURL)
	if err != nil || u.User != nil || strings.Contains(u.Opaque, "@") { // the URLs in a redlock: one
		return true
	}
	for key := range u.Query() {
		if strings.Contains(key, "password") || strings.Contains(key, "username") {
			return true
		}
	}
	return false
}

// parse reads a URL that may have several hosts, apart by commas. A url.URL has
// one: the first.
func parse(rawURL string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || strings.Contains(scheme, ":") { // of a redlock: the rest is none of ours
		return url.Parse(rawURL)
	}
	end := len(rest)
	if n := strings.IndexAny(rest, "/?#"); n >= 0 {
		end = n
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	host, _, _ := strings.Cut(rest[at:end], ",")
	return url.Parse(scheme + "://" + rest[:at] + host + rest[end:])
}

func file(_ string, u *url.URL) (store.Store, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: file: URL: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	dir := u.Path
	if u.Opaque != "" { // file:DIR
		var err error
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return nil, bad("the directory cannot be read: write special characters as %%XX")
		}
	}
	switch {
	case u.Opaque != "" && !filepath.IsAbs(filepath.FromSlash(dir)): // it is absolute on Windows alone: file:C:/DIR
		return nil, bad("its directory depends on where the program is started, and with it who shares the locks: write file:/DIR, with the whole path")
	case u.Host != "":
		return nil, bad("%q is read as a host, and files have none: write file:/DIR, with the whole path", u.Host)
	case dir == "":
		return nil, bad("it names no directory: write file:/DIR")
	case u.Fragment != "":
		return nil, bad("write # as %%23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, bad("what follows the ? cannot be read: %v", err)
	}
	var o filestore.Options
	for key, values := range query {
		value := values[len(values)-1]
		switch {
		case key == "trust-fs" && value == "1":
			o.TrustFS = true
		case key == "trust-fs" && value == "0":
		case key == "trust-fs":
			return nil, bad("trust-fs=%.20s: write 1 or 0", value)
		default:
			return nil, bad("there is no option %.20q; there is: trust-fs", key)
		}
	}
	s, err := filestore.Open(filepath.FromSlash(dir), &o)
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}

func mem(_ string, u *url.URL) (store.Store, error) {
	if *u != (url.URL{Scheme: u.Scheme}) {
		return nil, fmt.Errorf("%w: a mem: URL is just that, with nothing behind it", store.ErrInvalid)
	}
	return memstore.New(), nil
}

func redis(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := redisstore.Open(rawURL, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func redlock(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := redlock.Open(rawURL, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func postgres(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := pgstore.Open(rawURL, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func mysql(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := mysqlstore.Open(rawURL, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func postgresSession(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := pgadvisory.Open(rawURL, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}
