package record_test

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

var controller = &record.Foreign{Owner: "controller-1", Left: time.Hour}

func owned(c *store.Claim) { c.Owner = store.Owner{Host: "h", PID: 1, Program: "p"}.Stored() }

func reader(c *store.Claim) { c.Weight = 1 }

func (p *process) loses(h store.Hold) {
	p.t.Helper()
	if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
		p.t.Fatalf("a renewal: got %+v, want ErrLost", r)
	}
}

func (p *process) isRenewed(h store.Hold) {
	p.t.Helper()
	if r := p.renews(h); r.Err != nil {
		p.t.Fatalf("a renewal: %v", r.Err)
	}
}

// refusedBy fails the test unless only the other program holds the name.
func (p *process) refusedBy(f *record.Foreign) {
	p.t.Helper()
	if a := p.ask(p.claim(try)); a.Granted || len(a.Holders) != 1 || a.Holders[0].Owner.Host != f.Owner {
		p.t.Errorf("got %+v, want a refusal with the other program only", a)
	}
}

// Another program takes the lock from a holder. The next renewal says so, however many there were before.
func TestAHoldThatAnotherProgramTookIsLost(t *testing.T) {
	t.Parallel()
	for before := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s, p := startShared(t)
			h := p.takes(p.claim())
			for range before {
				p.isRenewed(h)
			}
			s.holds(controller)
			p.loses(h)
			p.refusedBy(controller)
			s.holds(nil)
			p.loses(h)
			if err := p.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
				t.Errorf("a release: got %v, want ErrLost", err)
			}
			if next := p.takes(p.claim()); next.Token <= h.Token {
				t.Errorf("got the token %d after %d", next.Token, h.Token)
			}
		})
	}
}

// Whatever the owner does first finds that the hold is lost.
func TestAHoldThatAnotherProgramTookCannotBeUsed(t *testing.T) {
	t.Parallel()
	for what, does := range map[string]func(*process, store.Claim, store.Hold) error{
		"release": func(p *process, _ store.Claim, h store.Hold) error { return p.Release(p.t.Context(), h) },
		"ask":     func(p *process, c store.Claim, _ store.Hold) error { _, err := p.Ask(p.t.Context(), c); return err },
		"upgrade": func(p *process, _ store.Claim, h store.Hold) error {
			_, err := p.Change(p.t.Context(), h, 1, store.Full)
			return err
		},
		"hand-over": func(p *process, _ store.Claim, h store.Hold) error { h.NewID = p.id.NewID(); return p.renews(h).Err },
		"detach":    func(p *process, _ store.Claim, h store.Hold) error { h.NewID = store.ID{9: 1}; return p.renews(h).Err },
		"break": func(p *process, c store.Claim, h store.Hold) error {
			return p.BreakHold(p.t.Context(), store.Break{Name: at, ID: c.ID, Token: h.Token})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, p := startShared(t)
				c := p.claim(func(c *store.Claim) { c.Weight = store.Upgradeable })
				h := p.takes(c)
				s.holds(controller)
				if err := does(p, c, h); !errors.Is(err, store.ErrLost) {
					t.Errorf("got %v, want ErrLost", err)
				}
				p.loses(h)
				p.refusedBy(controller)
			})
		})
	}
}

// Two readers hold the lock, and one of them waits for its upgrade.
func TestAllHoldersLoseALockThatAnotherProgramTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		one, two := p.takes(p.claim(reader)), p.takes(p.claim(func(c *store.Claim) { c.Weight = store.Upgradeable }))
		if a, err := p.Change(t.Context(), two, 1, store.Full); err != nil || a.Weight == a.Want {
			t.Fatalf("got %+v, %v, want an upgrade that waits", a, err)
		}
		s.holds(controller)
		p.loses(one)
		p.refusedBy(controller)
		s.holds(nil)
		p.loses(two)
		p.takes(p.claim())
	})
}

// The write of a waiter ends the hold for good, even if the other program is gone before the holder renews.
func TestAWriteBesideAForeignHolderEndsTheHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		h := p.takes(p.claim())
		s.holds(controller)
		c := p.claim()
		p.waits(c)
		s.holds(nil)
		p.loses(h)
		until(t, "the waiter is granted", func() bool { return p.ask(c).Granted })
	})
}

