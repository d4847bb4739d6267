package storetest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Stores differ in their promises, and the suite must fit all of them. Here is one
// with long and coarse times, and one that lacks every promise that can be lacking.

// A coarse store says that its least TTL and its tick are a second.
type coarse struct{ *memstore.Store }

func (s coarse) Describe() store.Description {
	d := s.Store.Describe()
	d.MinTTL, d.MaxTTL, d.Tick = time.Second, time.Hour, time.Second
	return d
}

func TestTheSuiteSuitsACoarseStore(t *testing.T) {
	if testing.Short() {
		t.Skip("a coarse store waits for TTLs of seconds")
	}
	s := coarse{memstore.New()}
	storetest.Run(t, func(*testing.T) store.Store { return s })
}

// A bare store is only a Store: it has no notifications, no Poll and no List. It has
// no minimum hold, no lock delay, no slots and no ends, and it keeps a dead waiter's
// position for ever. It does not compare tokens, draws them one by one, and changes
// neither weight nor id.
type bare struct{ rest store.Store }

func (s bare) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	c.MinHold, c.LockDelay, c.Block = 0, 0, 0
	if c.Limit != store.Full {
		return store.Answer{}, store.ErrUnsupported
	}
	c.PositionTTL = time.Hour
	a, err := s.rest.Ask(ctx, c)
	a.Until = 0
	return a, err
}

func (s bare) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	for i, h := range holds {
		if h.NewID != (store.ID{}) {
			out[i].Err = store.ErrUnsupported
			continue
		}
		out[i] = s.rest.Renew(ctx, []store.Hold{h})[0]
	}
	return out
}

func (s bare) Change(context.Context, store.Hold, int32, int64) (store.Answer, error) {
	return store.Answer{}, store.ErrUnsupported
}

func (s bare) Release(ctx context.Context, h store.Hold) error { return s.rest.Release(ctx, h) }

func (s bare) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	return s.rest.ReleaseAll(ctx, holds)
}

func (s bare) Close() error { return s.rest.Close() }

func (s bare) Describe() store.Description {
	d := s.rest.Describe()
	d.Lacks = map[store.Promise]string{}
	for _, p := range []store.Promise{
		store.PromiseMinHold, store.PromiseLockDelay, store.PromiseSlots, store.PromiseMatch,
		store.PromisePositionTTL, store.PromiseInspect, store.PromiseUntil,
		store.PromiseUpgrade, store.PromiseBlock, store.PromiseDetach, store.PromiseExpiry, store.PromiseNotificationToken, store.PromiseDrawn, store.PromiseReason,
	} {
		d.Lacks[p] = "it is a test"
	}
	return d
}

// An endless store has no deadlines, no order and no tokens, like one that keeps
// locks in sessions.
type endless struct{ rest store.Store }

func (s endless) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	c.TTL, c.PositionTTL, c.Try = time.Hour, time.Hour, true
	a, err := bare(s).Ask(ctx, c)
	if a.TTL, a.Holders = 0, nil; !a.Granted {
		a.Last = 0
	}
	return a, err
}

func (s endless) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := bare(s).Renew(ctx, holds)
	for i := range out {
		out[i].TTL = 0
	}
	return out
}

func (s endless) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	return bare(s).Change(ctx, h, turn, weight)
}

func (s endless) Release(ctx context.Context, h store.Hold) error { return s.rest.Release(ctx, h) }

func (s endless) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	return s.rest.ReleaseAll(ctx, holds)
}

func (s endless) TellLosses(func(store.ID, error)) {}

func (s endless) Close() error { return s.rest.Close() }

func (s endless) Describe() store.Description {
	d := bare(s).Describe()
	d.MinTTL, d.MaxTTL, d.Tick = 0, 0, 0
	delete(d.Lacks, store.PromiseMatch)
	for _, p := range []store.Promise{store.PromiseDeadline, store.PromiseOrder, store.PromiseGiveUp, store.PromiseTokens, store.PromiseHolders} {
		d.Lacks[p] = "it is a test"
	}
	return d
}

func TestTheSuiteSuitsAnEndlessStore(t *testing.T) {
	s := endless{memstore.New()}
	storetest.Run(t, func(*testing.T) store.Store { return s })
}

// It is slow now and then, too: a granted hold has expired before the answer.
type slow struct {
	bare
	asks *atomic.Int64
}

func (s slow) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if c.TTL < 100*time.Millisecond && s.asks.Add(1)%8 == 0 {
		time.Sleep(c.TTL)
		return store.Answer{}, store.ErrLost
	}
	return s.bare.Ask(ctx, c)
}

func TestTheSuiteSuitsABareStore(t *testing.T) {
	s := slow{bare{memstore.New()}, new(atomic.Int64)}
	storetest.Run(t, func(*testing.T) store.Store { return s })
	if s.asks.Load() < 8 {
		t.Errorf("none of %d short asks was slow", s.asks.Load())
	}
}
