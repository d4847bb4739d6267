package zkstore

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// A wire is the connection of a ZooKeeper session, which the driver replaces when it breaks. It
// reads from the stream what the driver does not return: the timeout that the server grants, and
// the newest transaction seen. It also keeps the driver from beginning another session after this
// one has expired, and from waiting long for a hung member.
type wire struct {
	b *backend

	// lapses is set for a holdfast session. That lasts only from one renewal to the next, so the
	// driver's pings are dropped, and it reconnects only for a request.
	lapses time.Duration

	mu      sync.Mutex
	conn    net.Conn
	granted time.Duration // 0: not known yet
	zxid    uint64        // the newest seen
	heardAt store.Instant // when anything was last received
	wanted  int           // requests under way
	changed chan struct{} // closed when wanted or ended changes
	ended   chan struct{} // closed with the session: no more connections

	asked    map[watched]int             // watching reads under way
	fresh    map[watched]int             // reads of the newest state under way
	expected map[watched][]chan zk.Event // waiting listeners
}

func newWire(b *backend, lapses time.Duration) *wire {
	return &wire{
		b: b, lapses: lapses, changed: make(chan struct{}), ended: make(chan struct{}),
		asked: map[watched]int{}, fresh: map[watched]int{}, expected: map[watched][]chan zk.Event{},
	}
}

var errEnded = errors.New("the session has ended")

// longestGreeting bounds how long a member may take to answer a new connection. The driver waits
// for several times the timeout.
const longestGreeting = 3 * time.Second

func (w *wire) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if !w.mayDial() {
		return nil, errEnded
	}
	ctx, cancel := context.WithTimeout(w.b.ctx, timeout)
	defer cancel()
	c, err := w.b.o.Dial(ctx, network, address)
	w.b.dialed.Store(&err)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over() {
		c.Close()
		return nil, errEnded
	}
	w.conn = &greeted{Conn: c, w: w}
	return w.conn, nil
}

// mayDial waits until there is a request to connect for, because a new connection renews the
// session. A session without a request for its timeout has expired.
func (w *wire) mayDial() bool {
	late := make(<-chan time.Time)
	if w.lapses > 0 {
		timer := time.NewTimer(w.lapses)
		defer timer.Stop()
		late = timer.C
	}
	for {
		w.mu.Lock()
		wanted, changed := w.wanted > 0 || w.lapses == 0, w.changed //mutant:zk-reconnect-renews
		w.mu.Unlock()
		if wanted {
			return !w.over()
		}
		select {
		case <-changed:
		case <-w.ended:
			return false
		case <-late:
			w.end()
			return false
		}
	}
}

// want notes that n requests have begun, or with a negative n ended.
func (w *wire) want(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted += n
	close(w.changed)
	w.changed = make(chan struct{})
}

// rest waits until no request is under way, or patience has passed.
func (w *wire) rest(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		wanted, changed := w.wanted > 0, w.changed
		w.mu.Unlock()
		if !wanted {
			return
		}
		select {
		case <-changed:
		case <-w.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (w *wire) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// end ends the connection for good, and lets the session time out. No expected event comes any
// more.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over() {
		return
	}
	close(w.ended)
	for what := range w.expected {
		w.wake(what, zk.Event{Type: zk.EventNotWatching}) //mutant:zk-end-wakes
	}
}

// drop makes the driver reconnect to the next member if nothing was received since the given
// instant: the present member is silent. The driver would wait for two thirds of the timeout.
func (w *wire) drop(since store.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil && w.heardAt < since {
		w.conn.Close()
	}
}

func (w *wire) timeout() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.granted
}

// newest returns the newest transaction seen.
func (w *wire) newest() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.zxid
}

// A greeted connection parses what it reads. Only one of the driver's goroutines reads at a time,
// and one writes.
type greeted struct {
	net.Conn
	w         *wire
	messages  messages
	asked, is bool // for the greeting; and it was received
}

// messages parses what a server sends. Each message has 20 bytes or more. First comes its length.
// In the first message, the greeting, follow the version of the protocol, the timeout and the
// session; in an answer its number, the newest transaction and the error.
type messages struct {
	head     [20]byte
	at, size int // position in the message, and its size
}

