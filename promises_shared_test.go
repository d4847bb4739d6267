package holdfast

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

func TestReadersAndWriters(t *testing.T) { // B12, B13, B14, B15
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		mine := locker(t, withNotifications{linkTo(t, mem)}, nil).RWMutex("a")
		theirs := locker(t, withNotifications{linkTo(t, mem)}, nil).RWMutex("a")
		try := func(what string, try func(context.Context) (*Lease, error), want error) *Lease {
			t.Helper()
			l, err := try(t.Context())
			if !errors.Is(err, want) {
				t.Fatalf("%s: got %v, want %v", what, err, want)
			}
			return l
		}
		r1, r2 := try("a reader", mine.Read().TryLock, nil), try("a second reader", theirs.Read().TryLock, nil)
		try("a writer while readers hold it", theirs.Write().TryLock, ErrHeld)
		w := waits(t, mine.Write().Lock)
		try("a reader behind a waiting writer", theirs.Read().TryLock, ErrHeld) // B14
		release(t, r1)
		w.waiting()
		release(t, r2)
		l := w.got()
		try("a reader while a writer holds it", theirs.Read().TryLock, ErrHeld)
		try("a writer while a writer holds it", theirs.Write().TryLock, ErrHeld)
		release(t, l)
		r3 := try("a reader after the writer released", theirs.Read().TryLock, nil)
		w = waits(t, mine.Write().Lock)
		try("a reader behind a waiting writer", theirs.Read().TryLock, ErrHeld)
		w.cancel() // B15
		w.failed(context.Canceled, ErrHeld)
		synctest.Wait()
		release(t, try("a reader after the writer gave up", theirs.Read().TryLock, nil))
		release(t, r3)
	})
}

func TestWritersAreAloneAndReadersOverlap(t *testing.T) { // B16
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
								t.Error("a writer holds the lock together with others")
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
								t.Error("a reader holds the lock together with a writer")
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
			t.Fatalf("at most %d readers at once, %d writes: too few to prove anything", most.Load(), writes.Load())
		}
	})
}

// B17, and the same from a mutex: a claim under the holder's own context fails at once.
func TestAWaitForItselfIsADeadlock(t *testing.T) { // B17, B33
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
				t.Fatalf("%s under a read: got %v, want ErrDeadlock", what, err)
			}
		}
		same(t, "calls", len(s.made()), calls)
		if !r.Valid() {
			t.Fatal("the read lease is not valid")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // not under the lease
		defer cancel()
		_, err = rw.Write().Lock(ctx)
		is(t, err, context.DeadlineExceeded, ErrHeld)
		synctest.Wait() // the position is released in the background
		release(t, r)
		released := r.Context(t.Context())
		is(t, released.Err(), context.Canceled)
		release(t, lock(t, locks, "a"))

		one, err := sem.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		// Two claims under the same lease: the lease counts once.
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

func TestNeverMoreInsideThanSlots(t *testing.T) { // B30
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
			same(t, "different numbers of holders", len(seen), c.slots)
			same(t, "more holders than slots", seen[c.slots+1], false)
			empty(t, mem)
		})
	}
}

func TestSlotsAreCountedAcrossObjects(t *testing.T) { // B31, B32
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
		_, err = b.Semaphore("a", 2).TryAcquire(t.Context(), 1) // two totals: the claim has to fit under the smaller
		is(t, err, ErrHeld)
		_, err = b.Semaphore("a", 4).TryAcquire(t.Context(), 1)
		is(t, err, ErrHeld)
		_, err = b.Mutex("a").Lock(t.Context()) // B87
		is(t, err, ErrMismatch)
		if text := err.Error(); !strings.Contains(text, "semaphore of 3") || !strings.Contains(text, "a lock") {
			t.Fatalf("%v does not name both kinds", err)
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

func TestCancelingAsASlotIsFreedLosesNoSlot(t *testing.T) { // B35
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

// B20.
func TestAReadHoldOutlivesItsTTLAndKeepsAWriterOut(t *testing.T) { // B20
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
