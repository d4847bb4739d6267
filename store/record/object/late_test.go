package object

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// A described backend is a whole record.Backend.
type described struct{ *Backend }

func (described) Describe() store.Description {
	return store.Description{Store: "memory", Crash: store.CrashTTL}
}

func (described) Check(context.Context) []store.Finding { return nil }

// storeOn is one more process, which has heard of nothing yet.
func storeOn(t *testing.T, m *memory) *record.Store {
	t.Helper()
	s := record.New(described{backendOn(t, m)})
	t.Cleanup(func() { s.Close() })
	return s
}

// asks asks for the name once, for a process of its own.
func asks(t *testing.T, s *record.Store, with func(*store.Claim)) (store.Hold, store.Answer) {
	t.Helper()
	c := store.Claim{Name: "a", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: store.MaxPositionTTL, Try: true}
	if with != nil {
		with(&c)
	}
	a, err := s.Ask(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}, a
}

// free is after how much more time of the server's a new process is granted the name, if the time that it is told is so old.
func free(t *testing.T, m *memory, cached time.Duration) (after time.Duration) {
	t.Helper()
	const step = 100 * time.Millisecond
	m.tells(cached)
	for ; after < time.Minute; after += step {
		if _, a := asks(t, storeOn(t, m), nil); a.Granted {
			return after
		}
		m.passes(step)
	}
	t.Fatal("the name does not become free")
	return 0
}

// ages are how old a time can be that is told, and then cut.
var ages = map[string]time.Duration{"fresh": 0, "old": time.Second, "a second ahead": -time.Second}

// The time that was told as the name was granted may be two seconds old, and the one that is told as somebody asks may be of a machine that
// is a second ahead.
func TestAMinimumHoldDoesNotEndEarlyByAnyTime(t *testing.T) {
	const keep = 5 * time.Second
	for began, first := range ages {
		for ends, then := range ages {
			m := newMemory()
			m.passes(999 * time.Millisecond) // the most is cut
			m.tells(first)
			a := storeOn(t, m)
			h, answer := asks(t, a, func(c *store.Claim) { c.MinHold = keep })
			if !answer.Granted {
				t.Fatal("the claim was refused")
			}
			if err := a.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			most := keep + a.Describe().Late
			if d := free(t, m, then); d < keep || d > most {
				t.Errorf("begun with a time that is %s, ended with one that is %s: it took %v, want %v to %v", began, ends, d, keep, most)
			}
		}
	}
}

func TestALockDelayDoesNotEndEarlyByAnyTime(t *testing.T) {
	const delay = 5 * time.Second
	for began, first := range ages {
		for ends, then := range ages {
			m := newMemory()
			a := storeOn(t, m)
			if _, answer := asks(t, a, func(c *store.Claim) { c.LockDelay = delay }); !answer.Granted {
				t.Fatal("the claim was refused")
			}
			m.passes(time.Hour + 2999*time.Millisecond) // it is not renewed so soon
			m.tells(first)
			if _, answer := asks(t, storeOn(t, m), nil); answer.Granted {
				t.Fatal("granted to the process that found the holder dead")
			}
			most := delay + a.Describe().Late
			if d := free(t, m, then); d < delay || d > most {
				t.Errorf("begun with a time that is %s, ended with one that is %s: it took %v, want %v to %v", began, ends, d, delay, most)
			}
		}
	}
}
