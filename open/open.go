// Package open turns a URL into a store. It imports no driver: the package of
// each store registers the URLs of that store when it is imported, and file: and
// mem: are always available. A program that imports this package and redisstore
// opens redis:// URLs; [github.com/holdfast-go/holdfast/open/all] brings every
// store.
//
//	import (
//		"github.com/holdfast-go/holdfast/open"
//		_ "github.com/holdfast-go/holdfast/redisstore"
//	)
package open

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// These stores need no driver.
func init() {
	scheme.Register(file, "file")
	scheme.Register(mem, "mem")
}

// URL opens the store that the URL names, if its package is imported:
//
//	file:/DIR            package filestore; DIR is made if it is missing
//	file:/DIR?trust-fs=1 the same, on a file system that hosts may share
//	mem:                 package memstore: a new store, shared with nobody
//	redis://…, rediss:// package redisstore, with the URLs of go-redis
//	redis+cluster://…    package redisstore on a Redis Cluster: host:port,host:port
//	redis+sentinel://…   package redisstore behind Sentinel: host:port,host:port/master
//	redlock:URL,URL,URL  package redisstore/redlock on the redis:// or rediss:// URLs;
//	                     ?max-ttl=60s and ?timeout=1s behind the last
//	postgres://…         package pgstore, in a table; postgresql:// too, with the
//	                     URLs of pgx and libpq, ?schema=…&table=… for where, and
//	                     ?listen=host:port beside a pooler
//	postgres+session://… package pgstore/pgadvisory: ?tokens=1 has it give fencing
//	                     tokens, from a sequence in ?schema=…
//	mysql://…            package mysqlstore; mariadb:// too, with the parameters of
//	                     go-sql-driver/mysql, and ?table=… for where
//	sqlserver://…        package mssqlstore, with the parameters of go-mssqldb:
//	                     ?database=… names the database, ?schema=…&table=… where
//	mongodb://…          package mongostore; mongodb+srv:// too, with the connection
//	                     strings of MongoDB, and ?collection=… for where
//	etcd://HOST:PORT,…   package etcdstore; its Open has the options
//	zk://HOST:PORT,…     package zkstore; its Open has the options
//	nats://HOST:PORT,…   package natsstore; its Open has the options; nats+tls:// with TLS
//	s3://BUCKET/PREFIX   package s3store; its Open has the options
//	dynamodb://TABLE     package dynamostore; its Open has the options
//	azblob://ACCOUNT/…   package azblobstore; its Open has the options
//	k8s://NAMESPACE      package k8sstore; its Open has the options
//
// Other packages may register more; package
// [github.com/holdfast-go/holdfast/store/scheme] says how.
//
// It does no I/O over the network, except for an etcd: URL with a user, which logs in at
// once, a nats: URL, which begins to connect, and the name service for mongodb+srv:.
// Closing the store frees all that was opened.
//
// A server's URL must name its host, and a directory must begin with /. Without a host a
// driver would often use this host, and so locks that no other host shares. For PostgreSQL
// the host may also be ?host=… (the directory of a socket) or ?service=…, and is never
// taken from PGHOST.
//
// Errors: [store.ErrInvalid] for an invalid URL, or one whose store this program does not
// import; [store.ErrUnsupported] for one that a build tag left out (see
// [github.com/holdfast-go/holdfast/open/all]); the others are those of the store's Open.
// No error has a user name or password of the URL in it. URL may be called by several
// goroutines at once.
func URL(rawURL string) (store.Store, error) {
	name, _, ok := strings.Cut(rawURL, ":")
	if !ok {
		return nil, fmt.Errorf("%w: a store is named by a URL, like file:/var/lib/locks or redis://host:6379; this one has no scheme", store.ErrInvalid)
	}
	open := scheme.Opener(name)
	if open == nil {
		return nil, none(name)
	}
	if _, err := parse(rawURL); err != nil {
		// The parser's error repeats parts of the URL.
		return nil, fmt.Errorf("%w: the %s: URL cannot be read: a port is a number from 1 to 65535, and special characters in user, password or path are written as %%XX", store.ErrInvalid, name)
	}
	return open(rawURL)
}

// none returns the error for a scheme that no linked store has.
func none(name string) error {
	all := scheme.All()
	advice := ""
	if len(all) == 2 { // only those of this package: the program has imported no store
		advice = "; a store's package adds its own when it is imported, and open/all adds those of every store"
	}
	return fmt.Errorf("%w: no store has URLs that begin with %.20q; there are: %s%s", store.ErrInvalid, name+":", strings.Join(all, ", "), advice)
}

// Secret reports whether the URL holds something that others must not see: a user name or
// a password. A URL that cannot be read counts as one that does.
func Secret(rawURL string) bool {
	u, err := parse(rawURL)
	if err != nil || u.User != nil || strings.Contains(u.Opaque, "@") { // of a URL inside a redlock: URL
		return true
	}
	for key := range u.Query() {
		if strings.Contains(key, "password") || strings.Contains(key, "username") {
			return true
		}
	}
	return false
}

// parse reads a URL that may have several hosts, separated by commas. The url.URL
// that it returns has only the first.
func parse(rawURL string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || strings.Contains(scheme, ":") { // a redlock: URL has no hosts of its own
		return url.Parse(rawURL)
	}
	end := len(rest)
	if n := strings.IndexAny(rest, "/?#"); n >= 0 {
		end = n
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	var first *url.URL
	for host := range strings.SplitSeq(rest[at:end], ",") {
		u, err := url.Parse(scheme + "://" + rest[:at] + host + rest[end:])
		if err != nil {
			return nil, err
		}
		if port := u.Port(); port != "" { // some drivers would retry such a port without end
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 { //mutant:open-port-of-any-size
				return nil, fmt.Errorf("no port is %q", port)
			}
		}
		if first == nil {
			first = u
		}
	}
	return first, nil
}

func file(rawURL string) (*filestore.Store, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: file: URL: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := parse(rawURL)
	if err != nil {
		return nil, bad("it cannot be read: write special characters as %%XX")
	}
	dir := u.Path
	if u.Opaque != "" { // file:DIR
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return nil, bad("the directory cannot be read: write special characters as %%XX")
		}
	}
	switch {
	case u.Opaque != "" && !filepath.IsAbs(filepath.FromSlash(dir)): // on Windows file:C:/DIR is absolute //mutant:open-relative-directory
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
	return filestore.Open(filepath.FromSlash(dir), &o)
}

func mem(rawURL string) (*memstore.Store, error) {
	if _, rest, _ := strings.Cut(rawURL, ":"); rest != "" {
		return nil, fmt.Errorf("%w: a mem: URL is just that, with nothing behind it", store.ErrInvalid)
	}
	return memstore.New(), nil
}
