package holdfast

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// B112: the ask continues, and if it is granted, the hold is released.
func TestClaimOperationsNeverOverlap_ACanceledAskIsWithdrawn(t *testing.T) {
	for name, how := range map[string]func(*Lock, context.Context) (*Lease, error){
		"Lock": (*Lock).Lock, "TryLock": (*Lock).TryLock,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				s.on(func(c *call) fate {
					if c.op == "withdraw" {
						return fate{}
					}
					return fate{there: time.Second, back: 2 * time.Second}
				})
				start := time.Now()
				locks := locker(t, s, nil)
				w := waits(t, func(ctx context.Context) (*Lease, error) { return how(locks.Mutex("a"), ctx) })
				time.Sleep(500 * time.Millisecond)
				w.cancel()
				w.failed(context.Canceled)
				isNot(t, w.err, ErrHeld)
				same(t, "the caller returned after", w.at.Sub(start), 500*time.Millisecond)
				time.Sleep(2 * time.Second)
				same(t, "entries before the answer arrives", len(stored(s.mem, "a").Entries), 1)
				time.Sleep(time.Second)
				same(t, "withdrawn", fmt.Sprint(sent(s.made("withdraw"), start)), "[3s]")
				empty(t, s.mem)
			})
		})
	}
}

// B111, B112.
func TestClaimOperationsNeverOverlap_ACanceledWaitLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate { return fate{back: 100 * time.Millisecond} })
		o := other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		w := waits(t, locks.Mutex("a").Lock)
		time.Sleep(time.Second)
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		cancelled := time.Now()
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
		same(t, "the caller returned after", w.at.Sub(cancelled), 0)
		synctest.Wait()
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		o.release()
		if next := other(t, s.mem, "a", time.Second); !next.a.Granted {
			t.Fatal("the next claim was not granted")
		}
	})
}

// If a wait is cancelled while a poll is under way, it is withdrawn after the
// poll, once.
func TestClaimOperationsNeverOverlap_ACanceledPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "poll" {
				return fate{back: 300 * time.Millisecond}
			}
			return fate{}
		})
		other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withPolls{s}, nil).Mutex("a").Lock)
		time.Sleep(100 * time.Millisecond)
		same(t, "running polls", s.underway("poll"), 1)
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
		time.Sleep(time.Second)
		same(t, "withdrawals", len(s.made("withdraw")), 1)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
	})
}

// An indeterminate withdrawal is repeated. If none succeeds, the entry expires.
func TestClaimOperationsNeverOverlap_AFailedWithdrawalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		s.on(func(*call) fate { return fate{fail: errLink} })
		w.cancel()
		w.failed(context.Canceled)
		time.Sleep(9 * time.Second)
		if n := len(s.made("withdraw")); n < 5 || n > 50 {
			t.Fatalf("%d withdrawals, want 5 to 50", n)
		}
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		time.Sleep(2 * time.Second)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		o.release()
	})
}

// All operations together, with delays, lost messages and callers that leave: the
// link fails the test if two operations of one claim overlap.
func TestClaimOperationsNeverOverlap_InAStorm(t *testing.T) {
	for _, kind := range []string{"notifications", "looks", "neither"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := newLink(t)
				var s store.Store = link
				switch kind {
				case "notifications":
					s = withNotifications{link}
				case "looks":
					s = withPolls{link}
				}
				link.on(func(c *call) fate {
					f := fate{there: time.Duration(rand.IntN(20)) * time.Millisecond, back: time.Duration(rand.IntN(20)) * time.Millisecond}
					switch rand.IntN(12) {
					case 0:
						f.lose = errLink
					case 1:
						f.fail = errLink
					case 2:
						f.back = time.Duration(rand.IntN(1000)) * time.Millisecond
					}
					return f
				})
				lockers := []*Locker{locker(t, s, &Options{TTL: time.Second}), locker(t, s, &Options{TTL: 2 * time.Second, MinHold: 50 * time.Millisecond})}
				var all sync.WaitGroup
				var granted, refused atomic.Int64
				for i := range 24 {
					all.Go(func() {
						locks := lockers[i%2]
						for range 15 {
							name := string(rune('a' + rand.IntN(3)))
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Millisecond)
							rw := locks.RWMutex(name)
							how := []func(context.Context) (*Lease, error){rw.Write().Lock, rw.Read().Lock, rw.Read().Lock, rw.Write().TryLock, rw.Read().TryLock}[rand.IntN(5)]
							l, err := how(ctx)
							if err != nil {
								refused.Add(1)
								cancel()
								continue
							}
							granted.Add(1)
							time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
							if rand.IntN(2) == 0 {
								cancel() // bounds only the wait
							}
							l.Release()
							cancel()
						}
					})
				}
				all.Wait()
				link.on(nil)
				time.Sleep(3 * time.Second) // at most: then all that a fault left behind has expired
				empty(t, link.mem)
				t.Logf("%d granted, %d refused, %d calls", granted.Load(), refused.Load(), len(link.made()))
				if granted.Load() < 50 || refused.Load() < 20 {
					t.Fatal("too few grants or refusals to prove anything")
				}
			})
		})
	}
}
