package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

type traceKey struct{}

// traced is a context with a trace, which ends with the test.
func traced(t *testing.T, trace string) context.Context {
	return context.WithValue(t.Context(), traceKey{}, trace)
}

// A tracing store records for each call the trace in its context, and whether the
// context has the caller's deadline.
type tracing struct {
	withNotifications
	mu       sync.Mutex
	traces   map[string]string // by the call, the newest trace, and after it the traces that it is linked to
	deadline time.Time         // no call may have this deadline
	hangs    bool              // a release hangs until its context ends
	cause    error             // the cause of that end
}

func (s *tracing) note(ctx context.Context, op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces[op] = fmt.Sprint(ctx.Value(traceKey{}))
	var linked []string
	for _, c := range store.Claims(ctx) {
		linked = append(linked, fmt.Sprint(c.Value(traceKey{})))
	}
	if slices.Sort(linked); linked != nil {
		s.traces[op] += fmt.Sprint(linked)
	}
	if ctx.Err() != nil {
		s.t.Errorf("%s starts with a context that has ended", op)
	}
	if d, _ := ctx.Deadline(); d.Equal(s.deadline) {
		s.t.Errorf("%s has the deadline of its caller", op)
	}
}

// of is the newest trace of that call, and after it the traces that it is linked to.
func (s *tracing) of(op string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traces[op]
}

// all are the newest traces of all calls.
func (s *tracing) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.traces)
}

func (s *tracing) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.note(ctx, "ask")
	return s.withNotifications.Ask(ctx, c)
}

func (s *tracing) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	s.note(ctx, "renew")
	return s.withNotifications.Renew(ctx, holds)
}

func (s *tracing) Release(ctx context.Context, h store.Hold) error {
	s.note(ctx, "release")
	if s.hangs {
		<-ctx.Done()
		s.cause = context.Cause(ctx)
		return ctx.Err()
	}
	return s.withNotifications.Release(ctx, h)
}

func (s *tracing) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	s.note(ctx, "release all")
	return s.withNotifications.ReleaseAll(ctx, holds)
}

// A tracingPolls is a tracing store without notifications, so waiters poll.
type tracingPolls struct{ *tracing }

func (tracingPolls) Watch(context.Context, store.Process, func(store.Notification)) error {
	return store.ErrUnsupported
}

func (s tracingPolls) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.note(ctx, "poll")
	return withPolls{s.link}.Poll(ctx, c)
}

func (s *tracing) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	s.note(ctx, "change")
	return s.withNotifications.Change(ctx, h, turn, weight)
}

// A call for one claim has the values of the claim's context. A call for many claims
// has none, but can be linked to them.
func TestValues_ReachTheDriverOfOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
		locks := locker(t, s, nil)
		ctx, cancel := context.WithTimeout(traced(t, "trace 1"), time.Second)
		s.deadline, _ = ctx.Deadline()
		l, err := locks.RWMutex("a").Upgradeable().Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := l.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		release(t, l.Lease)
		same(t, "traces", s.all(), "map[ask:trace 1 change:trace 1 release:trace 1 renew:<nil>[trace 1]]")
	})
}

// Without notifications a wait polls. It withdraws its claim when its context ends,
// during an ask or between two polls.
func TestValues_ReachThePollsAndTheWithdrawalOfAWait(t *testing.T) {
	for name, of := range map[string]struct {
		ask, deadline time.Duration
		want          string
	}{
		"between two polls": {0, 7001 * time.Millisecond, "map[ask:trace 1 poll:trace 1 release:trace 1]"},
		"during an ask":     {3 * time.Second, time.Second, "map[ask:trace 1 release:trace 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
				other(t, s.mem, "a", time.Hour)
				s.on(func(c *call) fate { return fate{there: map[string]time.Duration{"ask": of.ask}[c.op]} })
				ctx, cancel := context.WithTimeout(traced(t, "trace 1"), of.deadline)
				defer cancel()
				s.deadline, _ = ctx.Deadline()
				_, err := locker(t, tracingPolls{s}, nil).Mutex("a").Lock(ctx)
				is(t, err, context.DeadlineExceeded)
				time.Sleep(time.Minute)
				same(t, "traces", s.all(), of.want)
			})
		})
	}
}

