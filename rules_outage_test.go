package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// An error caused by the store matches ErrUnavailable and wraps the newest
// cause. It matches a context's error only if that context has ended.

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// down fails every call with the error.
func down(s *link, err error) { s.on(func(*call) fate { return fate{fail: err} }) }

func TestOutage_IsReportedToAllWaitersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		down(s, errLink)
		start := time.Now()
		all := inLine(t, locker(t, withNotifications{s}, nil), 20)
		for _, w := range all {
			w.failed(ErrUnavailable, errLink)
			isNot(t, w.err, context.DeadlineExceeded, context.Canceled, ErrHeld)
			same(t, "failed with the others", w.at, all[0].at)
			if d := w.at.Sub(start); d > 5*time.Second {
				t.Fatalf("failed after %v, want at most 5s", d)
			}
		}
	})
}

// Claims behind one with a position fail as well, once that position has expired.
func TestOutage_IsReportedToTheLocalQueueWhenAPositionLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		all := inLine(t, locks, 20)
		start := time.Now()
		down(s, errLink)
		for _, w := range all {
			w.failed(ErrUnavailable, errLink)
			isNot(t, w.err, context.DeadlineExceeded, context.Canceled)
			same(t, "failed with the others", w.at, all[0].at)
		}
		if d := all[0].at.Sub(start); d > store.MaxPositionTTL || d < store.MaxPositionTTL/2 {
			t.Fatalf("failed after %v, want half of a position's TTL up to all of it", d)
		}
		s.on(nil)
		time.Sleep(time.Minute)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// Once the store is back, all waiters continue.
func TestOutage_ThatEndsInTimeIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		all := inLine(t, locker(t, withNotifications{s}, nil), 5)
		down(s, errLink)
		time.Sleep(8 * time.Second)
		s.on(nil)
		time.Sleep(time.Minute)
		o.release()
		for _, w := range all {
			release(t, w.got())
		}
	})
}

// A deadline passes during an outage: the error matches both. The same in the local queue.
func TestOutage_TheCallersDeadlineAndTheCauseBothMatch(t *testing.T) {
	for _, how := range []string{"at once", "with a position"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, withNotifications{s}, &Options{Wait: 8 * time.Second})
				if how == "at once" {
					locks = locks.With(&Options{Wait: 2 * time.Second})
					down(s, errLink)
				} else {
					other(t, s.mem, "a", time.Hour)
				}
				all := inLine(t, locks, 3)
				down(s, errLink)
				for _, w := range all {
					w.failed(context.DeadlineExceeded, ErrUnavailable, errLink)
					isNot(t, w.err, ErrHeld, context.Canceled) // other claims may be ahead: the store does not answer
				}
			})
		})
	}
}

func TestOutage_ACanceledCallerGetsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		down(s, errLink)
		all := inLine(t, locker(t, s, nil), 2)
		time.Sleep(time.Second)
		s.on(func(*call) fate { return fate{there: time.Hour} }) // the second gets no answer of its own
		for _, w := range all {
			w.cancel()
			w.failed(context.Canceled, ErrUnavailable, errLink)
		}
	})
}

// If a server does not answer at all, the cause in the error is that it does not
// answer. If a caller gives up before an answer could be called late, its error says
// nothing about the store.
func TestOutage_SilenceIsACauseAfterAWhile(t *testing.T) {
	for wait, outage := range map[time.Duration]bool{3 * time.Second: true, 500 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(c *call) fate {
				if c.op == "withdraw" {
					return fate{}
				}
				return fate{there: time.Hour}
			})
			for _, w := range inLine(t, locker(t, s, &Options{Wait: wait}), 2) {
				w.failed(context.DeadlineExceeded)
				same(t, "reported as an outage", errors.Is(w.err, ErrUnavailable), outage)
			}
		})
	}
}

// After an answer the error does not mention earlier failures.
func TestOutage_ThatHasEndedIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		all := inLine(t, locker(t, withNotifications{s}, &Options{Wait: 30 * time.Second}), 2)
		down(s, errLink)
		time.Sleep(7 * time.Second)
		s.on(nil)
		for _, w := range all {
			w.failed(context.DeadlineExceeded, ErrHeld)
			isNot(t, w.err, ErrUnavailable)
		}
	})
}

// The first waiter of the local queue leaves, and the next one gets no answer before
// its own deadline. Its error has the store's answer to the first one.
func TestOutage_ANextWaiterKnowsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		first := waits(t, locks.With(&Options{Wait: 30 * time.Second}).Mutex("a").Lock)
		next := waits(t, locks.With(&Options{Wait: 30*time.Second + engine.SilentFor/2}).Mutex("a").Lock)
		time.Sleep(29 * time.Second)
		s.on(func(c *call) fate {
			if c.op == "withdraw" {
				return fate{}
			}
			return fate{there: time.Hour}
		})
		first.failed(context.DeadlineExceeded, ErrHeld)
		next.failed(context.DeadlineExceeded, ErrHeld)
		same(t, "holder", heldBy(t, next.err).Owner.Host, "elsewhere")
	})
}

