package redlock

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// Open returns a Store on its own clients, which Close closes. The URL is redlock: and
// then the URLs of the nodes, as for redisstore.Open, separated by commas:
//
//	redlock:redis://10.0.0.1,redis://10.0.1.1:6380,rediss://user:password@10.0.2.1
//
// The options follow the last node: max-ttl and timeout, as Go durations. All other
// options are go-redis's, and apply to their node. Open does no I/O. The error matches
// store.ErrInvalid and does not show the URL, which may hold passwords.
func Open(rawURL string, o *Options) (*Store, error) {
	parsed, merged, err := parseURL(rawURL, o)
	if err != nil {
		return nil, err
	}
	clients := make([]*redis.Client, len(parsed))
	for i, p := range parsed {
		if dial := merged.Dialer; dial != nil {
			p.Dialer, p.TLSConfig = overTLS(dial, p.TLSConfig), nil
		}
		clients[i] = redis.NewClient(p)
	}
	merged.Dialer = nil
	s, err := New(clients, merged)
	if err != nil {
		for _, c := range clients {
			c.Close()
		}
		return nil, err
	}
	s.own = clients
	return s, nil
}

// handshakeTime bounds a TLS handshake on a dialer's connection.
const handshakeTime = 5 * time.Second

// overTLS adds TLS to the connections of dial if with is not nil.
func overTLS(dial func(context.Context, string, string) (net.Conn, error), with *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || with == nil {
			return conn, err
		}
		t := tls.Client(conn, with)
		ctx, cancel := context.WithTimeout(ctx, handshakeTime) // the context of a mailbox has no deadline
		defer cancel()
		if err := t.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return t, nil
	}
}

// parseURL shows nothing of a wrong URL in its errors, because it may contain passwords.
func parseURL(rawURL string, o *Options) ([]*redis.Options, *Options, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: the Redlock URL is wrong: %s: want redlock:redis://host:port,redis://host:port,redis://host:port, with special characters of a password as %%XX",
			store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	merged := Options{}
	if o != nil {
		merged = *o
	}
	rest, ok := strings.CutPrefix(rawURL, "redlock:")
	if !ok {
		return nil, nil, bad("it does not begin with redlock:")
	}
	var all []*redis.Options
	for i, part := range strings.Split(rest, ",") {
		u, err := url.Parse(part)
		if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" {
			return nil, nil, bad("node %d is no redis:// or rediss:// URL", i+1)
		}
		if u.Hostname() == "" { // go-redis would use this host, and each host would then have its own locks
			return nil, nil, bad("node %d names no host", i+1)
		}
		query, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			return nil, nil, bad("what follows the ? of node %d cannot be read", i+1)
		}
		for key, to := range map[string]*time.Duration{"max-ttl": &merged.MaxTTL, "timeout": &merged.Timeout} {
			if !query.Has(key) {
				continue
			}
			if *to, err = time.ParseDuration(query.Get(key)); err != nil || *to <= 0 {
				return nil, nil, bad("%s is no duration like 60s", key)
			}
			query.Del(key)
		}
		u.RawQuery = query.Encode()
		parsed, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, nil, bad("node %d", i+1)
		}
		if !query.Has("max_retries") {
			parsed.MaxRetries = -1 // the other nodes make up for a failure
		}
		parsed.DialerRetries = 1
		timeout := merged.Timeout
		if timeout == 0 {
			timeout = DefaultTimeout
		}
		if parsed.DialTimeout == 0 || parsed.DialTimeout > timeout {
			parsed.DialTimeout = timeout
		}
		all = append(all, parsed)
	}
	return all, &merged, nil
}
