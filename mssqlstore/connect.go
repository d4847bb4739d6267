package mssqlstore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"
)

// Dial connects to an address. It is called for each connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A connector makes connections, and can break all of them. The driver bounds the dialing, and neither the log-in, nor, for five
// seconds, the cancelling of what a frozen server does not confirm.
type connector struct {
	*mssql.Connector
	dial  Dial
	limit time.Duration // to dial and log in

	ctx context.Context // ended by cut
	end context.CancelFunc

	mu    sync.Mutex
	conns map[*conn]bool
}

func newConnector(c msdsn.Config, dial Dial) *connector {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: c.KeepAlive}).DialContext
	}
	own := &connector{Connector: mssql.NewConnectorConfig(c), dial: dial, limit: 15 * time.Second, conns: map[*conn]bool{}}
	own.Dialer = own
	own.ctx, own.end = context.WithCancel(context.Background())
	return own
}

// A conn is one of a connector.
type conn struct {
	net.Conn
	of *connector
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	if err := c.Conn.Close(); !errors.Is(err, net.ErrClosed) { // by cut
		return err
	}
	return nil
}

// cut closes all connections, and those that are being made.
func (c *connector) cut() {
	c.end()
	c.mu.Lock()
	all := c.conns
	c.conns = map[*conn]bool{}
	c.mu.Unlock()
	for one := range all {
		one.Conn.Close()
	}
}

// A login is what Connect does once: its connections are closed when its time is over.
type login struct {
	ctx   context.Context
	mu    sync.Mutex
	stops []func() bool
}

type loginKey struct{}

var errLogin = errors.New("the server did not let us log in in time")

// Connect implements [driver.Connector]. It goes on without its caller, who does not wait for it, and what it makes is for the next: were
// it given up where a caller has less time than a log-in takes, none would ever be made.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.limit, errLogin) //mutant:mssql-login-outlives-its-caller
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	l := &login{ctx: ctx}
	made, err := c.Connector.Connect(context.WithValue(ctx, loginKey{}, l))
	l.mu.Lock()
	for _, stop := range l.stops {
		stop() // before cancel
	}
	l.mu.Unlock()
	if c.ctx.Err() == nil && ctx.Err() == nil {
		return made, err
	}
	if err == nil {
		made.Close()
	}
	return nil, cmp.Or(c.ctx.Err(), context.Cause(ctx))
}

// DialContext implements [mssql.Dialer]. It may be called for several addresses at once.
func (c *connector) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	one := &conn{raw, c}
	c.mu.Lock()
	c.conns[one] = true
	c.mu.Unlock()
	if l, ok := ctx.Value(loginKey{}).(*login); ok {
		l.mu.Lock()
		l.stops = append(l.stops, context.AfterFunc(l.ctx, func() { one.Close() })) //mutant:mssql-login-ends
		l.mu.Unlock()
	}
	return one, nil
}
