package object

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

func begin(t *testing.T, b *Backend, ttl time.Duration) session.ID {
	t.Helper()
	id := session.NewID()
	lasts, err := b.Begin(t.Context(), id, ttl)
	if err != nil {
		t.Fatal(err)
	}
	if lasts <= 0 {
		t.Fatalf("a session with a TTL of %v lasts %v", ttl, lasts)
	}
	return id
}

func leftOf(t *testing.T, b *Backend, id session.ID) time.Duration {
	t.Helper()
	left, err := b.Left(t.Context(), []session.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	return left[0]
}

// Whatever is cut of the times: no session is over before its owner has stopped to count on it, none goes on for longer than
// its TTL, and none ends before it was said that it would.
func TestASessionIsJudgedByTheServersTimeAtAnyCut(t *testing.T) {
	const step = 50 * time.Millisecond
	for at := time.Duration(0); at < time.Second; at += step {
		m := newMemory()
		b := backendOn(t, m)
		m.passes(at)
		id := begin(t, b, 10*time.Second)
		said := time.Duration(0)
		for passed := time.Duration(0); ; passed += step {
			left := leftOf(t, b, id)
			if left <= 0 {
				if passed <= 10*time.Second-margin+time.Second-step || passed > 10*time.Second || passed < said {
					t.Errorf("begun %v after a full second: the session ended after %v, and was reported to last until %v", at, passed, said)
				}
				break
			}
			if left > soon {
				said = max(said, passed+left)
			}
			m.passes(step)
		}
	}
}

// A process that has never seen the session judges it at once, and closes it in a way that no late renewal can pass.
func TestASessionHasEndedForEveryProcess(t *testing.T) {
	m := newMemory()
	a := backendOn(t, m)
	id := begin(t, a, MinTTL)
	m.passes(MinTTL)
	if left := leftOf(t, backendOn(t, m), id); left > 0 {
		t.Fatalf("%v left of a session that has ended", left)
	}
	if _, err := a.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
		t.Errorf("a later renewal: got %v, want ErrLost", err)
	}
}

// A session that is renewed between the look and its end goes on; one that is closed is so before a late renewal.
func TestASessionThatIsRenewedMeanwhileGoesOn(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	id := begin(t, a, MinTTL)
	m.passes(MinTTL)
	m.meets(func(what, _ string, body []byte) answer {
		if what == "PUT" && strings.Contains(string(body), "closed") {
			m.meets(nil)
			if _, err := a.Renew(t.Context(), id); err != nil {
				t.Errorf("renewal: %v", err)
			}
		}
		return 0
	})
	if left := leftOf(t, b, id); left <= 0 {
		t.Error("the session has ended, although it was renewed")
	}
	if _, err := a.Renew(t.Context(), id); err != nil {
		t.Errorf("a later renewal: %v", err)
	}
}

// One that was not answered may be done, and so may one that was refused as another was under way.
func TestAnUnansweredRenewalIsFoundAgain(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	id := begin(t, b, MinTTL)
	for _, a := range []answer{lost, beside} {
		m.meets(func(what, _ string, _ []byte) answer {
			if what != "PUT" {
				return 0
			}
			m.meets(nil)
			return a
		})
		if _, err := b.Renew(t.Context(), id); a == lost && !errors.Is(err, errLost) || a == beside && err != nil {
			t.Errorf("renewal: got %v", err)
		}
		if _, err := b.Renew(t.Context(), id); err != nil {
			t.Errorf("the next renewal: %v", err)
		}
	}
}

// A proxy may send a write twice: the first is done, and the second is refused.
func TestASessionLivesThoughItsWritesAreSentTwice(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	m.meets(func(what, _ string, _ []byte) answer {
		if what != "PUT" {
			return 0
		}
		m.meets(nil)
		return twice
	})
	id := begin(t, b, MinTTL)
	for range 3 {
		m.meets(func(what, _ string, _ []byte) answer {
			if what != "PUT" {
				return 0
			}
			m.meets(nil)
			return twice
		})
		if _, err := b.Renew(t.Context(), id); err != nil {
			t.Fatalf("renewal: %v", err)
		}
		m.passes(MinTTL - margin)
	}
	if left := leftOf(t, backendOn(t, m), id); left <= 0 {
		t.Error("the session has ended")
	}
}

// A proxy sends its creation a second time after another process has closed and deleted it.
func TestASessionThatHasEndedIsNotRenewedThoughItComesBack(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	var created []byte
	m.meets(func(what, _ string, body []byte) answer {
		if what == "PUT" {
			created = body
		}
		return 0
	})
	id := begin(t, a, MinTTL)
	m.meets(nil)
	if _, err := a.Renew(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	m.passes(MinTTL)
	if left := leftOf(t, b, id); left > 0 {
		t.Fatalf("%v left of a session that has ended", left)
	}
	b.Finish()
	if _, what, _ := m.Put(t.Context(), a.sessionKey(id), created, ""); what != Done {
		t.Fatal("the session was not deleted")
	}
	if _, err := a.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
		t.Errorf("a renewal: got %v, want ErrLost", err)
	}
}

// Some servers also refuse a write while they delete a neighbor of its object. A few say so of what they have done after all.
func TestASessionIsBegunThoughAnotherRequestIsUnderWay(t *testing.T) {
	for name, done := range map[string]bool{"refused": false, "done": true} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			b := backendOn(t, m)
			met := false
			m.meets(func(what, key string, body []byte) answer {
				if what != "PUT" {
					return 0
				}
				m.meets(nil)
				if met = true; done {
					m.Put(t.Context(), key, body, "")
				}
				return beside
			})
			id := begin(t, b, MinTTL)
			if _, err := b.Renew(t.Context(), id); err != nil || !met {
				t.Errorf("renewal: %v", err)
			}
			m.passes(MinTTL - margin)
			if left := leftOf(t, backendOn(t, m), id); left <= 0 {
				t.Error("the session has ended")
			}
		})
	}
}

// Its owner has read the calls, and says so; their object may be gone.
func TestCallsAreCountedAfterTheirObjectIsDeleted(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	id := begin(t, a, MinTTL)
	calls := func() int64 {
		n, err := a.Renew(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for want := int64(1); want < 4; want++ {
		if err := b.Call(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if n := calls(); n != want {
			t.Errorf("got %d calls, want %d", n, want)
		}
		calls() // which writes that it has read them
		if err := m.Delete(t.Context(), a.callKey(id), ""); err != nil {
			t.Fatal(err)
		}
		if n := calls(); n != want {
			t.Errorf("after the deletion: got %d calls, want %d", n, want)
		}
	}
}

// As of holds that were detached.
func TestAnUnrenewedSessionIsForgotten(t *testing.T) {
	b := backendOn(t, newMemory())
	renewed, old := begin(t, b, MinTTL), begin(t, b, MinTTL)
	for _, o := range b.own {
		o.used = o.used.Add(-time.Hour)
	}
	if _, err := b.Renew(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if begin(t, b, MinTTL); len(b.own) != 2 || b.own[renewed] == nil || b.own[old] != nil {
		t.Fatalf("%d sessions are kept, want the renewed one and the new one", len(b.own))
	}
}

// Its owner has stopped to count on it before anybody can find it over, and a second before that, for clocks that differ.
func TestASessionLastsLessThanItsTTL(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	m.passes(999 * time.Millisecond) // the most is cut of when it was begun
	id := session.NewID()
	lasts, err := b.Begin(t.Context(), id, MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	m.passes(lasts + time.Second)
	if left := leftOf(t, b, id); left <= 0 {
		t.Errorf("its process relies on it for %v, but it ended within a second after that", lasts)
	}
}