// The lock delay of a hold that another program ended begins then, and a minimum hold stays.
func TestALostHoldStillBlocksForItsTimes(t *testing.T) {
	t.Parallel()
	const most = 20 * time.Second
	for what, with := range map[string]func(*store.Claim){
		"lock delay":   func(c *store.Claim) { c.LockDelay = most },
		"minimum hold": func(c *store.Claim) { c.MinHold = most },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, p := startShared(t)
				h := p.takes(p.claim(with))
				p.isRenewed(h)
				began := store.Now()
				s.holds(controller)
				p.loses(h)
				s.holds(nil)
				until(t, "the name is free", func() bool { return p.ask(p.claim(try)).Granted })
				if d := store.Now().Sub(began); d < most-time.Second {
					t.Errorf("free after %v, want %v", d, most)
				}
				p.loses(h)
			})
		})
	}
}

// The owner of a hold that an operator broke gets the reason, though another program has taken the lock as well.
func TestABrokenHoldBesideAForeignHolderHasItsReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		h := p.takes(p.claim())
		if err := p.BreakHold(t.Context(), store.Break{Name: at, ID: h.ID, Token: h.Token, Reason: "why"}); err != nil {
			t.Fatal(err)
		}
		s.holds(controller)
		p.waits(p.claim())
		broken := (*store.LostError)(nil)
		if r := p.renews(h); !errors.As(r.Err, &broken) || broken.Reason != "why" {
			t.Errorf("got %v, want the reason", r.Err)
		}
	})
}

// Another program clears the lock, and has not taken it: the holder shows itself again, and keeps it.
func TestAHoldThatAnotherProgramClearedIsShownAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		h := p.takes(p.claim(owned))
		for range 2 {
			owner := s.shows()
			if owner == "" {
				t.Fatal("the holder is not shown")
			}
			s.holds(nil)
			p.isRenewed(h)
			if got := s.shows(); got != owner {
				t.Fatalf("other programs see %q, want %q", got, owner)
			}
		}
		p.releases(h)
		if got := s.shows(); got != "" {
			t.Errorf("other programs see %q, want nobody", got)
		}
	})
}

// While the claim waited, another program used the lock for the first time. A poll then finds the grant.
func TestTheHolderOfASharedLockReadsAfterAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		s.alone = true
		h, c := p.takes(p.claim()), p.claim(lasting(store.MaxPositionTTL)) // its hold stays in the session that it waited in
		p.waits(c)
		p.releases(h)
		s.holds(nil)
		a, err := p.Poll(t.Context(), c)
		if err != nil || !a.Granted || a.Token == 0 {
			t.Fatalf("a poll: %+v, %v", a, err)
		}
		s.holds(controller)
		p.loses(store.Hold{Name: at, ID: c.ID, Token: a.Token, TTL: c.TTL})
	})
}

// A lock that no other program has used costs a renewal nothing, and one that is used costs it one read.
func TestOnlyTheHolderOfASharedLockReads(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, p := startShared(t)
			s.alone = alone
			h := p.takes(p.claim(owned))
			before, want := s.reads(), 3
			if alone {
				want = 0
			}
			for range 3 {
				p.isRenewed(h)
			}
			if got := s.reads() - before; got != want {
				t.Errorf("alone %v: 3 renewals made %d reads, want %d", alone, got, want)
			}
		})
	}
}

// The Lease of another program is not written in vain: each write may make its own fail.
func TestARefusedTryBesideAForeignHolderWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		p.releases(p.takes(p.claim()))
		s.holds(controller)
		p.refusedBy(controller)
		var swaps atomic.Int64
		p.client.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op == recordtest.OpSwap {
				swaps.Add(1)
			}
			return recordtest.Answered
		})
		for range 3 {
			p.refusedBy(controller)
		}
		if n := swaps.Load(); n != 0 {
			t.Errorf("3 refused tries sent %d writes, want none", n)
		}
	})
}

// A lease reports the loss as it reports any other.
func TestALeaseThatAnotherProgramTookIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := startShared(t)
		locks, err := holdfast.New(p.Store, &holdfast.Options{TTL: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		lease, err := locks.Mutex(at).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it renews itself
		s.holds(nil)
		until(t, "the lease is shown again", func() bool { return s.shows() != "" })
		if !lease.Valid() {
			t.Error("a lease that was only cleared is lost")
		}
		s.holds(controller)
		<-lease.Lost()
		if err := lease.Release(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("a release: got %v, want ErrLost", err)
		}
	})
}
