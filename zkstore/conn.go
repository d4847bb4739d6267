package zkstore

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A wire is the connection under a session, which the driver makes anew when it
// breaks. It reads along what the driver does not tell: the timeout that the server
// grants; and it keeps the driver from what it must not do: begin another
// session when this one has expired, and wait long for a member that hangs.
type wire struct {
	s *Store

	mu      sync.Mutex
	conn    net.Conn
	granted time.Duration // 0: not known yet
	closed  bool          // no more connections

	asked    map[watched]int             // reads that watch, under way
	expected map[watched][]chan zk.Event // who waits for something to happen
}

var errEnded = errors.New("the session is over")

// longestGreeting bounds how long a member may take to answer to a new
// connection. The driver waits for several times the timeout.
const longestGreeting = 3 * time.Second

func (w *wire) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return nil, errEnded
	}
	ctx, cancel := context.WithTimeout(w.s.ctx, timeout)
	defer cancel()
	c, err := w.s.o.Dial(ctx, network, address)
	w.s.dialed.Store(&err)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		c.Close()
		return nil, errEnded
	}
	g := &greeted{Conn: c, w: w}
	w.conn = g
	return g, nil
}

// cut ends the connection for good.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.conn != nil {
		w.conn.Close()
	}
}

// drop has the driver connect anew, to the next member: the one that it has is silent.
// The driver would wait for two thirds of the timeout.
func (w *wire) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.conn.Close()
	}
}

// expire keeps the driver from beginning another session.
func (w *wire) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

func (w *wire) timeout() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.granted
}

// A greeted connection begins with the server's answer: its length, the version of the
// protocol, and the timeout, four bytes each. Only one of the driver's goroutines
// reads at a time, and one writes.
type greeted struct {
	net.Conn
	w    *wire
	head [12]byte
	n    int

	asked bool // for the greeting
}

func (c *greeted) Write(b []byte) (int, error) {
	if !c.asked { // the greeting is no request
		c.asked = true
		return c.Conn.Write(b)
	}
	return c.Conn.Write(c.w.outgoing(b))
}

func (c *greeted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.n < len(c.head) && n > 0 {
		if c.n += copy(c.head[c.n:], b[:n]); c.n == len(c.head) {
			if ms := binary.BigEndian.Uint32(c.head[8:]); ms > 0 { // 0: there is no such session any more
				c.w.mu.Lock()
				c.w.granted = time.Duration(ms) * time.Millisecond
				c.w.mu.Unlock()
			}
		}
	}
	return n, err
}

func (c *greeted) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(longestGreeting); c.n == 0 && (t.IsZero() || t.After(latest)) { //mutant:zk-greeting-bounded
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// hosts says which member is tried next. The driver's own would pause for a second before
// the only one is tried again, and would look names up but once.
type hosts struct {
	mu    sync.Mutex
	all   []string
	next  int
	tried int // since there was a connection
}

func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = servers
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// Next also says whether all were tried in vain, so that the driver pauses, and
// answers whoever waits.
func (h *hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.all[h.next%len(h.all)]
	h.next++
	h.tried++
	return server, h.tried > 1 && h.tried%len(h.all) == 1%len(h.all)
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// quiet is a log of the driver's: what goes wrong is told by errors.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect begins to connect; events is called for all that happens, and must not
// block.
func (s *Store) connect(timeout time.Duration, w *wire, events func(zk.Event)) (*zk.Conn, <-chan zk.Event, error) {
	return zk.Connect(s.servers, timeout, zk.WithDialer(w.dial), zk.WithHostProvider(&hosts{}), zk.WithEventCallback(events), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
}

// await runs one request of the driver's, which knows no contexts. When ctx ends
// it returns, and the request goes on: stray is closed when that has come to its
// end. If there is none, stray is nil.
func (s *Store) await(ctx context.Context, f func() error) (stray <-chan struct{}, err error) {
	done := make(chan struct{})
	result := make(chan error, 1)
	s.tasks.Go(func() {
		defer close(done)
		result <- f()
	})
	select {
	case err := <-result:
		return nil, err
	case <-ctx.Done():
		return done, ctx.Err()
	}
}
