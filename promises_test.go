package holdfast

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A grant is what a kind of claim gives: a *Lease or *LeaseSet.
type grant interface {
	Release() error
	Valid() bool
}

type taker func(context.Context) (grant, error)

// A kind is a way to hold a name alone.
type kind struct {
	name string
	lock func(*Locker, string) (lock, try taker)
}

// The kinds that allow only one holder: B10 and B47 say that all of them
// keep the mutex's promises.
var alone = []kind{
	{"Mutex", func(l *Locker, name string) (lock, try taker) {
		m := l.Mutex(name)
		return asTaker(m.Lock), asTaker(m.TryLock)
	}},
	{"RWMutex, writing", func(l *Locker, name string) (lock, try taker) {
		m := l.RWMutex(name)
		return asTaker(m.Write().Lock), asTaker(m.Write().TryLock)
	}},
	{"Semaphore of 1", func(l *Locker, name string) (lock, try taker) {
		return slots(l.Semaphore(name, 1), 1)
	}},
	{"Semaphore of 5, 3 at a time", func(l *Locker, name string) (lock, try taker) {
		return slots(l.Semaphore(name, 5), 3)
	}},
	{"several of one", func(l *Locker, name string) (lock, try taker) {
		all := l.All(l.Mutex(name))
		return asTaker(all.Lock), asTaker(all.TryLock)
	}},
	{"several: a read, slots and a write", func(l *Locker, name string) (lock, try taker) {
		all := l.All(l.RWMutex(name).Write(), l.RWMutex(name+" read").Read(), l.Semaphore("0 "+name, 3).Slots(1))
		return asTaker(all.Lock), asTaker(all.TryLock)
	}},
}

func slots(s *Semaphore, k int) (lock, try taker) {
	return func(ctx context.Context) (grant, error) { return s.Acquire(ctx, k) },
		func(ctx context.Context) (grant, error) { return s.TryAcquire(ctx, k) }
}

func asTaker[G grant](f func(context.Context) (G, error)) taker {
	return func(ctx context.Context) (grant, error) { return f(ctx) }
}

// eachAlone runs f for each kind of lock and on each kind of store, in a bubble.
func eachAlone(t *testing.T, f func(*testing.T, kind, *Locker)) {
	for _, k := range alone {
		t.Run(k.name+" in memory", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, k, locker(t, memstore.New(), nil)) })
		})
		t.Run(k.name+" over a link", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
				f(t, k, locker(t, withNotifications{s}, nil))
			})
		})
	}
}

func TestAFreeNameIsGrantedAHeldOneRefused(t *testing.T) { // B1, B3, B10
	eachAlone(t, func(t *testing.T, k kind, locks *Locker) {
		_, try := k.lock(locks, "a")
		_, again := k.lock(locks, "a")
		for range 10 {
			l, err := try(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, try := range []taker{try, again} {
				if _, err := try(t.Context()); !errors.Is(err, ErrHeld) || errors.Is(err, ErrUnavailable) { // B11
					t.Fatalf("a second try: got %v, want ErrHeld", err)
				}
			}
			release(t, l)
		}
	})
}

func TestAHundredTasksAreNeverTwoInsideAndAllFinish(t *testing.T) { // B4, B10
	eachAlone(t, func(t *testing.T, k kind, locks *Locker) {
		var all sync.WaitGroup
		var inside, done atomic.Int64
		start := time.Now()
		for range 100 {
			all.Go(func() {
				lock, _ := k.lock(locks, "a")
				l, err := lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock, want 1", n)
				}
				time.Sleep(10 * time.Millisecond)
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
				done.Add(1)
			})
		}
		all.Wait()
		same(t, "done", done.Load(), 100)
		if d := time.Since(start); d > 3*time.Second {
			t.Fatalf("a hundred tasks of 10 ms took %v, want at most 3s", d)
		}
	})
}

