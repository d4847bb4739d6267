package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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

// A kind is a way to have a name alone.
type kind struct {
	name string
	lock func(*Locker, string) (lock, try taker)
}

// The kinds of which one holder alone fits: B10 and B47 say that all of them
// pass the mutex's promises.
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

func TestB1_B3_B10_AFreeNameIsGrantedAHeldOneRefused(t *testing.T) {
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
					t.Fatalf("a second try: %v, want ErrHeld", err)
				}
			}
			release(t, l)
		}
	})
}

func TestB4_B10_AHundredTasksAreNeverTwoInsideAndAllFinish(t *testing.T) {
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
					t.Errorf("%d inside", n)
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
			t.Fatalf("a hundred tasks of 10 ms took %v", d)
		}
	})
}

func TestB5_B10_OfAHundredTriesOneWins(t *testing.T) {
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

// B6, under the race detector: the counters are plain.
func TestB6_NoIncrementIsLost(t *testing.T) {
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

func TestB7_NobodyStarves(t *testing.T) {
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

func TestB8_OneReleaseAdmitsExactlyOneAtOnce(t *testing.T) {
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

func TestB12_B13_B14_B15_ReadersAndWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		mine := locker(t, withNotifications{linkTo(t, mem)}, nil).RWMutex("a")
		theirs := locker(t, withNotifications{linkTo(t, mem)}, nil).RWMutex("a")
		try := func(what string, try func(context.Context) (*Lease, error), want error) *Lease {
			t.Helper()
			l, err := try(t.Context())
			if !errors.Is(err, want) {
				t.Fatalf("%s: %v, want %v", what, err, want)
			}
			return l
		}
		r1, r2 := try("a reader", mine.Read().TryLock, nil), try("a second reader", theirs.Read().TryLock, nil)
		try("a writer beside readers", theirs.Write().TryLock, ErrHeld)
		w := waits(t, mine.Write().Lock)
		try("a reader behind a waiting writer", theirs.Read().TryLock, ErrHeld) // B14
		release(t, r1)
		w.waiting()
		release(t, r2)
		l := w.got()
		try("a reader beside a writer", theirs.Read().TryLock, ErrHeld)
		try("a writer beside a writer", theirs.Write().TryLock, ErrHeld)
		release(t, l)
		r3 := try("a reader after the writer", theirs.Read().TryLock, nil)
		w = waits(t, mine.Write().Lock)
		try("a reader behind a waiting writer", theirs.Read().TryLock, ErrHeld)
		w.cancel() // B15
		w.failed(context.Canceled, ErrHeld)
		synctest.Wait()
		release(t, try("a reader after the writer gave up", theirs.Read().TryLock, nil))
		release(t, r3)
	})
}

func TestB16_WritersAreAloneAndReadersOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var all sync.WaitGroup
		var readers, writers, most, writes atomic.Int64
		for range 8 {
			rw := locker(t, withNotifications{linkTo(t, mem)}, nil).RWMutex("a")
			all.Go(func() {
				for range 100 {
					var err error
					if rand.IntN(10) == 0 {
						err = rw.Write().Do(t.Context(), func(context.Context) error {
							if writers.Add(1) != 1 || readers.Load() != 0 {
								t.Error("a writer is not alone")
							}
							time.Sleep(time.Millisecond)
							writers.Add(-1)
							writes.Add(1)
							return nil
						})
					} else {
						err = rw.Read().Do(t.Context(), func(context.Context) error {
							n := readers.Add(1)
							most.Store(max(most.Load(), n))
							if writers.Load() != 0 {
								t.Error("a reader beside a writer")
							}
							time.Sleep(time.Millisecond)
							readers.Add(-1)
							return nil
						})
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if most.Load() < 2 || writes.Load() < 20 {
			t.Fatalf("at most %d readers at once, %d writes", most.Load(), writes.Load())
		}
	})
}

// B17, and the same from a mutex: the holder's own context tells at once.
func TestB17_B33_WhoWouldWaitForItselfIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		rw, m, sem := locks.RWMutex("a"), locks.Mutex("a"), locks.Semaphore("s", 3)
		r, err := rw.Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		calls := len(s.made())
		for what, lock := range map[string]func(context.Context) (*Lease, error){
			"write": rw.Write().Lock, "try write": rw.Write().TryLock, "read": rw.Read().Lock, "mutex": m.Lock, "try mutex": m.TryLock,
		} {
			if _, err := lock(r.Context(t.Context())); !errors.Is(err, ErrDeadlock) {
				t.Fatalf("%s under a read: %v", what, err)
			}
		}
		same(t, "calls", len(s.made()), calls)
		if !r.Valid() {
			t.Fatal("the read hold is gone")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // not under the lease
		defer cancel()
		_, err = rw.Write().Lock(ctx)
		is(t, err, context.DeadlineExceeded, ErrHeld)
		synctest.Wait() // the position is given back behind our back
		release(t, r)
		released := r.Context(t.Context())
		is(t, released.Err(), context.Canceled)
		release(t, lock(t, locks, "a"))

		one, err := sem.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		// Twice under the same lease: it counts once.
		in := one.Context(context.WithValue(one.Context(t.Context()), someKey{}, 1))
		two, err := sem.Acquire(in, 2)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sem.Acquire(two.Context(in), 1)
		is(t, err, ErrDeadlock)
		release(t, two)
		other, err := sem.Acquire(in, 2)
		if err != nil {
			t.Fatal(err)
		}
		// B34: slots held elsewhere are not mistaken for it.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = sem.Acquire(ctx, 1)
		is(t, err, context.DeadlineExceeded, ErrHeld)
		same(t, "waited", time.Since(start), time.Second)
		synctest.Wait()
		release(t, other)
		release(t, one)
	})
}

func TestB30_NeverMoreInsideThanSlots(t *testing.T) {
	for _, c := range []struct{ slots, contenders int }{{3, 10}, {10, 100}} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			var all sync.WaitGroup
			var mu sync.Mutex
			inside, seen := 0, map[int]bool{}
			lockers := []*Locker{locker(t, withNotifications{linkTo(t, mem)}, nil), locker(t, withNotifications{linkTo(t, mem)}, nil)}
			for i := range c.contenders {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					err := lockers[i%2].Semaphore("a", c.slots).Slots(1).Do(t.Context(), func(context.Context) error {
						mu.Lock()
						inside++
						seen[inside] = true
						mu.Unlock()
						time.Sleep(time.Second)
						mu.Lock()
						inside--
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			same(t, "different numbers inside", len(seen), c.slots)
			same(t, "more than that", seen[c.slots+1], false)
			empty(t, mem)
		})
	}
}

func TestB31_B32_SlotsAreCountedAcrossObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		a, b := locker(t, linkTo(t, mem), nil), locker(t, linkTo(t, mem), nil)
		two, err := a.Semaphore("a", 3).TryAcquire(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		one, err := b.Semaphore("a", 3).TryAcquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Semaphore("a", 3).TryAcquire(t.Context(), 1)
		is(t, err, ErrHeld)
		_, err = b.Semaphore("a", 2).TryAcquire(t.Context(), 1) // two totals: it has to fit the smaller
		is(t, err, ErrHeld)
		_, err = b.Semaphore("a", 4).TryAcquire(t.Context(), 1)
		is(t, err, ErrHeld)
		_, err = b.Mutex("a").Lock(t.Context()) // B87
		is(t, err, ErrMismatch)
		if text := err.Error(); !strings.Contains(text, "semaphore of 3") || !strings.Contains(text, "a lock") {
			t.Fatalf("%v does not name both", err)
		}
		release(t, one)
		_, err = b.Semaphore("a", 3).TryAcquire(t.Context(), 2)
		is(t, err, ErrHeld)
		release(t, two)
		three, err := b.Semaphore("a", 3).TryAcquire(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		release(t, three)
	})
}

