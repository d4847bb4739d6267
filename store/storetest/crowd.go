package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var crowdPromises = []promise{
	{name: "a_hundred_tries_at_once_have_one_winner", run: func(t *trial) {
		name := t.name()
		clients := []*client{t.client(), t.client(), t.client(), t.client()}
		var won, refused atomic.Int32
		winner := make(chan *held, 100)
		t.crowd(100, func(i int) {
			c := clients[i%len(clients)]
			claim := c.lock(name, try)
			a, err := c.Ask(t.ctx, claim)
			switch {
			case err != nil:
				t.crowdErrorf(err, "try: got %v, want granted or refused", err)
			case a.Granted:
				won.Add(1)
				winner <- &held{c: c, claim: claim, Hold: store.Hold{Name: name, ID: claim.ID, Token: a.Token, TTL: t.long}}
			default:
				refused.Add(1)
			}
		})
		if won.Load() != 1 || refused.Load() != 99 {
			t.Fatalf("got %d granted and %d refused, want 1 and 99", won.Load(), refused.Load())
		}
		h := <-winner
		t.entries(name, h.ID)
		h.release()
		t.empty(name)
	}},
	{name: "a_crowd_on_a_semaphore_fills_it_and_no_more", needs: slots, run: func(t *trial) {
		name := t.name()
		clients := []*client{t.client(), t.client(), t.client(), t.client()}
		var won atomic.Int32
		t.crowd(60, func(i int) {
			c := clients[i%len(clients)]
			a, err := c.Ask(t.ctx, c.slots(name, 10, 1, try))
			if err != nil {
				t.crowdErrorf(err, "try: got %v, want granted or refused", err)
			}
			if a.Granted {
				won.Add(1)
			}
		})
		if won.Load() != 10 {
			t.Fatalf("got %d granted, want 10", won.Load())
		}
	}},
	{name: "no_claim_is_held_beside_a_writer_and_no_count_is_lost", run: func(t *trial) {
		name := t.name()
		const workers, rounds = 6, 10
		var clients []*client
		for range workers {
			clients = append(clients, t.client())
		}
		var writers, readers atomic.Int32
		var count, writes atomic.Int32 // count is read and written separately: only the store's lock protects it
		var last atomic.Int64
		t.crowd(workers, func(i int) {
			c := clients[i]
			for range rounds {
				write := rand.IntN(3) > 0
				claim := c.read(name)
				if write {
					claim = c.lock(name)
				}
				h := c.inCrowd(claim)
				if h == nil {
					return
				}
				if write {
					if w, r := writers.Add(1), readers.Load(); w != 1 || r != 0 {
						t.crowdSaw("%d writers and %d readers hold the lock", w, r)
					}
					if before := last.Swap(h.Token); before >= h.Token && !t.lacks(store.PromiseTokens) {
						t.crowdSaw("got token %d after %d, want a larger one", h.Token, before)
					}
					was := count.Load()
					time.Sleep(100 * time.Microsecond)
					count.Store(was + 1)
					writes.Add(1)
					writers.Add(-1)
				} else {
					readers.Add(1)
					if w := writers.Load(); w != 0 {
						t.crowdSaw("%d writers hold the lock together with a reader", w)
					}
					readers.Add(-1)
				}
				if t.expires(claim, h.from) { // then another may have held the name too
					t.judge.vain.Store(true)
				}
				if err := c.Release(t.ctx, h.Hold); err != nil && (!errors.Is(err, store.ErrLost) || !t.expires(claim, h.from)) {
					t.crowdErrorf(err, "release: %v", err)
				}
			}
		})
		if count.Load() != writes.Load() {
			t.Fatalf("counted %d writes, want %d", count.Load(), writes.Load())
		}
		t.empty(name)
	}},
	{name: "a_withdrawal_that_races_a_grant_loses_no_slot", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		for range 25 {
			h := a.take(a.lock(name))
			w := b.lock(name)
			b.refused(w)
			t.crowd(2, func(i int) {
				var err error
				if i == 0 {
					err = a.Release(t.ctx, h.Hold)
				} else {
					err = b.Release(t.ctx, store.Hold{Name: name, ID: w.ID})
				}
				if err != nil {
					t.crowdErrorf(err, "release %d: %v", i, err)
				}
			})
			t.entries(name)
		}
		t.empty(name)
	}},
}

// crowd runs f n times at once.
func (t *trial) crowd(n int, f func(i int)) {
	t.Helper()
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	all.Wait()
	t.crowdEnded()
}

// crowdErrorf fails the trial for an error of a member of a crowd. If the store had no answer in time, as can happen on
// a busy machine, the trial is inconclusive. It may be called from any goroutine; crowdEnded ends the trial.
func (t *trial) crowdErrorf(err error, format string, args ...any) {
	t.Helper()
	if errors.Is(err, store.ErrUnavailable) && t.judge.unanswered.Load() {
		t.Logf("too slow to judge this: "+format, args...)
		t.judge.vain.Store(true)
		return
	}
	t.Errorf(format, args...)
}

// crowdSaw notes a failure of the trial. If a hold expired before its release, the trial is inconclusive instead.
func (t *trial) crowdSaw(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saw = append(t.saw, fmt.Sprintf(format, args...))
}

// crowdEnded ends a trial in which a member of a crowd has failed.
func (t *trial) crowdEnded() {
	t.Helper()
	if t.Failed() {
		t.FailNow()
	}
	t.soonEnough(!t.judge.vain.Load())
	if len(t.saw) > 0 {
		t.T.Fatal(strings.Join(t.saw, "\n"))
	}
}

// inCrowd asks until the claim is granted. It may be called from any goroutine.
// It returns nil if something is wrong.
func (c *client) inCrowd(claim store.Claim) *held {
	last := store.Now()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		sent := store.Now()
		a, err := c.Ask(c.t.ctx, claim)
		if errors.Is(err, store.ErrLost) && c.t.expires(claim, last) {
			c.t.judge.vain.Store(true) // its position may have lapsed because the machine was slow
			return nil
		}
		if err != nil {
			c.t.crowdErrorf(err, "ask: %v", err)
			return nil
		}
		last = cmp.Or(a.From, sent)
		if a.Granted {
			return &held{c: c, claim: claim, Hold: store.Hold{Name: claim.Name, ID: claim.ID, Token: a.Token, TTL: claim.TTL}, from: last}
		}
	}
	c.t.crowdErrorf(store.ErrUnavailable, "not granted in %v", patience) // it may be blocked by an operation that was not answered
	return nil
}