func TestOfAHundredTriesOneWins(t *testing.T) { // B5, B10
	eachAlone(t, func(t *testing.T, k kind, locks *Locker) {
		var all sync.WaitGroup
		var won, refused atomic.Int64
		for range 100 {
			all.Go(func() {
				_, try := k.lock(locks, "a")
				switch _, err := try(t.Context()); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, ErrHeld):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		same(t, "winners", won.Load(), 1)
		same(t, "refused", refused.Load(), 99)
	})
}

// B6, under the race detector: the counters are not atomic.
func TestNoIncrementIsLost(t *testing.T) { // B6
	locks := locker(t, memstore.New(), nil)
	var counters [2]int
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				c := i % 2
				err := locks.Mutex(fmt.Sprint("counter ", c)).Do(t.Context(), func(context.Context) error {
					was := counters[c]
					runtime.Gosched()
					counters[c] = was + 1
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	same(t, "counts", counters, [2]int{800, 800})
}

func TestNoClaimStarves(t *testing.T) { // B7
	for _, notifications := range []bool{true, false} {
		t.Run(fmt.Sprint("notifications ", notifications), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				var all sync.WaitGroup
				for range 10 {
					link := linkTo(t, mem)
					var s store.Store = link
					if notifications {
						s = withNotifications{link}
					}
					locks := locker(t, s, nil)
					all.Go(func() {
						for range 100 {
							l, err := locks.Mutex("a").Lock(t.Context())
							if err != nil {
								t.Error(err)
								return
							}
							time.Sleep(time.Millisecond)
							if err := l.Release(); err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				empty(t, mem)
			})
		})
	}
}

func TestOneReleaseAdmitsExactlyOneAtOnce(t *testing.T) { // B8
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		o := other(t, mem, "a", time.Hour)
		var in atomic.Int64
		for range 5 {
			locks := locker(t, withNotifications{linkTo(t, mem)}, nil)
			go func() {
				if _, err := locks.Mutex("a").Lock(t.Context()); err == nil {
					in.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		o.release()
		synctest.Wait() // no time passes
		same(t, "in", in.Load(), 1)
	})
}

func TestIDsAreRandomAndOfOneLength(t *testing.T) { // B53
	locks := locker(t, memstore.New(), nil)
	seen := map[string]bool{}
	for range 1000 {
		l := lock(t, locks, "a")
		same(t, "length", len(l.ID()), 32)
		if seen[l.ID()] {
			t.Fatal("two leases have one id")
		}
		seen[l.ID()] = true
		release(t, l)
	}
}

func TestALossIsReportedAtOnceWhileARenewalHangs(t *testing.T) { // B61
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{hang: hang}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(15 * time.Second)
		start := time.Now()
		if over(l.Lost()) || !l.Valid() || l.Context(t.Context()).Err() != nil {
			t.Fatal("the lease ended while a renewal hangs, before its deadline")
		}
		same(t, "waited", time.Since(start), 0)
		close(hang)
	})
}

func TestTokensGrow(t *testing.T) { // B67
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var last int64
		for i := range 300 {
			l := lock(t, locker(t, linkTo(t, mem), nil), "a")
			if l.Token() <= last {
				t.Fatalf("got token %d after %d, want a larger one", l.Token(), last)
			}
			last = l.Token()
			switch i % 3 {
			case 0:
				release(t, l)
			case 1:
				mem.Break("a")
			case 2:
				l.engine().Probe().Forget() // its process dies
				time.Sleep(time.Minute)
			}
		}
	})
}

// B110: in every form, although the name is free.
func TestAContextThatHasEndedIsRefused(t *testing.T) { // B110
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		never := func(context.Context) error { t.Error("fn was called, although the context had ended"); return nil }
		rw, m, sem := locks.RWMutex("a"), locks.Mutex("a"), locks.Semaphore("s", 3)
		errs := map[string]error{}
		_, errs["Lock"] = m.Lock(ctx)
		_, errs["TryLock"] = m.TryLock(ctx)
		errs["Do"] = m.Do(ctx, never)
		_, errs["TryDo"] = m.TryDo(ctx, never)
		_, errs["RWMutex.Lock"] = rw.Write().Lock(ctx)
		_, errs["RWMutex.TryLock"] = rw.Write().TryLock(ctx)
		_, errs["RLock"] = rw.Read().Lock(ctx)
		_, errs["TryRLock"] = rw.Read().TryLock(ctx)
		errs["RWMutex.Do"] = rw.Write().Do(ctx, never)
		errs["RDo"] = rw.Read().Do(ctx, never)
		_, errs["RWMutex.TryDo"] = rw.Write().TryDo(ctx, never)
		_, errs["TryRDo"] = rw.Read().TryDo(ctx, never)
		_, errs["Acquire"] = sem.Acquire(ctx, 1)
		_, errs["TryAcquire"] = sem.TryAcquire(ctx, 1)
		errs["Semaphore.Do"] = sem.Slots(1).Do(ctx, never)
		_, errs["Semaphore.TryDo"] = sem.Slots(1).TryDo(ctx, never)
		for form, err := range errs {
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrHeld) {
				t.Errorf("%s: %v", form, err)
			}
		}
		same(t, "calls", len(s.made()), 0)
	})
}

// B119: other code may still use its context.
func TestADroppedLeaseIsRenewedUntilClose(t *testing.T) { // B119
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ctx := lock(t, locks, "a").Context(t.Context())
		for range 10 {
			runtime.GC()
			time.Sleep(time.Minute)
		}
		same(t, "error of the context", ctx.Err(), nil)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		is(t, context.Cause(ctx), ErrClosed)
		empty(t, s.mem)
	})
}
