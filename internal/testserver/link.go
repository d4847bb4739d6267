package testserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Link is a client's connection path to a server, which can be cut.
type Link struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	isCut bool
	mode  silence
	after int           // pieces that still pass before the silence
	met   int           // pieces that the silence has kept back
	late  chan struct{} // closed once delayed answers may go on; nil: no delay
	asked int           // pieces that came from clients, since Delay if it was called
	conns map[*joined]bool
	tasks sync.WaitGroup
}

// A silence says what a link does not pass on, while its connections stay open.
type silence int

const (
	_       silence = iota
	answers         // from the server
	all             // both ways
	held            // both ways; data for the server can be delivered later
)

// joined is the pair of connections of one client.
type joined struct {
	client, server net.Conn
	kept           [][]byte // sent to the server, and held
	isReset        bool     // the client's end is closed; held data may still be delivered
	isOver         bool     // the server has closed it, and the client does not know yet
}

// NewLink makes a Link to an address. It is closed when the test ends.
func NewLink(t testing.TB, to string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{l: l, to: to, conns: map[*joined]bool{}}
	k.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.tasks.Go(func() { k.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.Cut()
		k.tasks.Wait()
	})
	return k
}

func (k *Link) Addr() string { return k.l.Addr().String() }

func (k *Link) carry(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer s.Close()
	x := &joined{client: c, server: s}
	k.mu.Lock()
	if k.isCut {
		k.mu.Unlock()
		return
	}
	k.conns[x] = true
	k.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(&tap{k, x, s, all}, c)
		if !k.outlives(x) {
			s.Close()
		}
	})
	both.Go(func() {
		io.Copy(&tap{k, x, c, answers}, s)
		k.end(x)
	})
	both.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, x)
}

// end closes the client's end after the server has closed the connection. During a silence the client does not learn
// of it until Mend: some servers close a connection on which they receive nothing.
func (k *Link) end(x *joined) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x.isOver = k.mode != 0 && k.after == 0; !x.isOver {
		x.client.Close()
	}
}

// outlives reports whether the server's end is still needed although the client's end is
// closed.
func (k *Link) outlives(x *joined) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return x.isReset && len(x.kept) > 0
}

// A tap swallows what is written to it while the link's silence covers its direction.
type tap struct {
	k    *Link
	x    *joined
	to   io.Writer
	from silence
}

func (t *tap) Write(b []byte) (int, error) {
	if t.swallows(b) {
		return len(b), nil
	}
	return t.to.Write(b)
}

func (t *tap) swallows(b []byte) bool {
	k := t.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if late := k.late; t.from == all {
		k.asked++
	} else if late != nil {
		k.mu.Unlock()
		<-late
		k.mu.Lock()
	}
	counted := answers // the direction in which the first pieces pass
	if k.mode == held {
		counted = all
	}
	switch {
	case t.x.isReset:
		return true
	case k.mode < t.from:
		return false
	case t.from == counted && k.after > 0:
		k.after--
		return false
	case k.mode == held && t.from == answers && k.after > 0:
		return false // the answer to a piece that has passed
	case k.mode == held && t.from == all:
		t.x.kept = append(t.x.kept, bytes.Clone(b))
	}
	k.met++
	return true
}

// Mute swallows the server's answers, until Mend.
func (k *Link) Mute() { k.silence(answers, 0) }

// Hush swallows all data both ways, until Mend.
func (k *Link) Hush() { k.silence(all, 0) }

// MuteAfter is Mute after this many more pieces of answers have passed.
func (k *Link) MuteAfter(pieces int) { k.silence(answers, pieces) }

// HoldAfter lets this many more pieces pass to the server. Then it holds what is sent to the
// server and swallows the server's answers, until Mend or Reset.
func (k *Link) HoldAfter(pieces int) { k.silence(held, pieces) }

// Delay holds the server's answers back until Mend, and loses none.
func (k *Link) Delay() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.late, k.asked = make(chan struct{}), 0
}

// Sent calls f with a context that is canceled once a client has sent something more, and returns f's error. So a
// request to a server that does not answer has been sent before it is given up, however busy the machine is.
func (k *Link) Sent(ctx context.Context, f func(context.Context) error) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	before, done := k.Asked(), make(chan error, 1)
	go func() { done <- f(asking) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Millisecond):
			if k.Asked() > before {
				cancel()
				return <-done
			}
		}
	}
}

// Asked returns how many pieces the clients have sent, since Delay if it was called.
func (k *Link) Asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// onTime lets delayed answers go on. Link.mu is held.
func (k *Link) onTime() {
	if k.late != nil {
		close(k.late)
		k.late = nil
	}
}

func (k *Link) silence(mode silence, after int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode, k.after, k.met = mode, after, 0
}

// Met returns how many pieces the silence has kept back so far.
func (k *Link) Met() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.met
}

// Reset resets all connections at the client's end; on new connections everything passes again.
// What was held on the old ones can be delivered.
func (k *Link) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode = 0
	for x := range k.conns {
		x.isReset = true
		if c, ok := x.client.(*net.TCPConn); ok {
			c.SetLinger(0)
		}
		x.client.Close()
	}
}

// Deliver sends what was held on reset connections to the server, a piece at a time: a server
// would not carry out a request that arrives together with its cancellation. The connections
// stay open, so that the server can carry it out.
func (k *Link) Deliver() {
	k.mu.Lock()
	var all []*joined
	for x := range k.conns {
		if x.isReset {
			all = append(all, x)
		}
	}
	k.mu.Unlock()
	for _, x := range all {
		for _, b := range x.kept {
			if _, err := x.server.Write(b); err != nil {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// Cut closes all connections, and new ones at once, until Mend.
func (k *Link) Cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = true
	k.onTime()
	for x := range k.conns {
		x.client.Close()
		x.server.Close()
	}
	clear(k.conns)
}

// Mend lets everything pass again, on new connections where they were cut.
func (k *Link) Mend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut, k.mode = false, 0
	k.onTime()
	for x := range k.conns {
		if x.isOver {
			x.client.Close()
		}
	}
}

// Links are a client's links to several servers.
type Links []*Link

// MuteAfter calls MuteAfter on each link.
func (all Links) MuteAfter(pieces int) {
	for _, k := range all {
		k.MuteAfter(pieces)
	}
}

// HoldAfter calls HoldAfter on each link.
func (all Links) HoldAfter(pieces int) {
	for _, k := range all {
		k.HoldAfter(pieces)
	}
}

// Met returns the sum over the links.
func (all Links) Met() (met int) {
	for _, k := range all {
		met += k.Met()
	}
	return met
}

// Reset calls Reset on each link.
func (all Links) Reset() {
	for _, k := range all {
		k.Reset()
	}
}

// Deliver calls Deliver on each link.
func (all Links) Deliver() {
	for _, k := range all {
		k.Deliver()
	}
}
