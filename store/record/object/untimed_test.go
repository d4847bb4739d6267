package object

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// silences are what a server, or a proxy, may not tell.
var silences = []string{"Date", "Last-Modified", "Date, Last-Modified"}

// silently runs f on a server that does not tell that.
func silently(t *testing.T, f func(t *testing.T, m *memory)) {
	for _, what := range silences {
		t.Run("no "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.silent = what
				m.passes(100 * time.Hour) // whatever it is
				f(t, m)
			})
		})
	}
}

// A session is over once it was seen unchanged for its TTL, and is closed in a way that no late renewal can pass.
func TestWithoutAClockASessionIsWatchedForItsTTL(t *testing.T) {
	silently(t, func(t *testing.T, m *memory) {
		a, b := backendOn(t, m), backendOn(t, m)
		id := begin(t, a, MinTTL)
		time.Sleep(time.Hour)
		if left := leftOf(t, b, id); left != MinTTL || b.Doubt(id) != MinTTL {
			t.Fatalf("%v left, in doubt for %v, want %v for both", left, b.Doubt(id), MinTTL)
		}
		time.Sleep(MinTTL - time.Second)
		if _, err := a.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if left := leftOf(t, b, id); left != MinTTL || b.Doubt(id) != 0 {
			t.Fatalf("a session that was renewed: %v left, in doubt for %v", left, b.Doubt(id))
		}
		time.Sleep(MinTTL)
		if left := leftOf(t, b, id); left > 0 || b.Doubt(id) != 0 {
			t.Fatalf("a session that has ended: %v left, in doubt for %v", left, b.Doubt(id))
		}
		if _, err := a.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
			t.Errorf("a later renewal: got %v, want ErrLost", err)
		}
		if left := leftOf(t, backendOn(t, m), id); left > 0 {
			t.Errorf("for a process that comes later %v are left", left)
		}
	})
}

// It is written between the last look and the close.
func TestWithoutAClockASessionThatIsRenewedMeanwhileGoesOn(t *testing.T) {
	silently(t, func(t *testing.T, m *memory) {
		a, b := backendOn(t, m), backendOn(t, m)
		id := begin(t, a, MinTTL)
		leftOf(t, b, id)
		time.Sleep(MinTTL)
		m.meets(func(what, _ string, body []byte) answer {
			if what == "PUT" && strings.Contains(string(body), "closed") {
				m.meets(nil)
				if _, err := a.Renew(t.Context(), id); err != nil {
					t.Errorf("renewal: %v", err)
				}
			}
			return 0
		})
		if left := leftOf(t, b, id); left != MinTTL || b.Doubt(id) != 0 {
			t.Errorf("a session that was renewed: %v left, in doubt for %v", left, b.Doubt(id))
		}
	})
}

// Its owner has stopped to count on it long before anybody can have watched it for its TTL.
func TestWithoutAClockASessionEndsForItsOwnerFirst(t *testing.T) {
	silently(t, func(t *testing.T, m *memory) {
		a, b, id := backendOn(t, m), backendOn(t, m), session.NewID()
		began := store.Now()
		lasts, err := a.Begin(t.Context(), id, MinTTL)
		if err != nil {
			t.Fatal(err)
		}
		for leftOf(t, b, id) > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := store.Now().Sub(began); took <= lasts || took > MinTTL+time.Second {
			t.Errorf("the session ended after %v, but its process relies on %v", took, lasts)
		}
	})
}

// A proxy may leave out what the server tells, so one answer has it and another has not.
func TestASessionIsJudgedByEitherTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := backendOn(t, m), backendOn(t, m)
		id := begin(t, a, MinTTL)
		for range 20 { // it is renewed all the time
			m.silent = []string{"", "Date"}[len(m.asked)%2]
			if left := leftOf(t, b, id); left <= 0 {
				t.Fatal("the session has ended, although it is renewed")
			}
			time.Sleep(MinTTL / 2)
			m.passes(MinTTL / 2)
			if _, err := a.Renew(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		m.silent = "Date"
		leftOf(t, b, id)
		m.passes(MinTTL)
		m.silent = ""
		if left := leftOf(t, b, id); left > 0 || b.Doubt(id) != 0 {
			t.Errorf("a session that has ended by the server's time: %v left, in doubt for %v", left, b.Doubt(id))
		}
	})
}

