package natsstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(Open, "nats", "nats+tls")
}

// Open returns a Store on a connection of its own, which Close closes. The URL is
// nats://[user:password@]host:port[,host:port…][?option=value…], with the servers
// of one cluster, or nats+tls:// for TLS; a lone host may leave out its port, 4222. A
// user without a password is a token. The options are
//
//	bucket=NAME        Options.Bucket
//	replicas=N         Options.Replicas
//	domain=NAME        Options.Domain
//	creds=FILE         the user's credentials
//	ca=FILE            TLS, with this certificate authority
//	cert=FILE, key=FILE   TLS, with this certificate and its key
//
// Open does no I/O over the network except to connect, which continues in the background if no
// server can be reached yet. The error matches store.ErrInvalid, store.ErrDenied or
// store.ErrUnavailable, and does not show user or password.
func Open(rawURL string) (*Store, error) {
	c, o, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return OpenConfig(c, o)
}

// OpenConfig is [Open] with the result of [ParseURL], for a program that changes it first. It
// copies c, and its errors are those of [Open].
func OpenConfig(c *nats.Options, o *Options) (*Store, error) {
	var dialed atomic.Pointer[error]
	failed := make(chan struct{}, 1)
	own, callback := *c, c.ReconnectErrCB
	own.ReconnectErrCB = func(nc *nats.Conn, err error) {
		why := err
		if errors.Is(err, nats.ErrNoServers) { // the only error that the driver keeps if the first attempt was refused //mutant:nats-first-refusal-known
			why = fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
		}
		dialed.Store(&why)
		select {
		case failed <- struct{}{}:
		default:
		}
		if callback != nil {
			callback(nc, err) //mutant:nats-reconnect-told
		}
	}
	nc, err := own.Connect()
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("%w: NATS at %s refuses this user", store.ErrDenied, hosts(c.Servers))
	case err != nil:
		return nil, fmt.Errorf("%w: connect to NATS at %s: %w", store.ErrUnavailable, hosts(c.Servers), err)
	}
	b, err := newBackend(nc, o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	b.opened, b.dialed = true, &dialed
	if !nc.IsConnected() { //mutant:nats-first-failure-awaited
		select {
		case <-failed: // the driver calls this at once, in a goroutine of its own
		case <-time.After(c.Timeout): // it was connected, and no longer is
		}
	}
	return storeOf(b), nil
}

// ParseURL returns the settings of the connection, and the Options, of a URL of [Open]. The error
// matches store.ErrInvalid and shows no part of the URL that may hold a password.
func ParseURL(rawURL string) (*nats.Options, *Options, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: the NATS URL is wrong: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	// A url.URL can have only one host.
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok { //mutant:nats-url-has-a-host
		return nil, nil, bad("want nats://host:port")
	}
	end := len(rest)
	if n := strings.IndexAny(rest, "/?#"); n >= 0 {
		end = n
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	u, err := url.Parse(scheme + "://" + rest[:at] + "host" + rest[end:])
	if err != nil {
		return nil, nil, bad("want nats://user:password@host:port,host:port, with special characters of the password as %%XX")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme != "nats" && u.Scheme != "nats+tls":
		return nil, nil, bad("it begins with nats:// or nats+tls://")
	case err != nil:
		return nil, nil, bad("what follows the ? cannot be read")
	case u.Path != "" && u.Path != "/" || u.Fragment != "":
		return nil, nil, bad("nothing but options may be behind the hosts: the bucket is ?bucket=…")
	}
	c, o := nats.GetDefaultOptions(), Options{Bucket: DefaultBucket, Replicas: 1}
	c.Name, c.Timeout = "holdfast", 2*time.Second
	c.RetryOnFailedConnect, c.MaxReconnect, c.ReconnectWait = true, -1, 250*time.Millisecond
	c.ReconnectBufSize = -1 // a late request does harm
	c.PingInterval, c.MaxPingsOut = 3*time.Second, 1
	c.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // failures are returned as errors
	var cert, key string
	for option, values := range query {
		value := values[len(values)-1]
		switch option {
		case "bucket":
			o.Bucket = value
		case "domain":
			o.Domain = value
		case "replicas":
			if o.Replicas, err = strconv.Atoi(value); err != nil {
				return nil, nil, bad("replicas is a number")
			}
		case "creds":
			err = nats.UserCredentials(value)(&c)
		case "ca":
			err = nats.RootCAs(value)(&c)
		case "cert":
			cert = value
		case "key":
			key = value
		default:
			return nil, nil, bad("there is no option %.20q; there are: bucket, replicas, domain, creds, ca, cert, key", option)
		}
		if err != nil {
			return nil, nil, bad("%s: %v", option, err)
		}
	}
	if cert != "" || key != "" {
		if err := nats.ClientCert(cert, key)(&c); err != nil {
			return nil, nil, bad("cert and key: %v", err)
		}
	}
	c.Secure = c.Secure || u.Scheme == "nats+tls"
	for host := range strings.SplitSeq(rest[at:end], ",") {
		if host == "" || host[0] == ':' { // a missing host must not mean this host, where each process would have its own locks //mutant:nats-url-names-each-host
			return nil, nil, bad("it names no host, or an empty one: want nats://host:port,host:port")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "4222")
		}
		if _, err := url.Parse("nats://" + host); err != nil || strings.ContainsAny(host, "@?/") {
			return nil, nil, bad("a host is host:port")
		}
		c.Servers = append(c.Servers, "nats://"+host)
	}
	if u.User != nil {
		password, has := u.User.Password()
		if c.User, c.Password = u.User.Username(), password; !has {
			c.User, c.Token = "", u.User.Username()
		}
	}
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	return &c, &o, nil
}
