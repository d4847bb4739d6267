package memstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// clocked returns a store, and a function that lets seconds pass in it.
func clocked() (s *Store, pass func(seconds int64)) {
	now := queue.Time{Clock: 1, Wall: 1_700_000_000_000_000}
	s = newAt(func() queue.Time { return now })
	return s, func(seconds int64) {
		now.Clock += seconds * 1e6
		now.Wall += seconds * 1e6
	}
}

func take(t testing.TB, s *Store, c store.Claim) store.Hold {
	t.Helper()
	a, err := s.Ask(t.Context(), c)
	if err != nil || !a.Granted {
		t.Fatalf("ask for %q: got %+v, %v, want granted", c.Name, a, err)
	}
	return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
}

func waits(t testing.TB, s *Store, c store.Claim) {
	t.Helper()
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted {
		t.Fatalf("ask for %q: got %+v, %v, want refused", c.Name, a, err)
	}
}

// The store's clock runs backwards by many years, but no answer shows that.
func TestAStoreMadeOutsideABubbleWorksInIt(t *testing.T) {
	s := New()
	synctest.Test(t, func(t *testing.T) {
		c, w := claim("name"), claim("name")
		h := take(t, s, c)
		a, err := s.Ask(t.Context(), w)
		if err != nil || a.Granted || a.Until != c.TTL {
			t.Fatalf("got %+v, %v, want refused for %v", a, err, c.TTL)
		}
		time.Sleep(c.TTL - time.Millisecond)
		if r := s.Renew(t.Context(), []store.Hold{h}); r[0].Err != nil {
			t.Fatalf("renewal just in time: %v", r[0].Err)
		}
		time.Sleep(c.TTL)
		if r := s.Renew(t.Context(), []store.Hold{h}); !errors.Is(r[0].Err, store.ErrLost) {
			t.Fatalf("renewal too late: got %v, want ErrLost", r[0].Err)
		}
		take(t, s, claim("name"))
	})
}

func TestNothingIsKeptOfIdleNames(t *testing.T) {
	s := New()
	before := heap()
	const n = 200_000
	holds := make([]store.Hold, n)
	for i := range holds {
		holds[i] = take(t, s, claim(fmt.Sprint("name ", i)))
	}
	for i := range holds {
		if err := s.Release(t.Context(), holds[i]); err != nil {
			t.Fatal(err)
		}
	}
	newest := holds[n-1].Token
	holds = nil
	if len(s.names) != 0 {
		t.Fatalf("%d names are kept, want none", len(s.names))
	}
	if kept := heap() - before; kept > 100_000 {
		t.Errorf("%d bytes are kept of %d idle names, want at most 100,000", kept, n)
	}
	runtime.KeepAlive(s)
	if h := take(t, s, claim("name 0")); h.Token <= newest {
		t.Errorf("got token %d after %d, want a larger one", h.Token, newest)
	}
}

// A process that abandons a name does not come back to drop it.
func TestAbandonedNamesAreForgotten(t *testing.T) {
	s, pass := clocked()
	first := take(t, s, claim("name 0"))
	for i := range 10 * minSweep {
		take(t, s, claim(fmt.Sprint("name ", i+1)))
		if i%100 == 0 {
			pass(10)
		}
	}
	if n := len(s.names); n > 2*minSweep {
		t.Errorf("%d names are kept, although at most 301 have not expired", n)
	}
	if s.names["name 0"] != nil {
		t.Error("the first name is kept, although it has expired")
	}
	pass(-10_000)
	if h := take(t, s, claim("name 0")); h.Token <= first.Token {
		t.Errorf("got token %d after %d, want a larger one", h.Token, first.Token)
	}
}

// An ask with the id of an expired hold must not be granted as a new claim.
func TestANameIsForgottenWholeOrNotAtAll(t *testing.T) {
	s, pass := clocked()
	dead, w := claim("contended"), claim("contended")
	dead.TTL = 5e9
	take(t, s, dead)
	waits(t, s, w)
	pass(6)
	for i := range minSweep {
		take(t, s, claim(fmt.Sprint("name ", i)))
	}
	if a, err := s.Ask(t.Context(), dead); !errors.Is(err, store.ErrLost) {
		t.Fatalf("ask of an expired hold: got %+v, %v, want ErrLost", a, err)
	}
	take(t, s, w)
}

func TestAHeldNameCostsUnder200Bytes(t *testing.T) {
	if b := bytesAName(t, 100_000); b > 200 {
		t.Errorf("%.0f bytes a name, want at most 200", b)
	}
}