// A driver's error wraps the end of the context that it got, which is the
// engine's own, or a timeout of the driver that matches such an end.
func TestOutage_TheEnginesContextIsNotTheCallers(t *testing.T) {
	for name, err := range map[string]error{
		"bare":          context.DeadlineExceeded,
		"cancelled":     context.Canceled,
		"unavailable":   fmt.Errorf("%w: ask for a: %w", store.ErrUnavailable, context.DeadlineExceeded),
		"definite":      fmt.Errorf("%w: %w", store.ErrDenied, context.Canceled),
		"with a cause":  fmt.Errorf("pool: %w: %w", context.DeadlineExceeded, errLink),
		"of a net.Conn": &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded},
		"a loss":        fmt.Errorf("%w: %w", store.ErrLost, context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, s, nil)
				l := lock(t, locks, "held")
				down(s, err)
				_, got := locks.Mutex("a").TryLock(t.Context())
				isNot(t, got, context.DeadlineExceeded, context.Canceled)
				if errors.Is(err, errLink) {
					is(t, got, errLink)
				}
				if errors.Is(err, store.ErrDenied) {
					is(t, got, ErrDenied)
				} else {
					is(t, got, ErrUnavailable)
				}
				rel := l.Release()
				isNot(t, rel, context.DeadlineExceeded, context.Canceled)
				s.on(nil)
			})
		})
	}
}

// The same for a loss, however the store reports it.
func TestOutage_ALossMatchesNoContextOfTheEngine(t *testing.T) {
	lost := fmt.Errorf("%w: the session has ended: %w: %w", ErrLost, context.DeadlineExceeded, errLink)
	none := func(t *testing.T, all ...error) {
		t.Helper()
		for _, err := range all {
			is(t, err, ErrLost, errLink)
			isNot(t, err, context.DeadlineExceeded, context.Canceled)
		}
	}
	for op, end := range map[string]func(*testing.T, *Locker, *UpgradeableLease){
		"renew":  func(*testing.T, *Locker, *UpgradeableLease) { time.Sleep(11 * time.Second) },
		"change": func(t *testing.T, _ *Locker, l *UpgradeableLease) { none(t, l.Upgrade(t.Context())) },
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, locks, o := observed(t, nil)
				l, err := locks.RWMutex("a").Upgradeable().Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ctx := l.Context(t.Context())
				s.on(func(c *call) fate {
					if c.op != op {
						return fate{}
					}
					return fate{lose: lost, renew: func(_ int, r *store.Renewal) { r.Err = lost }}
				})
				end(t, locks, l)
				none(t, o.last(t).Err, context.Cause(ctx), l.Release())
				s.mem.Break("a")
			})
		})
	}
	t.Run("close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, locks, o := observed(t, nil)
			lock(t, locks, "a")
			s.on(func(c *call) fate {
				return fate{back: time.Second, released: func(_ int, err *error) { *err = lost }}
			})
			time.AfterFunc(500*time.Millisecond, func() { suspend(time.Minute) }) // so it is not a repeated release
			if err := locks.Close(); err != nil {
				t.Fatal(err)
			}
			none(t, o.last(t).Err)
		})
	})
}

// The error has the newest cause, not that the last try had no time left.
func TestOutage_TheNewestCauseIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		full := errors.New("disk full")
		s.on(func(c *call) fate {
			switch {
			case c.n < 4:
				return fate{fail: errLink}
			case c.n < 8:
				return fate{fail: full}
			}
			return fate{there: time.Hour}
		})
		_, err := locker(t, s, nil).Mutex("a").TryLock(t.Context())
		is(t, err, ErrUnavailable, full)
		isNot(t, err, errLink, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "disk full") {
			t.Error(err)
		}
	})
}

