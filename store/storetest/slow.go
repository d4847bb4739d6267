package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// tooSlow ends an inconclusive trial: the claim expired before there was an answer, or there was none
// in time.
const tooSlow = "too slow to tell anything"

// untilInTime runs trials until one is conclusive.
func untilInTime(t *testing.T, run func(*trial), next func(again int) *trial) {
	t.Helper()
	if !anyTold(run, next) {
		t.Fatal("this machine is too busy: each time an answer came too late, or none came")
	}
}

// anyTold reports whether one of the trials was conclusive.
func anyTold(run func(*trial), next func(again int) *trial) bool {
	for again, began := 0, time.Now(); again < 10 || time.Since(began) < patience; again++ {
		t := next(again)
		if inTime(func() { run(t) }) {
			return true
		}
		time.Sleep(min(time.Millisecond<<min(again, 10), time.Second)) // otherwise no time would pass in a bubble
	}
	return false
}

// inTime runs a trial, and reports whether it was conclusive.
func inTime(run func()) bool {
	defer func() {
		if r := recover(); r != nil && r != tooSlow {
			panic(r)
		}
	}()
	run()
	return true
}

// A judge knows whether a busy machine may be the cause of a failure in a trial.
type judge struct {
	began      time.Time     // zero: a failure counts whatever the machine did
	lasts      time.Duration // what must last may have expired that long after began
	until      store.Instant // from when a position may have lapsed, whatever the trial waited for; 0: see lasts
	unanswered atomic.Bool   // a store has given up waiting for its server
	vain       atomic.Bool   // a member of a crowd was too slow
}

// slow is how long an unavailable operation must have taken to count as unanswered.
const slow = time.Second

// answered notes the result of an operation. If the store gave up waiting for its server, as can happen on a busy
// machine, that says nothing about a promise. An error that comes at once does not count as that.
func (j *judge) answered(before store.Instant, err error) {
	if unanswered(before, err) {
		j.unanswered.Store(true)
	}
}

// unanswered reports whether the store has given up waiting for its server.
func unanswered(before store.Instant, err error) bool {
	return (errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrContended)) && store.Now().Sub(before) >= slow
}

// late reports whether a failure in the trial is no longer conclusive.
func (j *judge) late() bool {
	return j.unanswered.Load() || !j.began.IsZero() && (time.Since(j.began) >= j.lasts || j.until != 0 && store.Now() >= j.until)
}

// waits adds the wait for an expiry to the trial's time: on some servers that takes long, and is not late.
func (j *judge) waits(d time.Duration) { j.lasts += d }

// slower adapts the trial to a machine that has been too slow that many times: it makes t.short longer. What must stay
// has to outlast that, and everything else that the trial does.
func (t *trial) slower(again int) {
	stays := min(t.long, store.MaxPositionTTL)
	t.short = min(t.short<<min(again, 10), max(t.short, t.ticks(stays/4)))
	t.judge.began, t.judge.lasts = time.Now(), stays-t.slack(stays)
	if t.lacks(store.PromiseDeadline) {
		t.judge.began = time.Time{}
	}
}

// positioned notes that the claim is asked for now, and not again. From when its position may have lapsed, a failure is
// inconclusive, even if the trial waited for something else meanwhile.
func (t *trial) positioned(w store.Claim) {
	if !t.lacks(store.PromisePositionTTL) {
		t.judge.until = store.Now().Add(w.PositionTTL)
	}
}

// soonEnough ends the trial as inconclusive if something that it needs did not come in time.
func (t *trial) soonEnough(came bool) {
	if !came {
		panic(tooSlow)
	}
}

// Fatalf fails the trial, unless it is inconclusive.
func (t *trial) Fatalf(format string, args ...any) {
	t.Helper()
	if t.judge.late() {
		t.Logf("too slow to judge this: "+format, args...)
		panic(tooSlow)
	}
	t.T.Fatalf(format, args...)
}

// until polls for something that must happen. The wait does not make the trial late.
func (t *trial) until(what string, f func() bool) {
	t.Helper()
	pause := time.Millisecond
	late, start := t.judge.late(), time.Now()
	for deadline := start.Add(patience); ; {
		begun := time.Now()
		if f() {
			t.judge.waits(min(time.Since(start), 2*t.short))
			return
		}
		if time.Now().After(deadline) {
			if late || t.judge.unanswered.Load() {
				t.Logf("too slow to judge this: after %v still not: %s", patience, what)
				panic(tooSlow)
			}
			t.T.Fatalf("after %v still not: %s", patience, what)
		}
		time.Sleep(pause)
		pause = min(pause*3/2, 20*time.Millisecond)
		late = late || !t.judge.began.IsZero() && time.Since(begun) >= t.judge.lasts/2 // the machine stalled
	}
}

// Ask calls the store, and so do the methods below: the trial must know which calls were
// unanswered.
func (c *client) Ask(ctx context.Context, claim store.Claim) (store.Answer, error) {
	before := store.Now()
	a, err := c.Store.Ask(ctx, claim)
	c.t.judge.answered(before, err)
	return a, err
}

// Poll calls the store, which must be a Poller.
func (c *client) Poll(ctx context.Context, claim store.Claim) (store.Answer, error) {
	before := store.Now()
	a, err := c.Store.(store.Poller).Poll(ctx, claim)
	c.t.judge.answered(before, err)
	return a, err
}

func (c *client) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	before := store.Now()
	out := c.Store.Renew(ctx, holds)
	for _, r := range out {
		c.t.judge.answered(before, r.Err)
	}
	return out
}

func (c *client) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	before := store.Now()
	a, err := c.Store.Change(ctx, h, turn, weight)
	c.t.judge.answered(before, err)
	return a, err
}

func (c *client) Release(ctx context.Context, h store.Hold) error {
	before := store.Now()
	err := c.Store.Release(ctx, h)
	c.t.judge.answered(before, err)
	return err
}

func (c *client) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	before := store.Now()
	out := c.Store.ReleaseAll(ctx, holds)
	for _, err := range out {
		c.t.judge.answered(before, err)
	}
	return out
}