func TestAnUncontendedPairAllocatesNothing(t *testing.T) {
	s, c, ctx := New(), claim("name"), t.Context()
	n := testing.AllocsPerRun(1000, func() {
		a, err := s.Ask(ctx, c)
		if err != nil || !a.Granted {
			t.Fatal(a, err)
		}
		if err := s.Release(ctx, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestFailMakesEachOperationFailAndDoesNothing(t *testing.T) {
	s, ctx := New(), t.Context()
	h := take(t, s, claim("name"))
	away := errors.New("the store is away")
	var seen []string
	s.Fail(func(op, name string) error {
		seen = append(seen, op+" "+name)
		return away
	})
	other := claim("other")
	if _, err := s.Ask(ctx, other); !errors.Is(err, away) {
		t.Errorf("ask: got %v, want the error of Fail", err)
	}
	if _, err := s.Poll(ctx, other); !errors.Is(err, away) {
		t.Errorf("poll: got %v, want the error of Fail", err)
	}
	if r := s.Renew(ctx, []store.Hold{h}); !errors.Is(r[0].Err, away) {
		t.Errorf("renew: got %v, want the error of Fail", r)
	}
	if err := s.Release(ctx, h); !errors.Is(err, away) {
		t.Errorf("release: got %v, want the error of Fail", err)
	}
	for _, err := range s.List(ctx, "name") {
		if !errors.Is(err, away) {
			t.Errorf("list: got %v, want the error of Fail", err)
		}
	}
	if err := s.BreakHold(ctx, store.Break{Name: "name", ID: h.ID, Token: h.Token}); !errors.Is(err, away) {
		t.Errorf("break: got %v, want the error of Fail", err)
	}
	if want := []string{"ask other", "poll other", "renew name", "release name", "list name", "break name"}; !slices.Equal(seen, want) {
		t.Errorf("called for %q, want %q", seen, want)
	}
	s.Fail(nil)
	if r := s.Renew(ctx, []store.Hold{h}); r[0].Err != nil {
		t.Errorf("renewal once the store answers: %v", r[0].Err)
	}
	take(t, s, other)
}

func TestFailCanPickOneOperationOfOneName(t *testing.T) {
	s, ctx := New(), t.Context()
	one, two := take(t, s, claim("one")), take(t, s, claim("two"))
	away := errors.New("the store is away")
	s.Fail(func(op, name string) error {
		if op == "renew" && name == "one" {
			return away
		}
		return nil
	})
	if r := s.Renew(ctx, []store.Hold{one, two}); !errors.Is(r[0].Err, away) || r[1].Err != nil {
		t.Errorf("renewals: got %+v, want only the first to fail", r)
	}
	if err := s.Release(ctx, one); err != nil {
		t.Errorf("release: %v", err)
	}
}

func TestBreakLosesEveryHoldOfANameAndGrantsTheNext(t *testing.T) {
	s, ctx := New(), t.Context()
	reader := func(name string) store.Claim {
		c := claim(name)
		c.Weight = 1
		return c
	}
	one, two, other := take(t, s, reader("name")), take(t, s, reader("name")), take(t, s, claim("other"))
	w, later := claim("name"), claim("name")
	waits(t, s, w)
	waits(t, s, later)
	var notifications []store.Notification
	if err := s.Watch(ctx, w.ID.Process(), func(h store.Notification) { notifications = append(notifications, h) }); err != nil {
		t.Fatal(err)
	}
	s.Break("name")
	s.Break("a name that nobody uses")
	r := s.Renew(ctx, []store.Hold{one, two, other})
	if !errors.Is(r[0].Err, store.ErrLost) || !errors.Is(r[1].Err, store.ErrLost) || r[2].Err != nil {
		t.Errorf("renewals: got %+v, want the first two lost", r)
	}
	if len(notifications) != 1 || notifications[0].ID != w.ID {
		t.Fatalf("notifications: got %+v, want one, for the first waiter", notifications)
	}
	h := take(t, s, w)
	waits(t, s, later)
	if r := s.Renew(ctx, []store.Hold{h}); r[0].Err != nil {
		t.Errorf("renewal of the next hold: %v", r[0].Err)
	}
	if len(s.names) != 2 {
		t.Errorf("%d names are kept, want 2", len(s.names))
	}
}

// A Store may live as long as the process, while Lockers come and go.
func TestNothingIsKeptOfAClosedLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		take(t, s, claim("name"))
		const lockers = 200
		before := heap()
		for range lockers {
			l, err := holdfast.New(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := l.Mutex("name").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want a wait until the deadline", err)
			}
			cancel()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.sinks) > 0 {
			t.Fatalf("%d subscriptions of %d closed Lockers are kept, %d bytes a Locker", len(s.sinks), lockers, (heap()-before)/lockers)
		}
		if kept := (heap() - before) / lockers; kept > 300 {
			t.Fatalf("%d bytes are kept of each closed Locker", kept)
		}
		runtime.KeepAlive(s)
	})
}
