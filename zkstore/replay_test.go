package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A replay keeps the transactions on names that a store sends, so that they can arrive once more. It can silence the
// connection of one of them and then reset it.
type replay struct {
	mu    sync.Mutex
	conns []*replayed // the newest last
	sent  []*sent
	loss  *loss
}

// A loss is the fault of one transaction: it does not arrive, or its answer does not. From then on its connection is
// silent.
type loss struct {
	of       string // a path in the transaction
	itself   bool
	arrived  func() // called before the answer is lost, if not nil
	met      chan struct{}
	on       *replayed
	answerOf uint32
}

// A sent transaction, of a session of ZooKeeper.
type sent struct {
	session uint64
	packet  []byte
}

// A replayed connection. Fields are guarded by replay.mu unless their comment says otherwise.
type replayed struct {
	net.Conn
	of       *replay
	writing  sync.Mutex
	messages messages // used by the reader
	session  uint64   // 0: not greeted yet
	silent   bool
	gone     chan struct{} // closed when the connection is
	once     sync.Once
	awaited  map[uint32]chan struct{} // by the numbers of the repeated transactions
}

func (r *replay) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &replayed{Conn: c, of: r, gone: make(chan struct{}), awaited: map[uint32]chan struct{}{}}
	r.conns = append(r.conns, x)
	return x, nil
}

// replayOn is a store whose transactions can be lost, and can arrive again.
func replayOn(t testing.TB, o *Options, addr string) (*Store, *replay) {
	t.Helper()
	r, through := &replay{}, *o
	through.Dial = r.dial
	return closing(t, storeOn(t, &through, addr)), r
}

const opMulti = 14

// Write is called for one request.
func (x *replayed) Write(b []byte) (int, error) {
	x.of.mu.Lock()
	swallowed := x.silent
	if len(b) > 12 && x.session != 0 && !swallowed && binary.BigEndian.Uint32(b[8:]) == opMulti && bytes.Contains(b, []byte("/n/")) {
		x.of.sent = append(x.of.sent, &sent{x.session, bytes.Clone(b)})
		if l := x.of.loss; l != nil && l.on == nil && bytes.Contains(b, []byte(l.of)) {
			l.on, l.answerOf = x, binary.BigEndian.Uint32(b[4:])
			if l.itself {
				x.silent, swallowed = true, true
				close(l.met)
			}
		}
	}
	x.of.mu.Unlock()
	if swallowed {
		return len(b), nil
	}
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.Conn.Write(b)
}

func (x *replayed) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	x.messages.pass(b[:n], x.begins)
	x.of.mu.Lock()
	silent := x.silent
	x.of.mu.Unlock()
	if silent {
		<-x.gone
		return 0, net.ErrClosed
	}
	return n, err
}

// begins records the session of a greeting, and which requests are answered.
func (x *replayed) begins(head []byte) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.session == 0 {
		x.session = binary.BigEndian.Uint64(head[12:])
		return
	}
	number := binary.BigEndian.Uint32(head[4:])
	if answered := x.awaited[number]; answered != nil {
		delete(x.awaited, number)
		close(answered)
	}
	l := x.of.loss
	if l == nil || l.on != x || l.answerOf != number || x.silent {
		return
	}
	if l.arrived != nil {
		x.of.mu.Unlock()
		l.arrived()
		x.of.mu.Lock()
	}
	x.silent = true
	close(l.met)
}

func (x *replayed) Close() error {
	x.once.Do(func() { close(x.gone) })
	return x.Conn.Close()
}

// unanswered calls f. The next transaction with the path in it gets no answer: either it does not arrive, or its answer
// does not. Then the connection is reset. It returns the result of f.
func (r *replay) unanswered(t testing.TB, l *loss, f func() error) error {
	t.Helper()
	l.met = make(chan struct{})
	r.mu.Lock()
	r.loss = l
	r.mu.Unlock()
	failed := make(chan error, 1)
	go func() { failed <- f() }()
	select {
	case <-l.met:
	case err := <-failed:
		t.Fatalf("the transaction was answered: %v", err)
	case <-time.After(patience):
		t.Fatalf("after %v nothing was sent for %s", patience, l.of)
	}
	r.mu.Lock()
	x := l.on
	r.loss = nil
	r.mu.Unlock()
	x.Close()
	return <-failed
}

// again makes everything that was sent so far arrive once more, in its session and in order. It returns once all was
// answered. At least one of the sessions must still live.
func (r *replay) again(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	all := slices.Clone(r.sent)
	r.mu.Unlock()
	arrived := 0
	for i, s := range all {
		number := 0x7fff0000 + uint32(i) // a number that the driver does not use
		packet := bytes.Clone(s.packet)
		binary.BigEndian.PutUint32(packet[4:], number)
		answered := make(chan struct{})
		r.mu.Lock()
		var x *replayed
		for _, one := range r.conns {
			if one.session == s.session {
				x = one
			}
		}
		x.awaited[number] = answered
		r.mu.Unlock()
		x.writing.Lock()
		_, err := x.Conn.Write(packet)
		x.writing.Unlock()
		if err != nil {
			continue // its session has ended or expires
		}
		select {
		case <-answered:
			arrived++
		case <-x.gone:
		case <-time.After(patience):
			t.Fatalf("within %v the late packet got no answer", patience)
		}
	}
	if arrived == 0 {
		t.Fatal("no packet arrived again") // the test would show nothing
	}
}

// withdrawn gives a claim up, and repeats that until it is answered.
func withdrawn(t testing.TB, s *Store, h store.Hold) {
	t.Helper()
	until(t, "the ask is withdrawn", func() bool {
		err := s.Release(t.Context(), h)
		return err == nil || store.Definite(err)
	})
}
