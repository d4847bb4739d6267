package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// locker makes a Locker that is closed at the end of the test. A test that
// takes longer than any of them needs, which in a bubble takes no real time,
// is ended at once.
func locker(t testing.TB, s store.Store, o *Options) *Locker {
	t.Helper()
	endless := time.AfterFunc(60*time.Hour, func() { panic(t.Name() + " does not end") })
	t.Cleanup(func() { endless.Stop() })
	l, err := New(s, (&Options{Logger: slog.New(slog.DiscardHandler)}).with(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s, ok := s.(interface{ letGo() }); ok && t.Failed() {
			s.letGo()
		}
		if err := l.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return l
}

func (o *Options) with(more *Options) *Options { return more.over(o) }

// lock takes a mutex that must be free.
func lock(t testing.TB, l *Locker, name string) *Lease {
	t.Helper()
	lease, err := l.Mutex(name).TryLock(t.Context())
	if err != nil {
		t.Fatal("TryLock:", err)
	}
	return lease
}

func release(t testing.TB, l grant) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Fatal("Release:", err)
	}
}

// A waiter is a Lock under way.
type waiter struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	lease  *Lease
	err    error
	at     time.Time // when it ended
}

// waits begins to wait, and returns once the waiter is blocked.
func waits(t testing.TB, lock func(context.Context) (*Lease, error)) *waiter {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiter{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(w.done)
		w.lease, w.err = lock(ctx)
		w.at = time.Now()
	}()
	synctest.Wait()
	return w
}

// waiting checks that the waiter still waits.
func (w *waiter) waiting() {
	w.t.Helper()
	synctest.Wait()
	select {
	case <-w.done:
		w.t.Fatalf("the wait has ended: lease %v, error %v", w.lease != nil, w.err)
	default:
	}
}

// wait waits for the end, for a day at most, which in a bubble takes no time.
func (w *waiter) wait() {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(24 * time.Hour):
		w.t.Fatal("still waiting after 24 hours")
	}
}

// got returns the lease that the wait must end with.
func (w *waiter) got() *Lease {
	w.t.Helper()
	w.wait()
	if w.err != nil {
		w.t.Fatal("Lock:", w.err)
	}
	return w.lease
}

// failed returns the error that the wait must end with.
func (w *waiter) failed(with ...error) {
	w.t.Helper()
	w.wait()
	is(w.t, w.err, with...)
}

// is checks that err matches all of these.
func is(t testing.TB, err error, all ...error) {
	t.Helper()
	for _, e := range all {
		if !errors.Is(err, e) {
			t.Fatalf("got error %v, want one that matches %q", err, e)
		}
	}
}

// isNot checks that err matches none of these.
func isNot(t testing.TB, err error, none ...error) {
	t.Helper()
	for _, e := range none {
		if errors.Is(err, e) {
			t.Fatalf("error %v matches %q, want one that does not", err, e)
		}
	}
}

// over reports whether the channel is closed.
func over(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// same checks two times, or durations, for equality.
func same[T comparable](t testing.TB, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Fatalf("%s: got %v, want %v", what, have, want)
	}
}

// stored is the state of the name in the store.
func stored(mem *memstore.Store, name string) (st store.State) {
	for s := range mem.List(context.Background(), name) {
		st = s
	}
	return st
}

// empty checks that nothing is left in the store.
func empty(t testing.TB, mem *memstore.Store) {
	t.Helper()
	for s := range mem.List(context.Background(), "") {
		t.Errorf("%q is left in the store, with %d entries", s.Name, len(s.Entries))
	}
}

// another is a claim of another process, made directly in the store.
type another struct {
	t   testing.TB
	mem *memstore.Store
	c   store.Claim
	a   store.Answer
}

// other asks for the whole name from another process, for a hold without
// renewal.
func other(t testing.TB, mem *memstore.Store, name string, ttl time.Duration) *another {
	t.Helper()
	o := &another{t: t, mem: mem, c: store.Claim{
		Name: name, ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full,
		TTL: ttl, PositionTTL: min(ttl, store.MaxPositionTTL), Owner: Owner{Host: "elsewhere", PID: 1}.Stored(),
	}}
	o.ask()
	return o
}

func (o *another) ask() bool {
	o.t.Helper()
	var err error
	if o.a, err = o.mem.Ask(context.Background(), o.c); err != nil {
		o.t.Fatal("Ask of the other process:", err)
	}
	return o.a.Granted
}

func (o *another) release() {
	o.t.Helper()
	h := store.Hold{Name: o.c.Name, ID: o.c.ID, Token: o.a.Token}
	if err := o.mem.Release(context.Background(), h); err != nil {
		o.t.Fatal("Release of the other process:", err)
	}
}

// drop is onNotification for notifications that never arrive.
func drop(store.Notification) []store.Notification { return nil }

// skewed is a store of one name whose clock is wrong.
type skewed struct {
	off time.Duration
	mu  sync.Mutex
	q   queue.Queue
}

func (s *skewed) now() queue.Time { return queue.At(time.Now().Add(s.off)) }

func (s *skewed) Ask(_ context.Context, c store.Claim) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, _, err := s.q.Ask(s.now(), c.Name, &c)
	return a, err
}

func (s *skewed) Renew(_ context.Context, holds []store.Hold) []store.Renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]store.Renewal, len(holds))
	for i := range holds {
		out[i], _ = s.q.Renew(s.now(), &holds[i])
	}
	return out
}

func (s *skewed) Release(_ context.Context, h store.Hold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.q.Release(s.now(), &h)
	return err
}

func (s *skewed) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	for i, h := range holds {
		out[i] = s.Release(ctx, h)
	}
	return out
}

func (s *skewed) Change(_ context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, _, err := s.q.Change(s.now(), &h, turn, weight)
	return a, err
}

func (s *skewed) Close() error { return nil }
func (s *skewed) Describe() store.Description {
	return store.Description{Store: "skewed", MinTTL: time.Second, MaxTTL: time.Hour, Tick: time.Microsecond}
}

// heldBy is the only holder in a refusal.
func heldBy(t testing.TB, err error) Holder {
	t.Helper()
	var held *HeldError
	if !errors.As(err, &held) || len(held.Holders) != 1 {
		t.Fatalf("got error %v, want ErrHeld with one holder", err)
	}
	return held.Holders[0]
}
