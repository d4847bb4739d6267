package holdfast

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// Claims of one process that fit together under the limit are sent together.

// slow makes each call take d, there and back.
func slow(s *link, d time.Duration) {
	s.on(func(*call) fate { return fate{there: d / 2, back: d - d/2} })
}

// most records how many are inside at a time.
type most struct{ now, top atomic.Int64 }

func (m *most) in() {
	n := m.now.Add(1)
	for {
		top := m.top.Load()
		if n <= top || m.top.CompareAndSwap(top, n) {
			return
		}
	}
}
func (m *most) out() { m.now.Add(-1) }

// readersBesideWriters has 50 readers and two writers work for a minute, and
// returns how often each kind had the name, and how many calls were made.
func readersBesideWriters(t *testing.T, lockers int) (reads, writes, calls int) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		slow(s, readTrip)
		var locks []*Locker
		for range lockers {
			l := linkTo(t, s.mem)
			slow(l, readTrip)
			locks = append(locks, locker(t, withNotifications{l}, nil))
			defer func() { calls += len(l.made()) }()
		}
		var read, written atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		work := func(i int, lock func(context.Context) (*Lease, error), hold, pause time.Duration, n *atomic.Int64) {
			all.Go(func() {
				for ctx.Err() == nil {
					l, err := lock(ctx)
					if err != nil {
						continue
					}
					time.Sleep(hold)
					n.Add(1)
					_ = l.Release()
					time.Sleep(pause)
				}
			})
		}
		for i := range 50 {
			work(i, locks[i%lockers].RWMutex("a").Read().Lock, 100*time.Millisecond, time.Duration(i)*time.Millisecond, &read)
		}
		for i := range 2 {
			work(i, locks[i%lockers].RWMutex("a").Write().Lock, 10*time.Millisecond, 50*time.Millisecond, &written)
		}
		all.Wait()
		reads, writes = int(read.Load()), int(written.Load())
	})
	return reads, writes, calls
}

func TestReadersOfOneLockerDoNotWaitForEachOther(t *testing.T) { // rule 6
	one, wrote, calls := readersBesideWriters(t, 1)
	many, wroteMany, callsMany := readersBesideWriters(t, 52)
	t.Logf("a minute of 50 readers and 2 writers: one Locker %d reads, %d writes, %d calls; 52 Lockers %d reads, %d writes, %d calls",
		one, wrote, calls, many, wroteMany, callsMany)
	if one < many/2 {
		t.Errorf("got %d reads, want at least half of those with 52 Lockers: %d", one, many)
	}
	if wrote < wroteMany/2 {
		t.Errorf("got %d writes, want at least half of those with 52 Lockers: %d", wrote, wroteMany)
	}
}

func TestClaimsThatFitTogetherAreSentTogether(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		const trip = 10 * time.Millisecond
		var asks most
		s.on(func(c *call) fate {
			asks.in()
			time.AfterFunc(trip-1, asks.out)
			return fate{there: trip / 2, back: trip / 2}
		})
		locks := locker(t, withNotifications{s}, nil)
		start := time.Now()
		var all []*waiter
		for range 100 {
			all = append(all, waits(t, func(ctx context.Context) (*Lease, error) {
				return locks.Semaphore("a", 1000).Acquire(ctx, 1)
			}))
		}
		for _, w := range all {
			w.got()
		}
		took := time.Since(start)
		t.Logf("100 slots of 1,000 in %v, %d round trips; at most %d asks at a time", took, took/trip, asks.top.Load())
		if took > 10*trip {
			t.Errorf("it took %d round trips, want at most 10", took/trip)
		}
		if n := asks.top.Load(); n > engine.MostSent {
			t.Errorf("got %d asks at a time, want at most %d", n, engine.MostSent)
		}
	})
}

