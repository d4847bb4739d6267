package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// namesOf is the names of calls, in order.
func namesOf(calls []*call) (names []string) {
	for _, c := range calls {
		names = append(names, c.name)
	}
	return names
}

// mutexes are the mutexes of the names, as Locks.
func mutexes(l *Locker, names ...string) (claims []*Lock) {
	for _, n := range names {
		claims = append(claims, l.Mutex(n))
	}
	return claims
}

// all takes the names, which must be free.
func all(t testing.TB, l *Locker, names ...string) *LeaseSet {
	t.Helper()
	leases, err := l.All(mutexes(l, names...)...).TryLock(t.Context())
	if err != nil {
		t.Fatal("TryLock:", err)
	}
	return leases
}

// waitsAll begins a Lock of several names; the waiter's lease is that of the first.
func waitsAll(t testing.TB, s *LockSet) (w *waiter, leases func() *LeaseSet) {
	var got *LeaseSet
	w = waits(t, func(ctx context.Context) (*Lease, error) {
		all, err := s.Lock(ctx)
		if err != nil {
			return nil, err
		}
		got = all
		return all.Lease(all.Names()[0]), nil
	})
	return w, func() *LeaseSet { w.got(); return got }
}

func TestSeveral_B45_NoClaimsOrAMissingOneAreRefused(t *testing.T) {
	s := newLink(t)
	locks := locker(t, s, nil)
	elsewhere := locker(t, newLink(t), nil)
	var none *Lock
	for what, claims := range map[string][]*Lock{
		"empty":         {},
		"nil":           {locks.Mutex("a"), nil},
		"a nil mutex":   {none, locks.Mutex("a")},
		"another store": {locks.Mutex("a"), elsewhere.Mutex("b")},
		"no name":       {locks.Mutex("a"), locks.Mutex("")},
		"no slots":      {locks.Mutex("a"), locks.Semaphore("s", 3).Slots(0)},
		"many slots":    {locks.Semaphore("s", 3).Slots(2), locks.Semaphore("s", 3).Slots(2)},
	} {
		for range 2 {
			_, err := locks.All(claims...).Lock(t.Context())
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
			_, err = locks.All(claims...).TryDo(t.Context(), func(context.Context) error { t.Error(what); return nil })
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	_, err := locks.With(&Options{TTL: -1}).All(locks.Mutex("a")).Lock(t.Context())
	is(t, err, ErrInvalid)
	for what, claims := range map[string][]*Lock{
		"a lock and slots": {locks.RWMutex("a").Read(), locks.Semaphore("a", 3).Slots(1)},
		"two sizes":        {locks.Semaphore("a", 2).Slots(1), locks.Semaphore("a", 3).Slots(1)},
	} {
		_, err := locks.All(claims...).Lock(t.Context())
		is(t, err, ErrMismatch)
		if !strings.Contains(err.Error(), "semaphore of 3") {
			t.Errorf("%s: %v does not name both kinds", what, err)
		}
	}
	same(t, "calls", len(s.made()), 0)
}

func TestSeveral_OfADoubledNameWriteWinsAndSlotsAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		rw, read, sem := locks.RWMutex("rw"), locks.RWMutex("read"), locks.Semaphore("s", 5)
		leases, err := locks.All(rw.Read(), sem.Slots(1), read.Read(), rw.Write(), rw.Read(), sem.Slots(3), read.Read()).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		weights := map[string]int64{}
		for _, c := range s.made() {
			weights[c.name] += c.claim.Weight
		}
		same(t, "asked for", fmt.Sprint(weights), fmt.Sprint(map[string]int64{"rw": store.Full, "read": 1, "s": 4}))
		release(t, leases)
		empty(t, s.mem)
	})
}

func TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		given, want := []string{"b", "ä", "a", "Z", "aa"}, []string{"Z", "a", "aa", "b", "ä"}
		leases := all(t, locks, given...)
		same(t, "asked for", fmt.Sprint(namesOf(s.made("try"))), fmt.Sprint(want))
		same(t, "names", fmt.Sprint(leases.Names()), fmt.Sprint(want))
		release(t, leases)
		slices.Reverse(want)
		same(t, "released", fmt.Sprint(namesOf(s.made("release"))), fmt.Sprint(want))
		is(t, leases.Release(), ErrReleased)
		same(t, "releases", len(s.made("release")), len(want))
	})
}