// Claims that ask side by side have no position yet. They fail together with the
// first of them, not each after five seconds of its own.
func TestOutage_IsReportedToAllAdmittedAtOnce(t *testing.T) {
	type claimer = func(context.Context) (*Lease, error)
	for name, claim := range map[string]func(*Locker) claimer{
		"RLock": func(l *Locker) claimer { return l.RWMutex("a").Read().Lock },
		"Acquire": func(l *Locker) claimer {
			return func(ctx context.Context) (*Lease, error) { return l.Semaphore("a", 1000).Acquire(ctx, 1) }
		},
	} {
		for _, first := range []bool{false, true} { // the first cannot leave
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newLink(t)
					down(s, errLink)
					locks := locker(t, withNotifications{s}, nil)
					start := time.Now()
					var all []*waiter
					for i := range 40 { // 16 of them asking
						how := claim(locks)
						if i%2 == 1 || i == 0 && first {
							how = func(context.Context) (*Lease, error) { return claim(locks)(context.Background()) }
						}
						all = append(all, waits(t, how))
						time.Sleep(100 * time.Millisecond)
					}
					for _, w := range all {
						w.failed(ErrUnavailable, errLink)
						isNot(t, w.err, context.DeadlineExceeded, context.Canceled, ErrHeld)
					}
					for _, w := range all {
						if w != all[0] || !first {
							same(t, "failed with the others", w.at, all[1].at)
						} else if d := w.at.Sub(all[1].at); d > time.Second { // it ends by itself
							t.Errorf("the first failed %v after the others, want at most 1s", d)
						}
					}
					if d := all[0].at.Sub(start); d > 5*time.Second {
						t.Errorf("failed after %v, want at most 5s", d)
					}
					s.on(nil)
					time.Sleep(time.Minute)
					empty(t, s.mem)
					same(t, "local waiters left", locks.kept(), 0)
				})
			})
		}
	}
}

// At one instant some claims give up, others are admitted instead, and the first
// fails: none of them stays admitted.
func TestOutage_AWaiterAdmittedAsItIsReportedLeavesNothing(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(c *call) fate {
				if c.op == "withdraw" {
					return fate{}
				}
				return fate{there: time.Hour}
			})
			locks := locker(t, s, nil)
			patient := func(ctx context.Context) (*Lease, error) { return locks.RWMutex("a").Read().Lock(ctx) }
			all := []*waiter{waits(t, patient)}
			for range engine.MostSent - 1 {
				all = append(all, waits(t, locks.With(&Options{Wait: 5 * time.Second}).RWMutex("a").Read().Lock))
			}
			for range engine.MostInside {
				all = append(all, waits(t, patient))
			}
			for _, w := range all {
				w.wait()
				is(t, w.err, ErrUnavailable)
			}
			time.Sleep(time.Minute)
			same(t, "local waiters left", locks.kept(), 0)
			s.on(nil)
		})
	}
}

// A claim that takes the turn of one that has given up has the rest of its five
// seconds, or the time after which a refused connection is reported.
func TestOutage_ASuccessorHasOnlyTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		down(s, errLink)
		locks := locker(t, withNotifications{s}, nil)
		start := time.Now()
		first := waits(t, locks.With(&Options{Wait: 4000 * time.Millisecond}).Mutex("a").Lock)
		second := waits(t, locks.With(&Options{Wait: 4200 * time.Millisecond}).Mutex("a").Lock)
		last := waits(t, locks.Mutex("a").Lock)
		first.failed(context.DeadlineExceeded, ErrUnavailable, errLink)
		second.failed(context.DeadlineExceeded, ErrUnavailable, errLink)
		last.failed(ErrUnavailable, errLink)
		if d := last.at.Sub(start); d > 5500*time.Millisecond {
			t.Errorf("failed after %v, want at most 5.5s", d)
		}
		// After an answer the next claim has the whole five seconds.
		s.on(nil)
		o := other(t, s.mem, "a", time.Hour)
		third := waits(t, locks.Mutex("a").Lock)
		time.Sleep(time.Second)
		third.cancel()
		third.failed(context.Canceled, ErrHeld)
		down(s, errLink)
		start = time.Now()
		fourth := waits(t, locks.Mutex("a").Lock)
		fourth.failed(ErrUnavailable, errLink)
		if d := fourth.at.Sub(start); d < 4*time.Second {
			t.Errorf("failed after %v, too late", d)
		}
		s.on(nil)
		o.release()
	})
}

// The same for an upgrade.
func TestOutage_OfAnUpgradeIsReportedWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		up, err := locks.RWMutex("a").Upgradeable().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.on(func(c *call) fate {
			if c.op == "change" {
				return fate{fail: errLink}
			}
			return fate{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		is(t, up.Upgrade(ctx), context.DeadlineExceeded, ErrUnavailable, errLink)
		s.on(nil)
		time.Sleep(10 * time.Second)
		release(t, up)
	})
}

// And for several names, while their tokens are shown.
func TestOutage_WhileSeveralAreShownIsReportedWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{fail: errLink}
			}
			return fate{}
		})
		locks := locker(t, s, &Options{MinHold: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := locks.All(locks.Mutex("a"), locks.Mutex("b")).Lock(ctx)
		is(t, err, context.DeadlineExceeded, ErrUnavailable, errLink)
		s.on(nil)
		time.Sleep(time.Minute)
		empty(t, s.mem)
	})
}
