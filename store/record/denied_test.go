package record_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// A definite error says that this request has done nothing. The effects of earlier requests must still be undone.

// denying is a backend that for a while refuses its user everything except sessions, which have an older connection.
type denying struct {
	*recordtest.Client
	denies *atomic.Bool
}

func (b denying) Load(ctx context.Context, name string) (record.Record, error) {
	if b.denies.Load() {
		return record.Record{}, store.ErrDenied
	}
	return b.Client.Load(ctx, name)
}

func (b denying) Swap(ctx context.Context, s *record.Swap) (record.Outcome, error) {
	if b.denies.Load() {
		return record.Outcome{}, store.ErrDenied
	}
	return b.Client.Swap(ctx, s)
}

// startDenied starts a process that can be denied, and that holds a name all the time.
func startDenied(t *testing.T, m *recordtest.Memory) (*process, *atomic.Bool) {
	t.Helper()
	c, denies := m.Client(), new(atomic.Bool)
	p := startOn(t, c, denying{c, denies}, false)
	p.takes(p.claim(func(c *store.Claim) { c.Name = "another" }))
	return p, denies
}

func TestADeniedReleaseIsDoneLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, denies := startDenied(t, m)
		q := start(t, m, false)
		h := p.takes(p.claim())
		denies.Store(true)
		if err := p.Release(t.Context(), h); !errors.Is(err, store.ErrDenied) {
			t.Fatalf("release: got %v, want denied", err)
		}
		denies.Store(false)
		until(t, "the next is granted", func() bool { return q.ask(q.claim(try)).Granted })
	})
}

func TestADeniedWaiterIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, denies := startDenied(t, m)
		q := start(t, m, false)
		h := q.takes(q.claim())
		c := p.claim(lasting(store.MaxPositionTTL))
		p.waits(c)
		p.isDenied(c, denies)
		until(t, "the waiter is removed", func() bool { return slices.Equal(q.entries(), []store.ID{h.ID}) })
	})
}

func TestAnUnansweredAndThenDeniedClaimIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, denies := startDenied(t, m)
		q := start(t, m, false)
		c := p.claim()
		p.once(recordtest.OpSwap, 1, recordtest.Unanswered)
		p.unanswered(c)
		p.isDenied(c, denies)
		until(t, "the next is granted", func() bool { return q.ask(q.claim(try)).Granted })
	})
}

// isDenied asks once while the process is denied.
func (p *process) isDenied(c store.Claim, denies *atomic.Bool) {
	p.t.Helper()
	denies.Store(true)
	defer denies.Store(false)
	if a, err := p.Ask(p.t.Context(), c); !errors.Is(err, store.ErrDenied) {
		p.t.Fatalf("ask: got %+v, %v, want denied", a, err)
	}
}

// A hold stays as it is.
func TestAHoldThatIsAskedForAndDeniedStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, denies := startDenied(t, m)
		c := p.claim()
		h := p.takes(c)
		p.isDenied(c, denies)
		if r := p.renews(h); r.Err != nil {
			t.Fatalf("renewal: %v", r.Err)
		}
	})
}

// A process that does not know a name leaves a note with its first ask, and gets the error that the name is of another kind.
func TestAFirstAskThatMismatchesLeavesNoNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		q, last := start(t, m, false), start(t, m, false)
		h := q.takes(q.claim())
		var crowd []*process
		for range 2*record.MaxNotes + 8 { // so that two reads do not return all
			p := start(t, m, false)
			p.givesUp(p.claim()) // so that it knows the name
			p.givesUpWaiting()
			crowd = append(crowd, p)
		}
		q.writes(h) // the record that all of them remember is old now
		for _, p := range crowd {
			p.joinsAndHangs(false)
		}
		last.waitsElsewhere()
		c := last.claim(func(c *store.Claim) { c.Limit, c.Weight = 3, 1 })
		if a, err := last.Ask(t.Context(), c); !errors.Is(err, store.ErrMismatch) {
			t.Fatalf("got %+v, %v, want ErrMismatch", a, err)
		}
		for _, p := range append(crowd, q) { // they have left, and so have their notes
			p.client.Cut()
			m.Lapse(p.Sessions()...)
		}
		next := start(t, m, false)
		until(t, "the next is granted", func() bool {
			a, err := next.Ask(t.Context(), next.claim(try))
			return err == nil && a.Granted
		})
	})
}

// waitsElsewhere waits for another name once, so that the process has a session for waiters and a clock.
func (p *process) waitsElsewhere() {
	p.t.Helper()
	named := func(c *store.Claim) { c.Name = "elsewhere" }
	p.takes(p.claim(named))
	c := p.claim(named)
	p.waits(c)
	p.givesUp(c)
}