// tries is a job that cron starts: a new process, which tries until it is sure.
func tries(t *testing.T, m *memory, ttl time.Duration) bool {
	t.Helper()
	s := record.New(described{New(m, "memory", "locks/")})
	defer s.Close()
	for {
		_, a := asks(t, s, func(c *store.Claim) { c.TTL = ttl })
		if a.Granted || a.Unsure == 0 {
			return a.Granted
		}
		time.Sleep(min(a.Unsure, time.Second))
	}
}

// A silenced server answers nothing of one process any more.
type silenced struct {
	*memory
	dead chan struct{}
}

func (s silenced) Put(ctx context.Context, key string, body []byte, version string) (Object, Fate, error) {
	select {
	case <-s.dead:
		return Object{}, 0, errLost
	default:
		return s.memory.Put(ctx, key, body, version)
	}
}

// Each try is a process of its own, which sees the dead one's session for the first time, and watches it. While the holder lives each says that the
// name is held.
func TestACronOfTriesGetsWhatADeadProcessHeldWithoutServerTime(t *testing.T) {
	const ttl = 20 * time.Second
	for _, period := range []time.Duration{5 * time.Second, time.Minute} {
		silently(t, func(t *testing.T, m *memory) {
			dead := make(chan struct{})
			holder := record.New(described{New(silenced{m, dead}, "memory", "locks/")})
			defer holder.Close()
			h, a := asks(t, holder, func(c *store.Claim) { c.TTL = ttl })
			if !a.Granted {
				t.Fatal("the first claim was refused")
			}
			h.TTL = ttl
			go func() {
				for holder.Renew(context.Background(), []store.Hold{h})[0].Err == nil {
					select {
					case <-dead:
						return
					case <-time.After(ttl / 4):
					}
				}
			}()
			began, killed, refused := time.Now(), time.Time{}, 0
			for {
				time.Sleep(period - time.Since(began)%period) // the next is started by the clock, once this has ended
				if killed.IsZero() && refused == 3 {
					close(dead)
					killed = time.Now()
				}
				if tries(t, m, ttl) {
					break
				}
				if refused++; refused > 20 {
					t.Fatal("refused too often after the death of the holder")
				}
			}
			if killed.IsZero() {
				t.Fatal("granted while the holder lives")
			}
			if took := time.Since(killed); took > ttl+time.Second+period {
				t.Errorf("granted after %v, want at most the TTL, a second and a period of %v", took, period)
			}
		})
	}
}

// Of what is old nothing is known, so the sweep leaves all.
func TestTheSweepDeletesNothingWithoutServerTime(t *testing.T) {
	silently(t, func(t *testing.T, m *memory) {
		b := New(m, "memory", "locks/")
		b.Atomic = func(string) bool { return true }
		t.Cleanup(func() { b.Close() })
		begin(t, b, MinTTL)
		swap(t, b, record.Record{}, true)
		join(t, b, "one")
		m.passes(1000 * time.Hour)
		b.Finish()
		before := m.keys()
		for range b.List(t.Context(), time.Second) {
		}
		b.Finish()
		if after := m.keys(); !slices.Equal(after, before) {
			t.Errorf("the sweep deleted keys: got %q, before %q", after, before)
		}
	})
}

// What is counted by the server's time is refused, and says why.
func TestAServerWithoutTimeHasNoMinimumHoldAndNoLockDelay(t *testing.T) {
	silently(t, func(t *testing.T, m *memory) {
		if m.silent == "Last-Modified" {
			return // its clock is known
		}
		for _, with := range []func(*store.Claim){func(c *store.Claim) { c.MinHold = time.Minute }, func(c *store.Claim) { c.LockDelay = time.Minute }} {
			s := storeOn(t, m)
			c := store.Claim{Name: "b", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: store.MaxPositionTTL}
			with(&c)
			if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "time") {
				t.Errorf("got %v, want ErrUnsupported that names the time", err)
			}
		}
	})
}
