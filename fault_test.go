package holdfast

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// suspended is how long the machine has slept, as these tests simulate it.
var suspended atomic.Int64

// realSlept is the function that the engine uses outside of tests.
var realSlept = clock.Slept

func TestMain(m *testing.M) {
	clock.Slept = func() time.Duration { return time.Duration(suspended.Load()) }
	goleak.VerifyTestMain(m)
}

// suspend lets the machine sleep: the boot clock advances, timers do not.
func suspend(d time.Duration) { suspended.Add(int64(d)) }

// A link is a memory store behind a connection that can be faulty. By default
// it works and takes no time. It records all calls, and fails the test
// if two calls for one claim overlap.
type link struct {
	t    testing.TB
	mem  *memstore.Store
	desc store.Description

	mu           sync.Mutex
	calls        []*call
	count        map[string]int // of calls of each op
	busy         map[store.ID]*call
	fate         func(*call) fate                              // what becomes of a call; nil: it works
	notification func(store.Notification) []store.Notification // what becomes of a notification; nil: it arrives

	sink func(store.Notification) // of the engine that watches

	once sync.Once
	end  chan struct{} // closed when the test ends, which ends all calls that hang
}

// A call is one operation of the engine on the store.
type call struct {
	op     string // ask, try, look, renew, release, withdraw, watch
	name   string
	id     store.ID
	claim  store.Claim  // of an ask, a try and a look
	holds  []store.Hold // of the others
	turn   int32        // of a change
	weight int64        // of a change
	n      int          // how many calls of this op were before it
	sent   time.Time
	done   time.Time // zero: under way
	err    error     // how it came out; of a renewal only what the link did to it
}

// A fate is what happens to a call. The zero fate: it works, at once.
type fate struct {
	there  time.Duration   // how long the request is on its way
	back   time.Duration   // how long the answer is on its way
	hang   <-chan struct{} // until this is closed, whatever the call's context says
	fail   error           // it is not applied
	lose   error           // it is applied, and the answer is lost
	answer func(*store.Answer)
	renew  func(i int, r *store.Renewal)

	released func(i int, err *error)
}

var errLink = errors.New("the link is down")

// newLink returns a link to a memory store of its own.
func newLink(t testing.TB) *link { return linkTo(t, memstore.New()) }

func linkTo(t testing.TB, mem *memstore.Store) *link {
	s := &link{t: t, mem: mem, busy: map[store.ID]*call{}, count: map[string]int{}, desc: mem.Describe(), end: make(chan struct{})}
	s.desc.Store, s.desc.InProcess = "a link", false
	return s
}

// on decides about each call from now on.
func (s *link) on(f func(*call) fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate = f
}

// onNotification decides about each notification from now on.
func (s *link) onNotification(f func(store.Notification) []store.Notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notification = f
}

// made returns the calls so far, of the given ops or all.
func (s *link) made(ops ...string) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*call
	for _, c := range s.calls {
		if len(ops) == 0 || slices.Contains(ops, c.op) {
			copied := *c
			all = append(all, &copied)
		}
	}
	return all
}

// underway is how many calls of the op have not come back.
func (s *link) underway(op string) (n int) {
	for _, c := range s.made(op) {
		if c.done.IsZero() {
			n++
		}
	}
	return n
}

// ops is what was done so far, in order.
func (s *link) ops() string {
	var ops []string
	for _, c := range s.made() {
		ops = append(ops, c.op)
	}
	return strings.Join(ops, " ")
}

// do is one operation from end to end.
func (s *link) do(ctx context.Context, c *call, ids []store.ID, apply func(fate) error) error {
	s.mu.Lock()
	c.n = s.count[c.op]
	s.count[c.op]++
	c.sent = time.Now()
	s.calls = append(s.calls, c)
	for _, id := range ids {
		if other := s.busy[id]; other != nil {
			s.t.Errorf("calls %s and %s of one claim overlap", other.op, c.op)
		}
		s.busy[id] = c
	}
	decide := s.fate
	s.mu.Unlock()
	var f fate
	if decide != nil {
		f = decide(c)
	}
	err := s.pass(ctx, f, apply)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.busy[id] == c {
			delete(s.busy, id)
		}
	}
	c.err, c.done = err, time.Now()
	return err
}

