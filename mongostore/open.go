package mongostore

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// DefaultDatabase is the database of a URL without one.
const DefaultDatabase = "holdfast"

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "mongodb", "mongodb+srv")
}

// Open returns a Store on its own client, which Close closes. The URL is a MongoDB
// connection string, mongodb:// or mongodb+srv://, with its options and "collection="
// for the collection. dial makes the connections unless it is nil. Open does no I/O,
// except DNS lookups for mongodb+srv://. The error matches store.ErrInvalid and does not
// show the URL, which may hold a password.
func Open(rawURL string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Store, error) {
	bad := func(what string) error {
		return fmt.Errorf("%w: the MongoDB URL: %s: want mongodb://user:password@host:port,host:port/database, with special characters of the password as %%XX", store.ErrInvalid, what)
	}
	plain, query, _ := strings.Cut(rawURL, "?")
	scheme, rest, ok := strings.Cut(plain, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "mongodb" && scheme != "mongodb+srv" {
		return nil, bad("it begins with neither mongodb:// nor mongodb+srv://")
	}
	var o Options
	var params []string // the driver parses them itself
	for param := range strings.SplitSeq(query, "&") {
		value, is := strings.CutPrefix(param, "collection=")
		if !is {
			params = append(params, param)
			continue
		}
		var err error
		if o.Collection, err = url.QueryUnescape(value); err != nil || value == "" {
			return nil, bad("collection= names none")
		}
	}
	hosts, database, slash := strings.Cut(rest, "/")
	if !slash {
		rest += "/" // the driver requires it before a ?
	}
	database, err := url.PathUnescape(database)
	switch {
	case err != nil || strings.ContainsAny(database, "/\\. \"$\x00") || len(database) > 63:
		return nil, bad("the database cannot be read")
	case database == "":
		database = DefaultDatabase
	}
	for host := range strings.SplitSeq(hosts[strings.LastIndex(hosts, "@")+1:], ",") {
		if host == "" || host[0] == ':' { // a missing host must not mean this host, where each process would have its own locks //mutant:mongo-url-names-each-host
			return nil, bad("it names no host, or an empty one")
		}
	}
	c := options.Client().SetServerSelectionTimeout(selection).ApplyURI(scheme + "://" + rest + "?" + strings.Join(params, "&"))
	if dial != nil {
		c.SetDialer(dialer(dial))
	}
	client, err := mongo.Connect(c)
	if err != nil {
		return nil, bad("the driver does not like it")
	}
	b, err := newBackend(client.Database(database), &o)
	if err != nil {
		client.Disconnect(context.Background())
		return nil, err
	}
	b.opened = client
	b.address = fmt.Sprintf("MongoDB at %s, collection %s of database %s", hosts[strings.LastIndex(hosts, "@")+1:], b.locks.Name(), database)
	return storeOf(b), nil
}

// selection is how long the driver looks for a suitable server, unless the URL says
// otherwise. The engine repeats operations for as long as that is useful.
const selection = 450 * time.Millisecond

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// DialContext implements [options.ContextDialer].
func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}
