package holdfast

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// inLine are n waiters for the mutex "a", in the order in which they came.
func inLine(t *testing.T, locks *Locker, n int) (all []*waiter) {
	for range n {
		all = append(all, waits(t, locks.Mutex("a").Lock))
	}
	return all
}

// kept is the state that the engine keeps for its waiters.
func (l *Locker) kept() int { return l.engine.Waiters() }

func TestOneWaiterAProcessAndNameAsksTheStore(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		all := inLine(t, locks, 50)
		time.Sleep(time.Minute)
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		ids := map[store.ID]bool{}
		for _, c := range s.made("try", "ask") {
			ids[c.id] = true
		}
		same(t, "claims", len(ids), 1)
		o.release()
		for _, w := range all {
			release(t, w.got())
		}
		same(t, "local waiters left", locks.kept(), 0)
	})
}

func TestOneNameDoesNotWaitForAnother(t *testing.T) { // rule 6, B2
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		w := waits(t, locks.Mutex("a").Lock)
		release(t, lock(t, locks, "b"))
		w.waiting()
	})
}

func TestFirstInFirstOut(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		all := inLine(t, locker(t, withNotifications{s}, nil), 20)
		o.release()
		for i, w := range all {
			l := w.got()
			for _, later := range all[i+1:] {
				later.waiting()
			}
			release(t, l)
		}
	})
}

// Two processes take turns: neither is served with all its waiters first.
func TestProcessesTakeTurns(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		a := inLine(t, locker(t, withNotifications{s}, &Options{HandOver: &HandOver{}}), 5)
		b := inLine(t, locker(t, withNotifications{s}, &Options{HandOver: &HandOver{}}), 5)
		o.release()
		for i := range a {
			for _, w := range []*waiter{a[i], b[i]} {
				l := w.got()
				synctest.Wait() // the next of its process has asked
				release(t, l)
			}
		}
	})
}

func TestACanceledHeadLeavesItsPositionToTheNext(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		all := inLine(t, locks, 4)
		all[0].cancel()
		all[0].failed(context.Canceled, ErrHeld)
		all[2].cancel() // from the middle of the local queue
		all[2].failed(context.Canceled, ErrHeld)
		synctest.Wait()
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		o.release()
		release(t, all[1].got())
		release(t, all[3].got())
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// The first waiter leaves in the same instant in which the next one gives up: a
// waiter that is admitted but has left passes its turn on.
func TestAnAdmittedWaiterThatLeftAdmitsTheNext(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		for range 100 {
			o := other(t, s.mem, "a", time.Hour)
			all := inLine(t, locks, 4)
			for _, w := range all[:3] {
				w.cancel()
			}
			o.release()
			for _, w := range all[:3] {
				w.failed(context.Canceled)
			}
			release(t, all[3].got())
			synctest.Wait()
			same(t, "local waiters left", locks.kept(), 0)
			empty(t, s.mem)
		}
	})
}

// B116, B117: and no waiter is admitted that has nothing to ask for.
func TestAHundredWaitersLeaveTogetherAndNothingIsKept(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waiter
		for range 100 {
			all = append(all, waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(ctx) }))
		}
		asked := len(s.made("ask"))
		cancelled := time.Now()
		cancel()
		for _, w := range all {
			w.failed(context.Canceled, ErrHeld)
			same(t, "returned after", w.at.Sub(cancelled), 0)
		}
		synctest.Wait()
		same(t, "asks", len(s.made("ask")), asked)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// A wait in the local queue ends by its own deadline, and its error names the
// holders that block the first waiter.
func TestALocalWaitIsBoundedAndReportsTheHolder(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		head := waits(t, locks.Mutex("a").Lock)
		start := time.Now()
		_, err := locks.With(&Options{Wait: 200 * time.Millisecond}).Mutex("a").Lock(t.Context())
		same(t, "gave up after", time.Since(start), 200*time.Millisecond)
		is(t, err, context.DeadlineExceeded, ErrHeld)
		same(t, "holder", heldBy(t, err).Host, "elsewhere")
		head.waiting()
	})
}

func TestATryNeverWaitsInTheLocalQueue(t *testing.T) { // rule 6
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		inLine(t, locks, 3)
		start := time.Now()
		_, err := locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
		same(t, "took", time.Since(start), 0)
	})
}

func TestNothingIsKeptForNamesWithoutWaiters(t *testing.T) { // rule 6, B117
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		for i := range 1000 {
			name := fmt.Sprint(i)
			o := other(t, s.mem, name, time.Hour)
			w := waits(t, locks.Mutex(name).Lock)
			if i%2 == 0 {
				w.cancel()
				w.failed(context.Canceled)
				o.release()
			} else {
				o.release()
				release(t, w.got())
			}
		}
		same(t, "local waiters left", locks.kept(), 0)
	})
}
