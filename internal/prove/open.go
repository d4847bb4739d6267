package prove

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// A dial makes a connection to an address of the store.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// A way is how the processes of a run come to a kind of store.
type way struct {
	// addrs are the addresses that the URL names; each process has a proxy for
	// each of them. Nil: it is not on the network, and faults are signals only.
	addrs func(u *url.URL) []string
	open  func(rawURL string, d dial) (store.Store, error)
	// driver is how much longer than its context an operation can take.
	driver time.Duration
	// groups says that the store lives in this process: goroutines work with
	// it, each group of them over a link of its own.
	groups bool
}

// ways has the stores that can be proved. A store on the network needs to be
// opened with a dial of ours, so that its connections go through the process's
// own proxy, whatever address the server tells.
var ways = map[string]way{
	"mem":    {open: func(rawURL string, _ dial) (store.Store, error) { return open.URL(rawURL) }, groups: true},
	"file":   {open: func(rawURL string, _ dial) (store.Store, error) { return open.URL(rawURL) }},
	"redis":  {addrs: redisAddrs, open: openRedis, driver: 8 * time.Second}, // go-redis: 5 s to dial, 3 s to read
	"rediss": {addrs: redisAddrs, open: openRedis, driver: 8 * time.Second},
}

func schemeOf(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	return strings.ToLower(scheme)
}

// open opens the store as this process is to see it. A connection to an address
// that it has no proxy for fails the run.
func (c *child) open() (store.Store, error) {
	w, ok := ways[schemeOf(c.URL)]
	if !ok {
		return nil, fmt.Errorf("%w: prove does not know how to come to this store", store.ErrInvalid)
	}
	s, err := w.open(c.URL, func(ctx context.Context, network, addr string) (net.Conn, error) {
		via, ok := c.Via[addr]
		if !ok {
			c.tell(Event{Do: astray, Text: addr})
			return nil, fmt.Errorf("no proxy for %s", addr)
		}
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, via)
	})
	return s, err
}

func redisAddrs(u *url.URL) []string {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	return []string{net.JoinHostPort(host, port)}
}

// ownRedis is a Redis store with the client that belongs to it.
type ownRedis struct {
	*redisstore.Store
	client *redis.Client
}

func (s ownRedis) Close() error {
	err := s.client.Close()
	s.Store.Close()
	return err
}

func openRedis(rawURL string, d dial) (store.Store, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil { // its error may show the URL
		return nil, fmt.Errorf("%w: the Redis URL is wrong", store.ErrInvalid)
	}
	secure := o.TLSConfig
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d(ctx, network, addr)
		if err != nil || secure == nil {
			return conn, err
		}
		t := tls.Client(conn, secure)
		if err := t.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return t, nil
	}
	client := redis.NewClient(o)
	s, err := redisstore.New(client, nil)
	if err != nil {
		client.Close()
		return nil, err
	}
	return ownRedis{s, client}, nil
}