func TestSeveral_B41_AFailureReleasesEarlierNamesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		s.on(func(c *call) fate {
			if c.name == "c" && c.op != "withdraw" {
				return fate{fail: ErrDenied}
			}
			return fate{}
		})
		three := locks.All(mutexes(locks, "a", "b", "c")...)
		for i, take := range []func(context.Context) (*LeaseSet, error){three.Lock, three.TryLock} {
			_, err := take(t.Context())
			is(t, err, ErrDenied)
			same(t, "released", fmt.Sprint(namesOf(s.made("release"))[2*i:]), "[b a]")
			empty(t, s.mem)
		}
		o := other(t, s.mem, "b", time.Hour)
		_, err := three.TryLock(t.Context())
		is(t, err, ErrHeld)
		same(t, "holder", heldBy(t, err).Host, "elsewhere")
		same(t, "released", fmt.Sprint(namesOf(s.made("release"))[4:]), "[a]")
		o.release()
		empty(t, s.mem)
	})
}

func TestSeveral_B46_ARefusedSetLeavesNoTrace(t *testing.T) {
	for _, o := range []*Options{nil, {MinHold: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
			locks := locker(t, withNotifications{s}, nil)
			one, three := all(t, locks, "1", "2"), all(t, locks, "3", "4")
			refused := func(names ...string) {
				t.Helper()
				_, err := locks.With(o).All(mutexes(locks, names...)...).TryLock(t.Context())
				is(t, err, ErrHeld)
			}
			refused("2", "3")
			release(t, one)
			refused("2", "3")
			release(t, all(t, locks, "1"))
			release(t, all(t, locks, "2"))
			release(t, three)
			release(t, all(t, locks, "2", "3"))
			empty(t, s.mem)
		})
	}
}

func TestSeveral_B43_OneWaitForAll(t *testing.T) {
	for _, how := range []string{"Wait", "context"} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			a := other(t, s.mem, "a", time.Hour)
			other(t, s.mem, "b", time.Hour)
			locks, ctx, o := locker(t, withNotifications{s}, nil), t.Context(), &Options{}
			if how == "Wait" {
				o.Wait = time.Second
			} else {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			time.AfterFunc(600*time.Millisecond, a.release)
			start := time.Now()
			_, err := locks.With(o).All(mutexes(locks, "a", "b")...).Lock(ctx)
			same(t, "gave up after", time.Since(start), time.Second)
			is(t, err, context.DeadlineExceeded, ErrHeld)
			synctest.Wait()
			release(t, lock(t, locks, "a"))
			// No time is left for "b". A negative rest must not become an endless wait.
			other(t, s.mem, "a", time.Hour)
			start = time.Now()
			_, err = locks.With(o).All(mutexes(locks, "a", "b")...).Lock(ctx)
			is(t, err, context.DeadlineExceeded)
			if how == "Wait" {
				same(t, "gave up after", time.Since(start), time.Second)
			}
		})
	}
}

func TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		b, d := lock(t, locks, "b"), lock(t, locks, "d")
		under := b.Context(d.Context(t.Context()))
		o := other(t, s.mem, "c", time.Hour)
		start := time.Now()
		_, err := locks.All(mutexes(locks, "c", "e")...).Lock(under)
		same(t, "waited", time.Since(start), 0)
		is(t, err, ErrDeadlock)
		isNot(t, err, ErrHeld)
		if text := err.Error(); !strings.Contains(text, `"c"`) || !strings.Contains(text, `"d"`) || !strings.Contains(text, "elsewhere") {
			t.Errorf("%v does not name both locks and the holder", err)
		}
		_, err = locks.All(mutexes(locks, "c", "e")...).TryLock(under)
		is(t, err, ErrHeld)
		o.release()
		leases, err := locks.All(mutexes(locks, "c", "e")...).Lock(under)
		if err != nil {
			t.Fatal("TryLock of a free name:", err)
		}
		release(t, leases)
		// The names after d are waited for, and so is any name once d is released.
		later := other(t, s.mem, "e", time.Hour)
		w := waits(t, func(ctx context.Context) (*Lease, error) {
			all, err := locks.All(locks.Mutex("e")).Lock(b.Context(d.Context(ctx)))
			if err != nil {
				return nil, err
			}
			return all.Lease(all.Names()[0]), nil
		})
		w.waiting()
		later.release()
		release(t, w.got())
		release(t, d)
		o = other(t, s.mem, "c", time.Hour)
		w = waits(t, func(context.Context) (*Lease, error) {
			ctx, cancel := context.WithCancel(context.WithoutCancel(under)) // otherwise it has ended with d
			defer cancel()
			all, err := locks.All(mutexes(locks, "c", "e")...).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return all.Lease(all.Names()[0]), nil
		})
		w.waiting()
		o.release()
		w.got()
		_, err = locks.All(mutexes(locks, "a", "b")...).Lock(b.Context(t.Context()))
		is(t, err, ErrDeadlock)
	})
}

