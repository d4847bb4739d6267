// Package storetest is the test suite of every store: it tests the promises of
// package store, one named subtest each, directly on the contract and without
// an engine; and it compares the store with package queue, step by step.
//
// A store's test has two calls:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return New(client(t), nil) })
//	}
//
//	func TestDifferential(t *testing.T) {
//		storetest.Differential(t, storetest.Clocked{
//			Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
//				rdb, prefix := client(t), freshPrefix()
//				return func() store.Store { return newAt(rdb, prefix, clock) }
//			},
//		})
//	}
//
// The promises that a store's Description lacks are skipped under their own
// names, with the reason that the store gives. Every duration is computed from
// the least TTL, the greatest TTL and the tick in the Description. No test
// asserts speed: a test waits for what must have expired, and what must not
// have expired has a TTL that is long compared to any delay.
//
// Numbers go to the bounds of the contract: the greatest TTL, which tests read from
// answers and lists where they cannot let a year pass; names of 512 bytes; batches of
// 1,024 holds; and 1,000 entries of a name, or 300 if a server keeps them, unless
// HOLDFAST_NIGHTLY is set.
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
)

// Run tests a store against every promise of the contract, each in a parallel subtest. open is called several
// times in each of them and returns another store object on the same backing, as in another process; it may
// return the same object if the store keeps its state in it. Run closes what it opened. Names are random, so
// that the backing need not be empty. Each store object is used with one [store.Process] only, as an engine
// does.
//
// within, if given, runs each subtest: synctest.Test, for a store that is entirely in this process. Then time
// passes only while all goroutines wait, so nothing is late, however busy the machine is. open must return
// stores that were made in the bubble of its t.
func Run(t *testing.T, open func(t *testing.T) store.Store, within ...Within) {
	t.Helper()
	first := open(t)
	d := first.Describe()
	names := watchesNames(t, first)
	if err := first.Close(); err != nil {
		t.Fatalf("Close of a store just opened: %v", err)
	}
	checkDescription(t, d)
	if _, lacks := d.Lacks[store.PromiseDeadline]; lacks {
		if _, ok := first.(store.LossTeller); !ok {
			t.Fatalf("Describe: it lacks %q, but is no LossTeller", store.PromiseDeadline)
		}
		d.Tick = 1 // nothing needs rounding
	}
	// One more level, so that Run returns only after all subtests: the caller
	// may then stop its server.
	t.Run("promise", func(t *testing.T) {
		for _, p := range promises() {
			if p.bubble && (len(within) == 0 || !d.InProcess) {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				for _, need := range p.needs {
					if why, lacks := d.Lacks[need]; lacks {
						t.Skipf("the store lacks %q: %s", need, why)
					}
				}
				if why := p.skips(first); why != "" {
					t.Skip(why)
				}
				if p.names && !names {
					t.Skip("the store is no NameWatcher: observers poll it")
				}
				runWithin(t, within, func(t *testing.T) {
					untilInTime(t, p.run, func(again int) *trial {
						tr := newTrial(t, open, d)
						tr.slower(again)
						return tr
					})
				})
			})
		}
	})
}

// A Within runs a test in an environment of its own, as synctest.Test does.
type Within = func(t *testing.T, f func(t *testing.T))

func runWithin(t *testing.T, within []Within, f func(t *testing.T)) {
	for _, in := range within {
		in(t, f)
		return
	}
	f(t)
}

// A promise is one subtest.
type promise struct {
	name  string
	run   func(*trial)
	needs []store.Promise
	watch bool // needs a Watcher
	names bool // needs a NameWatcher
	poll  bool // needs a Poller
	check bool // needs a Checker

	bubble bool // needs a store in this process, and Run's within: a year passes in it
}

// skips returns why the promise does not apply to a store of this kind, or "".
func (p *promise) skips(s store.Store) string {
	if _, ok := s.(store.Watcher); p.watch && !ok {
		return "the store is no Watcher: waiters poll it"
	}
	if _, ok := s.(store.Poller); p.poll && !ok {
		return "the store is no Poller: waiters ask it"
	}
	if _, ok := s.(store.Checker); p.check && !ok {
		return "the store is no Checker: its server cannot be inspected"
	}
	return ""
}

// promises returns all promises.
func promises() (all []promise) {
	for _, some := range [][]promise{
		grantPromises, orderPromises, slotPromises, totalPromises, giveUpPromises, positionPromises, matchPromises, expiryPromises,
		minHoldPromises, breakPromises, tokenPromises, namePromises, notificationPromises, watchNamePromises, pollPromises,
		upgradePromises, upgradeEndPromises, upgradeGiveUpPromises, blockPromises, adoptPromises, releasePromises, crowdPromises, largePromises, checkPromises,
	} {
		all = append(all, some...)
	}
	return all
}

func checkDescription(t *testing.T, d store.Description) {
	t.Helper()
	if d.Store == "" {
		t.Error("Describe: Store is empty; errors need it")
	}
	_, endless := d.Lacks[store.PromiseDeadline]
	if endless != (d.MinTTL == 0 && d.MaxTTL == 0 && d.Tick == 0) || !endless && (d.MinTTL <= 0 || d.MaxTTL < d.MinTTL || d.Tick <= 0) {
		t.Fatalf("Describe: MinTTL %v, MaxTTL %v, Tick %v", d.MinTTL, d.MaxTTL, d.Tick)
	}
	if d.Late < 0 {
		t.Errorf("Describe: Late %v", d.Late)
	}
	if d.Crash == "" {
		t.Error("Describe: Crash is empty")
	}
	for p, why := range d.Lacks {
		if why == "" {
			t.Errorf("Describe: it lacks %q, but gives no reason", p)
		}
	}
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// A trial is one subtest: a backing, the clients that it opened, and the
// durations that suit the store.
type trial struct {
	*testing.T
	open  func(t *testing.T) store.Store
	d     store.Description
	ctx   context.Context
	short time.Duration // of holds and positions that are to expire
	long  time.Duration // of those that are not
	eyes  *client       // only lists; nil until used
	judge judge

	mu  sync.Mutex
	saw []string // the errors that members of a crowd have found
}

func newTrial(t *testing.T, open func(t *testing.T) store.Store, d store.Description) *trial {
	tr := &trial{T: t, open: open, d: d, ctx: t.Context()}
	tr.short = tr.ticks(max(d.MinTTL, 50*time.Millisecond))
	tr.long = tr.ticks(min(max(time.Minute, d.MinTTL), d.MaxTTL))
	return tr
}

// ticks rounds up to what the store can keep.
func (t *trial) ticks(d time.Duration) time.Duration {
	return (d + t.d.Tick - 1) / t.d.Tick * t.d.Tick
}

// most returns the largest block of tokens that a grant draws.
func (t *trial) most() int {
	if t.d.MaxBlock > 0 {
		return t.d.MaxBlock
	}
	return store.MaxBlock
}

// slack returns how much earlier or later than after d a claim with a TTL of d
// can end: claims that share a session last as long as that does.
func (t *trial) slack(d time.Duration) time.Duration {
	if t.lacks(store.PromiseExpiry) {
		return d / 2
	}
	return 0
}

// lacks reports whether the store does not make the promise.
func (t *trial) lacks(p store.Promise) bool { _, ok := t.d.Lacks[p]; return ok }
