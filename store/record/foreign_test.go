package record_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// A shared server is one whose locks other programs use, too.
type shared struct {
	*recordtest.Client

	mu    sync.Mutex
	alone bool // no other program has used it yet
	held  *record.Foreign
	shown string // the Holder of the newest swap, unless another program has changed that
	loads int
}

// holds lets another program take the lock from everybody; nil: it gives the lock back.
func (s *shared) holds(f *record.Foreign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone, s.held, s.shown = false, f, ""
}

// version returns the version with the holder: it changes with that.
func (s *shared) version(of string) string {
	if s.held == nil {
		return of + " " + s.shown
	}
	return of + " of another program " + s.held.Owner
}

func (s *shared) with(r record.Record) record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Foreign, r.Shared, r.Free = s.held, !s.alone, s.held == nil && s.shown == ""; r.Version != "" {
		r.Version = s.version(r.Version)
	}
	return r
}

// shows is whom other programs see.
func (s *shared) shows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// startShared starts a process on a server that polls, has a clock, and is shared.
func startShared(t *testing.T) (*shared, *process) {
	t.Helper()
	s := &shared{Client: recordtest.NewMemory(recordtest.Options{Quiet: true}).Client()}
	return s, startOn(t, s.Client, s, false)
}

// reads is how many reads there were.
func (s *shared) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads
}

func (s *shared) Load(ctx context.Context, name string) (record.Record, error) {
	s.mu.Lock()
	s.loads++
	s.mu.Unlock()
	r, err := s.Client.Load(ctx, name)
	return s.with(r), err
}

func (s *shared) Swap(ctx context.Context, w *record.Swap) (record.Outcome, error) {
	of, _, _ := strings.Cut(w.Old.Version, " ")
	s.mu.Lock()
	changed := w.Old.Version != "" && w.Old.Version != s.version(of)
	s.mu.Unlock()
	if changed {
		return record.Outcome{}, nil
	}
	one := *w
	one.Old.Version = of
	out, err := s.Client.Swap(ctx, &one)
	if s.mu.Lock(); out.Done && s.held == nil {
		s.shown = w.Holder
	}
	s.mu.Unlock()
	out.Now = s.with(out.Now)
	return out, err
}

// A lock that a program without holdfast holds is a hold: claims are refused, or wait in order, until it is gone.
func TestAForeignHolderIsRespected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		s.holds(&record.Foreign{Owner: "controller-1", Age: time.Minute, Left: time.Hour})
		a := p.ask(p.claim(try))
		if a.Granted || len(a.Holders) != 1 {
			t.Fatalf("got %+v, want a refusal with one holder", a)
		}
		if h := a.Holders[0]; !strings.Contains(h.Owner.String(), "controller-1") || h.Age < time.Minute || h.Ends > time.Hour {
			t.Errorf("got the holder %+v", h)
		}
		for _, now := range []bool{false, true} {
			if err := p.BreakHold(t.Context(), store.Break{Name: at, ID: a.Holders[0].ID, Token: a.Holders[0].Token, Now: now}); !errors.Is(err, store.ErrUnsupported) {
				t.Errorf("a break of it, now %v: got %v, want ErrUnsupported", now, err)
			}
		}
		first, second := p.claim(), p.claim()
		p.waits(first)
		p.waits(second)
		until(t, "both are in the record", func() bool { p.ask(first); return record.EntriesForTest(p.stored().Data) == 2 })
		s.holds(&record.Foreign{Owner: "controller-2", Left: time.Hour}) // it has changed hands
		if a := p.ask(first); a.Granted || len(a.Holders) != 1 || !strings.Contains(a.Holders[0].Owner.String(), "controller-2") {
			t.Errorf("got %+v, want a refusal with the other holder only", a)
		}
		s.holds(nil)
		until(t, "the first claim is granted", func() bool { return p.ask(first).Granted })
		if p.ask(second).Granted {
			t.Error("two hold the name")
		}
		p.releases(store.Hold{Name: at, ID: first.ID})
		until(t, "the second claim is granted", func() bool { return p.ask(second).Granted })
	})
}

// Another program's record may claim any time.
func TestAForeignHolderOfAnyAgeIsRespected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		for _, age := range []time.Duration{-time.Hour, math.MaxInt64} {
			s.holds(&record.Foreign{Owner: "controller-1", Age: age, Left: time.Hour})
			if a := p.ask(p.claim(try)); a.Granted || len(a.Holders) != 1 || a.Holders[0].Age < 0 {
				t.Errorf("of the age %v: got %+v, want a refusal with one holder", age, a)
			}
		}
		s.holds(nil)
		if !p.ask(p.claim(try)).Granted {
			t.Error("the name stays held")
		}
	})
}

// A program without holdfast that is gone, and has not given its lock back, holds it no longer than it said.
func TestAForeignHolderEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		const left = time.Minute
		gone := store.Now().Add(left)
		for i := 0; ; i++ {
			s.holds(nil)
			if d := gone.Sub(store.Now()); d > 0 {
				s.holds(&record.Foreign{Owner: "controller-1", Left: d})
			}
			c := p.claim(try)
			if p.ask(c).Granted {
				break
			}
			if i > 100 {
				t.Fatal("it is never granted")
			}
			time.Sleep(time.Second)
		}
		if d := gone.Sub(store.Now()); d > 0 {
			t.Errorf("granted %v too early", d)
		}
	})
}