// However many claims wait, only so many have a position in the store.
func TestPositionsOfOneProcessAreBounded(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		var all []*waiter
		for range 200 {
			all = append(all, waits(t, locks.RWMutex("a").Read().Lock))
		}
		same(t, "entries", len(stored(s.mem, "a").Entries), 1+engine.MostInside)
		o.release()
		for _, w := range all {
			w.got()
		}
		for _, w := range all {
			release(t, w.lease)
		}
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// Claims that come one after another, and must wait in the store, are served in
// the order in which they came.
func TestSlotsThatAreWaitedForAreServedInOrder(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		first, err := locks.Semaphore("a", 3).Acquire(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		s.on(func(c *call) fate { // the later one would be there first
			if c.op != "ask" {
				return fate{}
			}
			return fate{there: time.Duration(max(100-c.n, 1)) * time.Millisecond}
		})
		var all []*waiter
		for range 12 {
			all = append(all, waits(t, func(ctx context.Context) (*Lease, error) {
				return locks.Semaphore("a", 3).Acquire(ctx, 1)
			}))
		}
		time.Sleep(2 * time.Second)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1+3)
		release(t, first)
		time.Sleep(time.Second) // the next three have their positions
		for i, w := range all {
			l := w.got()
			release(t, l)
			time.Sleep(time.Second)
			if i+3 < len(all) {
				all[i+3].handed()
				for _, later := range all[i+4:] {
					later.waiting()
				}
			}
		}
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// A writer that waits in the process is not passed by a later reader.
func TestReadersDoNotPassAWriterOfTheirProcess(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		rw := locks.RWMutex("a")
		var readers []*waiter
		for range 3 {
			readers = append(readers, waits(t, rw.Read().Lock))
		}
		writer := waits(t, rw.Write().Lock)
		late := waits(t, rw.Read().Lock)
		for _, r := range readers {
			writer.waiting()
			late.waiting()
			release(t, r.got())
		}
		w := writer.got()
		late.waiting()
		release(t, w)
		release(t, late.got())
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// Without notifications one claim polls for all. Once it is granted, the others
// ask at once.
func TestOnePollsForAllThatFitTogether(t *testing.T) { // rule 6
	looks := func(readers int) (n int, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			o := other(t, s.mem, "a", time.Hour)
			locks := locker(t, withPolls{s}, nil)
			var all []*waiter
			for range readers {
				all = append(all, waits(t, locks.RWMutex("a").Read().Lock))
			}
			time.Sleep(time.Minute)
			n = len(s.made("poll"))
			o.release()
			freed := time.Now()
			for _, w := range all {
				release(t, w.got())
			}
			took = time.Since(freed)
		})
		return n, took
	}
	one, _ := looks(1)
	many, took := looks(50)
	t.Logf("polls in a minute: %d for one reader, %d for 50; all were granted %v after the release", one, many, took)
	if many > one*3/2 {
		t.Errorf("%d polls for 50 readers, want at most 1.5 times those for one: %d", many, one)
	}
	if took > time.Second {
		t.Errorf("the last reader was granted %v after the release, want at most 1s", took)
	}
}

// When the claim that polls gives up, another polls.
func TestAnotherPollsWhenTheOneThatDidHasLeft(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		locks := locker(t, withPolls{s}, nil)
		all := []*waiter{waits(t, locks.RWMutex("a").Read().Lock), waits(t, locks.RWMutex("a").Read().Lock), waits(t, locks.RWMutex("a").Read().Lock)}
		all[0].cancel()
		all[0].failed(context.Canceled, ErrHeld)
		o.release()
		freed := time.Now()
		for _, w := range all[1:] {
			release(t, w.got())
		}
		if took := time.Since(freed); took > time.Second {
			t.Errorf("the last reader was granted %v after the release, want at most 1s", took)
		}
	})
}