// pass processes b, and calls begins once the beginning of a message is complete.
func (m *messages) pass(b []byte, begins func(head []byte)) {
	for len(b) > 0 {
		if m.at >= len(m.head) {
			k := min(m.size-m.at, len(b))
			if m.at, b = m.at+k, b[k:]; m.at == m.size {
				m.at = 0
			}
			continue
		}
		k := copy(m.head[m.at:], b)
		if m.at, b = m.at+k, b[k:]; m.at == len(m.head) {
			m.size = 4 + int(binary.BigEndian.Uint32(m.head[:]))
			begins(m.head[:])
		}
	}
}

func (c *greeted) Write(b []byte) (int, error) {
	if !c.asked { // the greeting is no request
		c.asked = true
		return c.Conn.Write(b)
	}
	out := c.w.outgoing(b)
	if len(out) == 0 {
		return len(b), nil
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *greeted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.messages.pass(b[:n], c.begins)
	return n, err
}

func (c *greeted) begins(head []byte) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.heardAt = store.Now()
	switch {
	case !c.is:
		c.is = true
		if ms := binary.BigEndian.Uint32(head[8:]); ms > 0 { // 0: the session has ended
			c.w.granted = time.Duration(ms) * time.Millisecond
		}
	case int32(binary.BigEndian.Uint32(head[4:])) >= 0: // otherwise it is an event
		c.w.zxid = max(c.w.zxid, binary.BigEndian.Uint64(head[8:]))
	}
}

func (c *greeted) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(longestGreeting); !c.is && (t.IsZero() || t.After(latest)) { //mutant:zk-greeting-bounded
		t = latest
	} else if c.is && c.w.lapses > 0 {
		t = time.Time{} // without pings the connection is silent between two requests
	}
	return c.Conn.SetReadDeadline(t)
}

// hosts chooses which member is tried next. The driver's own provider would pause for a second
// before it tries a lone member again, and would look names up only once.
type hosts struct {
	mu    sync.Mutex
	all   []string
	next  int
	tried int // since the last connection
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

// Next also reports whether all were tried without success, so that the driver pauses and answers
// its waiting callers.
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

// quiet is the driver's log: failures are returned as errors.
var quiet = log.New(io.Discard, "", 0)

// A link is a ZooKeeper session and its connection.
type link struct {
	*wire
	conn   *zk.Conn
	events <-chan zk.Event // closed when the driver has ended
}

// ownBuffer is enough for all requests on the connection of a holdfast session: the largest join.
// The driver has two such buffers.
const ownBuffer = record.MaxNotes * (record.MaxNote*4/3 + 3*store.MaxName + 1<<10)

// connect begins to connect. lapses is as in wire. over is called once the session has ended.
func (b *backend) connect(timeout, lapses time.Duration, over func()) (*link, error) {
	l := &link{wire: newWire(b, lapses)}
	send, receive := 5<<18, 0 // 0: unlimited
	if lapses > 0 {
		send, receive = ownBuffer, ownBuffer
	}
	var err error
	l.conn, l.events, err = zk.Connect(b.servers, timeout, zk.WithMaxConnBufferSize(send), zk.WithMaxBufferSize(receive), zk.WithDialer(l.dial), zk.WithHostProvider(&hosts{}), zk.WithEventCallback(func(e zk.Event) {
		l.heard(e)
		if e.State == zk.StateExpired {
			l.end()
		}
	}), zk.WithLogger(quiet), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	b.tasks.Go(func() { // so that nothing of it runs after Close
		<-l.ended
		over()
		l.mu.Lock()
		if l.wire.conn != nil {
			l.wire.conn.Close()
		}
		l.mu.Unlock()
		l.conn.Close()
		for range l.events {
		}
	})
	return l, nil
}

// farewell ends the session now if the server can be reached; otherwise the session times out.
func (l *link) farewell() {
	l.conn.Close()
	l.end()
}

// ask runs one request of the driver, which does not support contexts. When ctx ends, ask returns
// and the request continues.
func ask[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	sent := store.Now()
	l.want(1)
	l.b.tasks.Go(func() {
		defer l.want(-1)
		answer, err := f(l.conn)
		done <- result{answer, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			l.drop(sent) //mutant:zk-silent-member-dropped
		}
		return answer, ctx.Err()
	case <-l.ended:
		return answer, zk.ErrSessionExpired
	}
}

// greet authenticates the session.
func (l *link) greet(c *zk.Conn) error {
	for _, a := range l.b.o.Auth { //mutant:zk-session-authenticates
		if err := c.AddAuth(a.Scheme, []byte(a.Secret)); err != nil {
			return err
		}
	}
	return nil
}
