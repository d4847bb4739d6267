package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// A target is the result of reading a URL.
type target struct {
	client    redis.UniversalClient
	address   string // for people
	replicas  int
	durable   bool
	retention time.Duration // 0 if the URL does not set it
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// openURL makes the client for the URL. Its errors show only what cannot be part of a
// password: a password with an unusual character can end up anywhere in a parser's
// error.
func openURL(rawURL string, dial dialer) (t target, err error) {
	scheme, _, _ := strings.Cut(rawURL, ":")
	kind := strings.TrimPrefix(strings.ToLower(scheme), "redis")
	secure := strings.HasPrefix(kind, "s")
	kind = strings.TrimPrefix(kind, "s")
	form := "redis://user:password@host:port/database"
	switch kind {
	case "":
	case "+cluster":
		form = "redis+cluster://user:password@host:port,host:port"
	case "+sentinel":
		form = "redis+sentinel://user:password@host:port,host:port/master/database"
	default:
		return t, fmt.Errorf("%w: a Redis URL begins with redis://, redis+cluster:// or redis+sentinel://, or with rediss for TLS", store.ErrInvalid)
	}
	if !strings.HasPrefix(strings.ToLower(scheme), "redis") {
		return t, fmt.Errorf("%w: a Redis URL begins with redis:// or rediss://", store.ErrInvalid)
	}
	hosts, u, err := split(rawURL, kind != "")
	if err != nil {
		return t, fmt.Errorf("%w: the Redis URL cannot be read: want %s, with special characters of the password as %%XX", store.ErrInvalid, form)
	}
	if kind == "" && (u.Hostname() == "" || strings.Contains(u.Host, ",")) { // go-redis would use this host, where each host would have its own locks //mutant:redis-url-names-a-host
		return t, fmt.Errorf("%w: the Redis URL names no host, or several: want %s, or for a cluster redis+cluster://host:port,host:port", store.ErrInvalid, form)
	}
	p := &urlParts{u: u, hosts: hosts, query: u.Query(), dial: dial}
	if secure {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if err = p.own(&t); err == nil {
		switch kind {
		case "+cluster":
			err = p.cluster(&t)
		case "+sentinel":
			err = p.sentinel(&t)
		default:
			err = p.single(&t)
		}
	}
	switch at := strings.Count(rawURL, "@"); {
	case err == nil:
		return t, nil
	case at == 0, at == 1 && u.User != nil:
		return t, fmt.Errorf("%w: the Redis URL is wrong: %s", store.ErrInvalid, strings.TrimPrefix(err.Error(), "redis: "))
	}
	return t, fmt.Errorf("%w: the Redis URL is wrong behind its host: want %s, with special characters of the password as %%XX", store.ErrInvalid, form)
}

// split parses a URL that may have several hosts, separated by commas.
func split(rawURL string, several bool) (hosts []string, u *url.URL, err error) {
	one := rawURL
	if several {
		at := strings.Index(rawURL, "://") + len("://")
		if at < len("://") {
			return nil, nil, fmt.Errorf("no host")
		}
		end := len(rawURL)
		if n := strings.IndexAny(rawURL[at:], "/?#"); n >= 0 {
			end = at + n
		}
		at += strings.LastIndex(rawURL[at:end], "@") + 1
		hosts = strings.Split(rawURL[at:end], ",")
		one = rawURL[:at] + hosts[0] + rawURL[end:]
	}
	u, err = url.Parse(one)
	return hosts, u, err
}

// dials is how often go-redis tries to connect before it fails. Its default of five, with
// a pause after each, would hide a closed port for a while. The engine retries what is
// worth retrying.
const dials = 1

// urlParts is a URL that is being turned into options of go-redis.
type urlParts struct {
	u     *url.URL
	hosts []string
	query url.Values
	tls   *tls.Config // nil: no TLS
	dial  dialer      // nil: go-redis's own
}

// own reads and removes the options that are not go-redis's.
func (p *urlParts) own(t *target) error {
	if p.query.Has("replicas") {
		n, err := strconv.Atoi(p.query.Get("replicas"))
		if err != nil || n < 0 {
			return fmt.Errorf("replicas=%.20s: want a number, 0 or more", p.query.Get("replicas"))
		}
		t.replicas = n
		p.query.Del("replicas")
	}
	if p.query.Has("durable") {
		on, err := strconv.ParseBool(p.query.Get("durable"))
		if err != nil {
			return fmt.Errorf("durable=%.20s: want 1 or 0", p.query.Get("durable"))
		}
		t.durable = on
		p.query.Del("durable")
	}
	if p.query.Has("token_retention") {
		d, err := time.ParseDuration(p.query.Get("token_retention"))
		if err != nil || d <= 0 {
			return fmt.Errorf("token_retention=%.20s: want a time with its unit, as 1h or 90m", p.query.Get("token_retention"))
		}
		t.retention = d
		p.query.Del("token_retention")
	}
	p.u.RawQuery = p.query.Encode()
	return nil
}

func (p *urlParts) single(t *target) error {
	o, err := redis.ParseURL(p.u.String())
	if err != nil {
		return err
	}
	o.DialerRetries = cmp.Or(o.DialerRetries, dials)
	if p.dial != nil {
		o.Dialer, o.TLSConfig = overTLS(p.dial, o.TLSConfig), nil
	}
	t.client = redis.NewClient(o)
	t.address = addressOf(t.client)
	return nil
}

func (p *urlParts) cluster(t *target) error {
	if path := strings.Trim(p.u.Path, "/"); path != "" && path != "0" {
		return fmt.Errorf("a Redis Cluster has no databases, and no path in its URL")
	}
	base, err := p.rest("6379")
	if err != nil {
		return err
	}
	o, err := redis.ParseClusterURL(base)
	if err != nil {
		return err
	}
	o.Addrs, o.TLSConfig = p.hosts, p.tls
	o.Username = p.u.User.Username()
	o.Password, _ = p.u.User.Password()
	if p.dial != nil {
		o.Dialer, o.TLSConfig = overTLS(p.dial, p.tls), nil
	}
	o.DialerRetries = cmp.Or(o.DialerRetries, dials)
	t.client = redis.NewClusterClient(o)
	t.address = addressOf(t.client)
	return nil
}

func (p *urlParts) sentinel(t *target) error {
	master, database, _ := strings.Cut(strings.Trim(p.u.Path, "/"), "/")
	if master == "" {
		return fmt.Errorf("it does not name the master: write redis+sentinel://host:port/master")
	}
	username, password := p.query.Get("sentinel_username"), p.query.Get("sentinel_password")
	p.query.Del("sentinel_username")
	p.query.Del("sentinel_password")
	base, err := p.rest("26379")
	if err != nil {
		return err
	}
	o, err := redis.ParseFailoverURL(base)
	if err != nil {
		return err
	}
	if database != "" {
		if o.DB, err = strconv.Atoi(database); err != nil || o.DB < 0 {
			return fmt.Errorf("invalid database number: %.20q", database)
		}
	}
	// go-redis replaces a hung Sentinel by another one only if two questions to it take
	// less time than go-redis allows for opening a connection, 5 s.
	if !p.query.Has("max_retries") {
		o.MaxRetries = -1
	}
	if !p.query.Has("read_timeout") {
		o.ReadTimeout = 2 * time.Second
	}
	o.MasterName, o.SentinelAddrs, o.TLSConfig = master, p.hosts, p.tls
	o.SentinelUsername, o.SentinelPassword = username, password
	o.Username = p.u.User.Username()
	o.Password, _ = p.u.User.Password()
	if p.dial != nil {
		o.Dialer, o.TLSConfig = overTLS(p.dial, p.tls), nil
	}
	o.DialerRetries = cmp.Or(o.DialerRetries, dials)
	t.client = redis.NewFailoverClient(o)
	t.address = fmt.Sprintf("Redis behind Sentinel %s, master %s, database %d", strings.Join(p.hosts, ", "), master, o.DB)
	return nil
}

// notForLocks are options of go-redis that other parts of the URL set, or that allow reading
// from replicas, which may not know who holds a name.
var notForLocks = []string{
	"addr", "db", "username", "password", "master_name", "read_only", "route_by_latency", "route_by_latency_tolerance",
	"route_randomly", "replica_only", "use_disconnected_replicas",
}

// rest adds missing ports to the hosts, and returns a URL for go-redis with only the
// options, which are the same for all kinds of URL.
func (p *urlParts) rest(port string) (string, error) {
	for i, h := range p.hosts {
		u, err := url.Parse("redis://" + h)
		if err != nil || u.Hostname() == "" || u.User != nil { //mutant:redis-url-names-each-host
			return "", fmt.Errorf("a host of it is empty or cannot be read: want ://host:port,host:port")
		}
		p.hosts[i] = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	}
	for key := range p.query {
		if slices.Contains(notForLocks, key) {
			return "", fmt.Errorf("unexpected option: %s", key)
		}
	}
	if p.tls != nil && p.query.Has("skip_verify") {
		skip, err := strconv.ParseBool(p.query.Get("skip_verify"))
		if err != nil {
			return "", fmt.Errorf("skip_verify=%.20s: want true or false", p.query.Get("skip_verify"))
		}
		p.tls.InsecureSkipVerify = skip
		p.query.Del("skip_verify")
	}
	return "redis://host?" + p.query.Encode(), nil
}

// handshakeTime bounds a TLS handshake on a dialer's connection.
const handshakeTime = 5 * time.Second

// overTLS adds TLS to the connections of dial if config is not nil.
func overTLS(dial dialer, config *tls.Config) dialer {
	if config == nil {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := config.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil && c.ServerName == "" {
			c.ServerName = host
		}
		secure := tls.Client(conn, c)
		ctx, cancel := context.WithTimeout(ctx, handshakeTime) // the context of a mailbox has no deadline
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
}