func TestB35_CancellingAsASlotIsFreedLosesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		locks := locker(t, withNotifications{linkTo(t, mem)}, nil)
		sem := locks.Semaphore("a", 2)
		for range 200 {
			full, err := sem.TryAcquire(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			w := waits(t, func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 1) })
			go w.cancel()
			release(t, full)
			w.wait()
			if w.err == nil {
				release(t, w.lease)
			}
			synctest.Wait()
			empty(t, mem)
		}
	})
}

func TestB53_IDsAreRandomAndOfOneLength(t *testing.T) {
	locks := locker(t, memstore.New(), nil)
	seen := map[string]bool{}
	for range 1000 {
		l := lock(t, locks, "a")
		same(t, "length", len(l.ID()), 32)
		if seen[l.ID()] {
			t.Fatal("an id was used again")
		}
		seen[l.ID()] = true
		release(t, l)
	}
}

func TestB61_LostIsThereAtOnceWhileARenewalHangs(t *testing.T) {
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
			t.Fatal("lost while a renewal hangs")
		}
		same(t, "waited", time.Since(start), 0)
		close(hang)
	})
}

func TestB67_TokensGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var last int64
		for i := range 300 {
			l := lock(t, locker(t, linkTo(t, mem), nil), "a")
			if l.Token() <= last {
				t.Fatalf("token %d after %d", l.Token(), last)
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

// B20.
func TestB20_AReadHoldOutlivesItsTTLAndKeepsAWriterOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, withNotifications{newLink(t)}, nil)
		r, err := locks.RWMutex("a").Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := waits(t, locks.RWMutex("a").Write().Lock)
		time.Sleep(10 * time.Minute)
		w.waiting()
		release(t, r)
		w.got()
	})
}

// B110: in every form, though the name is free.
func TestB110_AContextThatHasEndedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		never := func(context.Context) error { t.Error("run"); return nil }
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

// B119: somebody may still use its context.
func TestB119_ADroppedLeaseIsRenewedUntilClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ctx := lock(t, locks, "a").Context(t.Context())
		for range 10 {
			runtime.GC()
			time.Sleep(time.Minute)
		}
		same(t, "the context has ended", ctx.Err(), nil)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		is(t, context.Cause(ctx), ErrClosed)
		empty(t, s.mem)
	})
}