func (s *link) pass(ctx context.Context, f fate, apply func(fate) error) error {
	if err := travel(ctx, f.there); err != nil {
		return err
	}
	if f.fail != nil {
		return f.fail
	}
	err := apply(f)
	if f.hang != nil {
		select {
		case <-f.hang:
		case <-s.end:
		}
	}
	if late := travel(ctx, f.back); late != nil {
		return late
	}
	if f.lose != nil {
		return f.lose
	}
	return err
}

func travel(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *link) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	of := &call{op: "ask", name: c.Name, id: c.ID, claim: c}
	if c.Try {
		of.op = "try"
	}
	err = s.do(ctx, of, []store.ID{c.ID}, func(f fate) (err error) {
		if a, err = s.mem.Ask(ctx, c); f.answer != nil {
			f.answer(&a)
		}
		return err
	})
	return a, err
}

func (s *link) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	var ids []store.ID
	for _, h := range holds {
		ids = append(ids, h.ID)
	}
	var out []store.Renewal
	c := &call{op: "renew", name: holds[0].Name, id: ids[0], holds: slices.Clone(holds)}
	err := s.do(ctx, c, ids, func(f fate) error {
		out = s.mem.Renew(ctx, holds)
		for i := range out {
			if f.renew != nil {
				f.renew(i, &out[i])
			}
		}
		return nil
	})
	if err != nil { // the call failed, not one of its holds
		out = make([]store.Renewal, len(holds))
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

func (s *link) Release(ctx context.Context, h store.Hold) error {
	c := &call{op: "release", name: h.Name, id: h.ID, holds: []store.Hold{h}}
	if h.Token == 0 {
		c.op = "withdraw"
	}
	return s.do(ctx, c, []store.ID{h.ID}, func(fate) error { return s.mem.Release(ctx, h) })
}

func (s *link) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	var ids []store.ID
	for _, h := range holds {
		ids = append(ids, h.ID)
	}
	var out []error
	c := &call{op: "release all", name: holds[0].Name, id: ids[0], holds: slices.Clone(holds)}
	err := s.do(ctx, c, ids, func(f fate) error {
		out = s.mem.ReleaseAll(ctx, holds)
		for i := range out {
			if f.released != nil {
				f.released(i, &out[i])
			}
		}
		return nil
	})
	if err != nil { // the call failed, not one of its holds
		out = make([]error, len(holds))
		for i := range out {
			out[i] = err
		}
	}
	return out
}

func (s *link) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	of := &call{op: "change", name: h.Name, id: h.ID, holds: []store.Hold{h}, turn: turn, weight: weight}
	err = s.do(ctx, of, []store.ID{h.ID}, func(f fate) (err error) {
		if a, err = s.mem.Change(ctx, h, turn, weight); f.answer != nil {
			f.answer(&a)
		}
		return err
	})
	return a, err
}

func (s *link) Describe() store.Description { return s.desc }
func (s *link) Close() error                { return nil }

func (s *link) letGo() { s.once.Do(func() { close(s.end) }) }

// withNotifications is a link that can wake waiters.
type withNotifications struct{ *link }

func (s withNotifications) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	return s.do(ctx, &call{op: "watch"}, nil, func(fate) error {
		s.mu.Lock()
		s.sink = sink
		s.mu.Unlock()
		return s.mem.Watch(ctx, p, func(h store.Notification) {
			s.mu.Lock()
			notification := s.notification
			s.mu.Unlock()
			if notification == nil {
				sink(h)
				return
			}
			for _, h := range notification(h) {
				sink(h)
			}
		})
	})
}

// tell delivers a notification that the test has made.
func (s *link) tell(h store.Notification) {
	s.mu.Lock()
	sink := s.sink
	s.mu.Unlock()
	sink(h)
	synctest.Wait()
}

// withPolls is a link that supports polls and has no
// notifications.
type withPolls struct{ *link }

func (s withPolls) Poll(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	of := &call{op: "poll", name: c.Name, id: c.ID, claim: c}
	err = s.do(ctx, of, []store.ID{c.ID}, func(fate) (err error) {
		a, err = s.mem.Poll(ctx, c)
		return err
	})
	return a, err
}