// Detach has the values of the claim, and Adopt has those of its caller.
func TestValues_ReachADetachAndAnAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
		locks := locker(t, s, nil)
		l, err := locks.Mutex("a").TryLock(traced(t, "trace 1"))
		if err != nil {
			t.Fatal(err)
		}
		ref, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "detach", s.of("renew"), "trace 1")
		adopted, err := locks.Adopt(traced(t, "trace 2"), ref)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "adopt", s.of("renew"), "trace 2")
		release(t, adopted)
		same(t, "its release", s.of("release"), "trace 2")
	})
}

// A lease that is handed over has its own claim's values.
func TestValues_AreThoseOfTheCurrentHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
		locks := locker(t, s, nil)
		l, err := locks.Mutex("a").TryLock(traced(t, "trace 1"))
		if err != nil {
			t.Fatal(err)
		}
		next := waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(traced(t, "trace 2")) })
		release(t, l)
		release(t, next.handed())
		same(t, "traces", s.all(), "map[ask:trace 1 release:trace 2]")
	})
}

// The calls that complete a set of names serve the one claim of the set.
func TestValues_ReachTheRenewalThatCompletesSeveral(t *testing.T) {
	for what, o := range map[string]*Options{"a minimum hold": {MinHold: time.Second}, "no renewal": {NoRenew: On}} {
		synctest.Test(t, func(t *testing.T) {
			s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
			locks := locker(t, s, o)
			leases, err := locks.All(locks.Mutex("a"), locks.Mutex("b")).TryLock(traced(t, "a set"))
			if err != nil {
				t.Fatal(err)
			}
			same(t, what, s.of("renew"), "a set")
			if err := leases.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A call for many claims names the claims that it serves, as they are at that time.
func TestValues_ABatchIsLinkedToTheClaimsThatItServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
		locks := locker(t, s, nil)
		first, err := locks.Mutex("a").TryLock(traced(t, "trace 1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locks.Mutex("b").TryLock(traced(t, "trace 2")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		same(t, "linked to", s.of("renew"), "<nil>[trace 1 trace 2]")
		next := waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(traced(t, "trace 3")) })
		release(t, first)
		next.handed()
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		same(t, "linked to", s.of("release all"), "<nil>[trace 2 trace 3]")
	})
}

// The caller's context ended long ago. A later call ends by its own bound, and a driver
// that asks for the cause sees that bound.
func TestValues_TheEndOfTheCallersContextEndsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tracing{withNotifications: withNotifications{newLink(t)}, traces: map[string]string{}}
		locks := locker(t, s, nil)
		ctx, cancel := context.WithCancelCause(traced(t, "trace 1"))
		l, err := locks.Mutex("a").TryLock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel(errors.New("the request is over"))
		s.hangs = true
		is(t, l.Release(), ErrUnavailable)
		same(t, "trace", s.of("release"), "trace 1")
		is(t, s.cause, context.DeadlineExceeded)
	})
}

func TestObserver_EventsSayWhoseTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, &Options{Note: "nightly"})
		ctx, cancel := context.WithTimeout(traced(t, "trace 1"), time.Second)
		l, err := locks.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(11 * time.Second)
		release(t, l)
		same(t, "events", o.reported(), "granted 0s, renewed 0s, released 11s")
		for _, e := range o.all {
			if e.ID.String() != l.ID() || e.Owner.Note != "nightly" || e.Context.Value(traceKey{}) != "trace 1" || e.Context.Err() != nil {
				t.Errorf("%v: %v %v %v", e.Kind, e.ID, e.Owner, e.Context.Value(traceKey{}))
			}
			if _, bound := e.Context.Deadline(); bound {
				t.Errorf("%v has a deadline", e.Kind)
			}
		}

		o.all = nil
		other(t, s.mem, "a", time.Hour)
		_, err = locks.Mutex("a").TryLock(traced(t, "trace 2"))
		is(t, err, ErrHeld)
		first := waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(traced(t, "trace 3")) })
		waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(traced(t, "trace 4")) })
		var traces []any
		for _, e := range append(o.all, o.waits...) {
			traces = append(traces, fmt.Sprint(e.Kind), e.Context.Value(traceKey{}), e.Owner.Note, e.ID == store.ID{})
		}
		same(t, "events of the waiters", strings.TrimSpace(fmt.Sprintln(traces...)), "refused trace 2 nightly false waiting trace 3 nightly false waiting trace 4 nightly true")
		first.cancel()
	})
}
