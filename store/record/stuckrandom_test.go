package record_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// stuckWorld is processes that want a few names, on a server where now and then the sessions of one process are locked.
type stuckWorld struct {
	t    *testing.T
	m    *recordtest.Memory
	wild bool // requests are also lost, or come late

	mu     sync.Mutex
	r      *rand.Rand
	locked map[session.ID]bool
	held   map[string]*holdfast.Lease
	lost   int
	got    int
}

func (w *stuckWorld) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n)
}

func (w *stuckWorld) span(d time.Duration) time.Duration {
	return time.Duration(w.n(int(d/time.Millisecond))) * time.Millisecond
}

func (w *stuckWorld) fate(q recordtest.Request) recordtest.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch q.Op {
	case recordtest.OpRenew, recordtest.OpEnd, recordtest.OpCall:
		if w.locked[q.Session] {
			return recordtest.Hangs
		}
	case recordtest.OpNotify, recordtest.OpListen, recordtest.OpAwait:
		return recordtest.Answered
	}
	if w.wild {
		switch w.r.IntN(60) {
		case 0:
			return recordtest.Hangs
		case 1:
			return recordtest.Unanswered
		case 2:
			return recordtest.Late
		case 3:
			return recordtest.Twice
		}
	}
	return recordtest.Answered
}

// took records a grant, and checks that no other lease is valid.
func (w *stuckWorld) took(l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.held[l.Name()]
	if was != nil && was.Valid() && l.Valid() {
		w.t.Errorf("%q is held with tokens %d and %d at the same time", l.Name(), was.Token(), l.Token())
	}
	if was != nil && was.Token() >= l.Token() {
		w.t.Errorf("%q: got token %d after %d, want a larger one", l.Name(), l.Token(), was.Token())
	}
	w.held[l.Name()] = l
	w.got++
}

// acts takes names, keeps each for a while, hands some over, and releases them.
func (w *stuckWorld) acts(l *holdfast.Locker, end time.Time) {
	for time.Now().Before(end) {
		name := fmt.Sprint(w.n(4))
		ctx, cancel := context.WithTimeout(context.Background(), w.span(40*time.Second)+time.Second)
		lease, err := l.Mutex(name).Lock(ctx)
		cancel()
		if err != nil {
			time.Sleep(w.span(time.Second))
			continue
		}
		w.took(lease)
		if w.n(8) == 0 { // handed over; a locked session cannot be called for that, so it may be given up then
			ref, err := lease.Detach()
			if err != nil {
				_ = lease.Release()
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			lease, err = l.Adopt(ctx, ref)
			if cancel(); err != nil {
				continue
			}
			w.mu.Lock()
			w.held[name] = lease
			w.mu.Unlock()
		}
		select {
		case <-time.After(w.span(60 * time.Second)):
			_ = lease.Release()
		case <-lease.Lost():
			w.mu.Lock()
			w.lost++
			w.mu.Unlock()
			if lease.Valid() {
				w.t.Errorf("%q is lost, but valid", name)
			}
		}
		time.Sleep(w.span(time.Second))
	}
}

// runStuck runs the processes for twenty minutes. In the end each name is free. Leases can be lost: a hold that is granted while all
// sessions of its process are locked may have no time to leave them.
func runStuck(t *testing.T, o recordtest.Options, seed uint64, wild bool) {
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(slow(o))
		w := &stuckWorld{t: t, m: m, wild: wild, r: rand.New(rand.NewPCG(seed, 1)), locked: map[session.ID]bool{}, held: map[string]*holdfast.Lease{}}
		end := time.Now().Add(20 * time.Minute)
		var all sync.WaitGroup
		var lockers []*holdfast.Locker
		var stores []*record.Store
		for i := range 3 {
			c := m.Client()
			c.Fates(w.fate)
			r := record.New(backendOf(c, o))
			ttl := []time.Duration{30 * time.Second, 30 * time.Second, 8 * time.Second}[i]
			l, err := holdfast.New(watching(r, o), &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			lockers, stores = append(lockers, l), append(stores, r)
			other := l.With(&holdfast.Options{TTL: 12 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			for j := range 3 {
				by := l
				if j == 2 {
					by = other
				}
				all.Go(func() { w.acts(by, end) })
			}
		}
		all.Go(func() {
			for time.Now().Before(end) {
				p := stores[w.n(3)]
				part := w.n(3)
				w.mu.Lock()
				if !wild || w.r.IntN(3) == 0 {
					clear(w.locked)
				}
				for _, id := range p.Sessions() {
					if part > 0 || w.r.IntN(2) == 0 {
						w.locked[id] = true
					}
				}
				w.mu.Unlock()
				if wild {
					time.Sleep(w.span(20 * time.Second))
					m.Deliver()
				} else {
					time.Sleep(35*time.Second + w.span(time.Minute))
				}
			}
		})
		all.Wait()
		w.mu.Lock()
		w.wild = false
		clear(w.locked)
		w.mu.Unlock()
		m.Deliver()
		time.Sleep(3 * time.Minute)
		for i := range 4 {
			// A detached hold may be seen for the first time now. Without a clock it ends a TTL after that.
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			lease, err := lockers[0].Mutex(fmt.Sprint(i)).Lock(ctx)
			cancel()
			if err != nil {
				t.Errorf("seed %d: name %d stays taken: %v", seed, i, err)
				continue
			}
			_ = lease.Release()
		}
		if n := len(m.Sessions()); n > 12 && o.Life != session.ByOwnClock {
			t.Errorf("seed %d: %d sessions are left", seed, n)
		}
		for _, l := range lockers {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := len(m.Sessions()); n > 0 && o.Life != session.ByOwnClock {
			t.Errorf("seed %d: %d sessions after Close", seed, n)
		}
		t.Logf("seed %d: %d grants, %d lost", seed, w.got, w.lost)
	})
}

// Whatever is locked and lost, no two processes hold a name at once, and all names come free.
func TestNoTwoHoldANameWhileSessionsAreLocked(t *testing.T) {
	t.Parallel()
	seeds := uint64(1)
	if testserver.Nightly() {
		seeds = 4
	}
	for seed := range seeds {
		for _, kind := range servers {
			for _, wild := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", kind.name, seed, wild), func(t *testing.T) {
					t.Parallel()
					runStuck(t, kind.o, seed, wild)
				})
			}
		}
	}
}