func TestSeveral_OneLostWhileItWaitsForTheOthersEndsTheWait(t *testing.T) {
	for _, o := range []*Options{nil, {MinHold: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			other(t, s.mem, "c", time.Hour)
			w, _ := waitsAll(t, locks.With(o).All(mutexes(locks, "a", "b", "c")...))
			time.Sleep(time.Minute)
			broken := time.Now()
			s.mem.Break("b")
			w.failed(ErrLost)
			if d := w.at.Sub(broken); d > 10*time.Second {
				t.Errorf("failed after %v, want at most 10s", d)
			}
			isNot(t, w.err, context.Canceled, ErrHeld)
			if !strings.Contains(w.err.Error(), `"b"`) {
				t.Errorf("%v does not name the lost lock", w.err)
			}
			synctest.Wait()
			same(t, "entries of c", len(stored(s.mem, "c").Entries), 1)
			release(t, all(t, locks, "a", "b"))
		})
	}
}

func TestSeveral_OppositeOrdersNeverWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		names := []string{"a", "b", "c", "d", "e"}
		var inside [5]atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			locks := locker(t, withNotifications{linkTo(t, mem)}, nil)
			for range 2 {
				wg.Go(func() {
					for range 20 {
						mine := rand.Perm(len(names))[:1+rand.IntN(4)]
						var claims []*Lock
						for _, i := range mine {
							claims = append(claims, locks.Mutex(names[i]))
						}
						err := locks.All(claims...).Do(t.Context(), func(context.Context) error {
							for _, i := range mine {
								if inside[i].Add(1) != 1 {
									t.Error("two hold the lock", names[i])
								}
							}
							time.Sleep(time.Millisecond)
							for _, i := range mine {
								inside[i].Add(-1)
							}
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		empty(t, mem)
	})
}

// Whenever the wait is cancelled, no entry is left.
func TestSeveral_ACanceledWaitLeavesNothing(t *testing.T) {
	for _, o := range []*Options{nil, {MinHold: time.Second}, {MaxHold: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
			locks := locker(t, withNotifications{s}, nil)
			var got, not int
			for i := range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*500*time.Microsecond+1)
				leases, err := locks.With(o).All(mutexes(locks, "a", "b", "c")...).Lock(ctx)
				if err == nil {
					got++
					release(t, leases)
				} else {
					not++
					is(t, err, context.DeadlineExceeded)
				}
				cancel()
				time.Sleep(2 * time.Second) // for a minimum hold that was shown
				empty(t, s.mem)
			}
			if got < 3 || not < 3 {
				t.Fatalf("%d granted, %d canceled: too few of one kind to prove anything", got, not)
			}
		})
	}
}

func TestSeveral_NamesTheCallerHoldsAreReentered(t *testing.T) {
	for _, o := range []*Options{{Reentrant: On}, {Reentrant: On, MinHold: time.Second, MaxHold: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			b := lock(t, locks, "b")
			under := b.Context(t.Context())
			three := locks.With(o).All(mutexes(locks, "a", "b", "c")...)
			leases, err := three.Lock(under)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "asked for", fmt.Sprint(namesOf(s.made("try", "ask"))), "[b a c]")
			same(t, "token", leases.Token("b"), b.Token())
			again, err := three.TryLock(leases.Context(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "calls", len(s.made("try", "ask")), 3)
			release(t, again)
			other(t, s.mem, "d", time.Hour)
			_, err = locks.With(o).All(mutexes(locks, "b", "d")...).TryLock(under)
			is(t, err, ErrHeld)
			release(t, leases)
			time.Sleep(time.Minute)
			same(t, "the lease of b is valid", b.Valid(), true)
			for _, name := range []string{"a", "c"} {
				release(t, lock(t, locks, name))
			}
			release(t, b)
			_, err = locks.All(mutexes(locks, "a", "b")...).Lock(lock(t, locks, "b").Context(t.Context()))
			is(t, err, ErrDeadlock)
			same(t, "entries of a", len(stored(s.mem, "a").Entries), 0)
		})
	}
}
