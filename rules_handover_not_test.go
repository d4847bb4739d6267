package holdfast

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestHandOver_OnlyWhileMoreThanHalfOfTheTTLIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		s.renewalsFail(start.Add(3500 * time.Millisecond))
		locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second, HandOver: &HandOver{Times: 64, For: time.Minute}})
		l := lock(t, locks, "a")
		all := inLine(t, locks, 4)
		time.Sleep(2900 * time.Millisecond)
		release(t, l)
		l = all[0].handed()
		time.Sleep(100 * time.Millisecond)
		release(t, l) // half of the TTL has passed
		next := all[1].got()
		if next.ID() == l.ID() {
			t.Fatal("the hold was handed over with less than half of the TTL left")
		}
		// After a renewal more than half is left again.
		time.Sleep(4 * time.Second)
		release(t, next)
		same(t, "id", all[2].handed().ID(), next.ID())
		release(t, all[2].lease)
		release(t, all[3].handed())
	})
}

func TestHandOver_AClaimForSomethingElseAsksTheStore(t *testing.T) {
	for name, o := range map[string]*Options{
		"another TTL":  {TTL: 7 * time.Second},
		"a lock delay": {LockDelay: time.Second},
		"a min hold":   {MinHold: time.Second},
		"no renewal":   {NoRenew: On},
		"none wanted":  {HandOver: &HandOver{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, withNotifications{s}, nil)
				asksItself(t, s, locks, locks.With(o).Mutex("a").Lock)
			})
		})
	}
	t.Run("a reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			asksItself(t, s, locks, locks.RWMutex("a").Read().Lock)
		})
	})
}

// asksItself checks that the locker's hold is not handed over to the other, whether
// that is the first waiter or not, and that no claim overtakes it.
func asksItself(t *testing.T, s *link, locks *Locker, other func(context.Context) (*Lease, error)) {
	t.Helper()
	for _, before := range []int{0, 2} {
		l := lock(t, locks, "a")
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		first := inLine(t, locks, before)
		w := waits(t, other)
		behind := waits(t, locks.Mutex("a").Lock)
		for _, w := range first {
			release(t, l)
			l = w.handed()
		}
		synctest.Wait()
		same(t, "entries", len(stored(s.mem, "a").Entries), 2) // it has asked for a position
		release(t, l)
		mine := w.got()
		if mine.ID() == l.ID() {
			t.Fatal("the hold was handed over, want an ask of the store")
		}
		behind.waiting()
		release(t, mine)
		release(t, behind.got())
		time.Sleep(time.Minute) // a minimum hold has ended
	}
}

func TestHandOver_OffWhenItsBoundsAreZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{HandOver: &HandOver{}})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		release(t, l)
		if next.got().ID() == l.ID() {
			t.Fatal("the hold was handed over, although HandOver is off")
		}
		same(t, "tokens asked for", s.made("try")[0].claim.Block, 1)
		release(t, next.lease)
		same(t, "local waiters left", locks.kept(), 0)
	})
}

func TestHandOver_ASemaphoreIsHandedOnOnlyAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		sem := locker(t, withNotifications{s}, nil).Semaphore("a", 3)
		all := func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 3) }
		l, err := all(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		next := waits(t, all)
		release(t, l)
		l = next.handed()
		part := waits(t, func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 2) })
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		release(t, l)
		l = part.got()
		same(t, "tokens asked for", s.made("ask")[1].claim.Block, 1)
		release(t, l)
	})
}

// Its time is then the one that its owner has set, not the one that the next asked for.
func TestHandOver_AHoldRenewedByHandIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		if err := l.Renew(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		release(t, l)
		if next.got().ID() == l.ID() {
			t.Fatal("the hold was handed over, although it is renewed by hand")
		}
		release(t, next.lease)
	})
}

// A set of names is renewed while it is being taken, and perhaps not after that: a
// hold that will not be renewed is not handed over.
func TestHandOver_NotOfSeveralNamesWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		all, err := locks.With(&Options{NoRenew: On}).All(locks.Mutex("a"), locks.Mutex("b")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := waits(t, locks.Mutex("a").Lock)
		if err := all.Release(); err != nil {
			t.Fatal(err)
		}
		mine := next.got()
		time.Sleep(time.Minute)
		same(t, "valid", mine.Valid(), true)
		release(t, mine)
	})
}

// Observers see of a leader what the store has of it.
func TestHandOver_NotOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		term, err := locks.With(&Options{Note: "first"}).Election("a").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := waits(t, locks.With(&Options{Note: "second"}).Election("a").Campaign)
		release(t, term)
		mine := next.got()
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "second")
		release(t, mine)
	})
}
