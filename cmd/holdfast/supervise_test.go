package main

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// silentRelease is a store that does not answer releases.
type silentRelease struct {
	store.Store
	asked, answers chan struct{}
}

func (s *silentRelease) Release(ctx context.Context, h store.Hold) error {
	close(s.asked)
	<-s.answers
	return s.Store.Release(ctx, h)
}

// A loss is reported at the deadline of the lease, not when a silent store has
// answered or was given up.
func TestALossIsReportedAtTheDeadlineOfASilentStore(t *testing.T) {
	s := &silentRelease{memstore.New(), make(chan struct{}), make(chan struct{})}
	locks, err := holdfast.New(s, &holdfast.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	defer close(s.answers)
	leases, err := locks.All(locks.Mutex("a")).TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	code := make(chan int, 1)
	go func() {
		code <- (&supervisor{leases: leases, code: exitLost, deadline: clock.Now().Add(100 * time.Millisecond)}).result()
	}()
	<-s.asked // it is released nevertheless
	select {
	case got := <-code:
		if got != exitLost {
			t.Errorf("got exit code %d, want %d", got, exitLost)
		}
	case <-time.After(patience):
		t.Error("the supervisor waits for the store")
	}
}

func TestTheCommandIsKilledStrictlyBeforeTheDeadline(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		ttl, grace, span time.Duration // span: from the start to the deadline
		gives            time.Duration // granted by a renewal; 0: the TTL, or the span if that is less
		killOnLost       bool
		term, kill       time.Duration // before the deadline
	}{
		{ttl: 30 * s, grace: 10 * s, span: 30 * s, term: 11 * s, kill: 1 * s},
		{ttl: 30 * s, grace: 10 * s, span: 3000 * s, term: 11 * s, kill: 1 * s},
		{ttl: 30 * s, grace: 0, span: 30 * s, term: 1 * s, kill: 1 * s},
		{ttl: 30 * s, grace: 10 * s, span: 30 * s, killOnLost: true, term: 1 * s, kill: 1 * s},
		{ttl: 3600 * s, grace: 10 * s, span: 3600 * s, term: 11 * s, kill: 1 * s},
		{ttl: 12 * s, grace: 4 * s, span: 12 * s, term: 4600 * ms, kill: 600 * ms},
		{ttl: 2 * s, grace: 666 * ms, span: 2 * s, term: 866 * ms, kill: 200 * ms},
		// Granted by another's release and not renewed yet: the rest of a position's time.
		{ttl: 30 * s, grace: 10 * s, span: 9 * s, term: 3450 * ms, kill: 450 * ms},
		{ttl: 2 * s, grace: 666 * ms, span: 900 * ms, term: 450 * ms, kill: 200 * ms},
		// A store that grants three quarters of the TTL.
		{ttl: 30 * s, grace: 10 * s, gives: 22 * s, span: 300 * s, term: 11 * s, kill: 1 * s},
		{ttl: 2 * s, grace: 666 * ms, gives: 1480 * ms, span: 20 * s, term: 740 * ms, kill: 200 * ms},
	} {
		start := clock.Now()
		deadline := start.Add(c.span)
		gives := cmp.Or(c.gives, min(c.ttl, c.span))
		v := &supervisor{ttl: c.ttl, grace: c.grace, killOnLost: c.killOnLost, start: start, deadline: deadline, gives: gives}
		term, kill := v.schedule()
		if got := deadline.Sub(term); got != c.term {
			t.Errorf("%+v: got TERM %v before the deadline, want %v", c, got, c.term)
		}
		if got := deadline.Sub(kill); got != c.kill {
			t.Errorf("%+v: got KILL %v before the deadline, want %v", c, got, c.kill)
		}
	}
}