// An invalid call fails at once, also while other claims of the process wait.
func TestAnotherLimitIsReturnedAtOnce(t *testing.T) { // rule 6
	for name, prepare := range map[string]func(*testing.T, *link, *Locker){
		"while other processes wait": func(t *testing.T, s *link, locks *Locker) {
			other(t, s.mem, "a", time.Hour)
			inLine(t, locks, 3)
		},
		"while this process holds it": func(t *testing.T, s *link, locks *Locker) {
			l := lock(t, locks, "a")
			t.Cleanup(func() { l.Release() })
		},
		"while it is handed over": func(t *testing.T, s *link, locks *Locker) {
			l := lock(t, locks, "a")
			all := inLine(t, locks, 2)
			release(t, l)
			all[0].handed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, withNotifications{s}, nil)
				prepare(t, s, locks)
				w := waits(t, func(ctx context.Context) (*Lease, error) { return locks.Semaphore("a", 5).Acquire(ctx, 1) })
				start := time.Now()
				w.failed(ErrMismatch)
				same(t, "failed after", w.at.Sub(start), 0)
				m := store.MismatchError{Have: store.Full, Want: 5}
				same(t, "error with both limits", fmt.Sprint(w.err), `acquire 1 of 5 slots of "a" on a link: `+m.Error())
			})
		})
	}
}

// The waiters for many names do not all send at the same instant.
func TestPollsOfManyNamesGoABatchAtATime(t *testing.T) { // rule 5
	for _, trip := range []time.Duration{10 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) { pollsOfMany(t, trip) })
	}
}

func pollsOfMany(t *testing.T, trip time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		const names = 3 * engine.MostPolls
		for i := range names {
			other(t, s.mem, fmt.Sprint(i), time.Hour)
		}
		var waiting sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range names {
			waiting.Go(func() { _, _ = locks.Mutex(fmt.Sprint(i)).Lock(ctx) })
		}
		synctest.Wait()
		var asks most
		var n atomic.Int64
		s.on(func(c *call) fate {
			if c.op != "ask" {
				return fate{}
			}
			asks.in()
			n.Add(1)
			time.AfterFunc(trip-1, asks.out)
			return fate{back: trip}
		})
		time.Sleep(third + third/10 + names/engine.MostPolls*trip)
		if n.Load() < names {
			t.Fatalf("only %d positions were kept, want %d", n.Load(), names)
		}
		t.Logf("%d asks, at most %d at a time", n.Load(), asks.top.Load())
		if top := asks.top.Load(); top > engine.MostPolls {
			t.Errorf("%d asks at a time, too many", top)
		}
		s.tell(store.Notification{}) // the zero notification: all poll
		time.Sleep(names / engine.MostPolls * trip)
		if top := asks.top.Load(); top > engine.MostPolls {
			t.Errorf("%d asks at a time after a notification for all, too many", top)
		}
		// A claim that leaves while it waits for its turn sends only the withdrawal.
		s.tell(store.Notification{})
		cancel()
		waiting.Wait()
		if top := asks.top.Load(); top > engine.MostPolls {
			t.Errorf("%d asks at a time when all gave up, too many", top)
		}
		s.on(nil)
		time.Sleep(time.Second)
	})
}

// If a server does not answer, its polls do not delay others for long.
func TestUnansweredPollsDelayNoOthersForLong(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range 3 * engine.MostPolls {
			name := fmt.Sprint("frozen ", i)
			other(t, s.mem, name, time.Hour)
			waiting.Go(func() { _, _ = locks.Mutex(name).Lock(ctx) })
		}
		synctest.Wait()
		other(t, s.mem, "a", time.Hour)
		w := waits(t, locks.Mutex("a").Lock)
		begin := time.Now()
		s.on(func(c *call) fate {
			if c.op == "ask" && c.name != "a" {
				return fate{back: time.Hour}
			}
			return fate{}
		})
		time.Sleep(30 * time.Second)
		last := begin
		for _, c := range s.made("ask") {
			if c.name != "a" || c.sent.Before(begin) {
				continue
			}
			if gap := c.sent.Sub(last); gap > third+2*time.Second {
				t.Fatalf("its position was not asked for in %v, too long", gap)
			}
			last = c.sent
		}
		w.waiting()
		s.on(nil)
		cancel()
		waiting.Wait()
		time.Sleep(10 * time.Second)
	})
}

const readTrip = 20 * time.Millisecond
