package holdfast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// handed is the lease that must have been handed over to the waiter by now.
func (w *waiter) handed() *Lease {
	w.t.Helper()
	synctest.Wait()
	select {
	case <-w.done:
		return w.got()
	default:
		w.t.Fatal("the hold was not handed over")
		return nil
	}
}

func TestHandOver_GoesToTheNextWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		first, token := l.ID(), l.Token()
		all := inLine(t, locks, 10)
		for i, w := range all {
			w.waiting()
			release(t, l)
			l = w.handed()
			same(t, "id", l.ID(), first)
			same(t, "token", l.Token(), token+int64(i)+1)
			if !l.Valid() {
				t.Fatal("the lease is not valid")
			}
		}
		same(t, "operations", s.ops(), "try")
		release(t, l)
		same(t, "operations", s.ops(), "try release")
		same(t, "newest token", s.made("release")[0].holds[0].Used, token+10)
		same(t, "local waiters left", locks.kept(), 0)
		empty(t, s.mem)
	})
}

// A writer waits in another process all the while. Its token is larger than those
// of all leases that are handed over before it, and so is that of a later upgrade.
func TestHandOver_TokensGrowAcrossProcessesAndUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks, elsewhere := locker(t, withNotifications{s}, nil), locker(t, withNotifications{linkTo(t, s.mem)}, nil)
		newest := int64(0)
		larger := func(token int64) {
			t.Helper()
			if token <= newest {
				t.Fatalf("got token %d after %d, want a larger one", token, newest)
			}
			newest = token
		}
		for range 3 {
			l := lock(t, locks, "a")
			larger(l.Token())
			writer := waits(t, elsewhere.Mutex("a").Lock)
			for range 10 {
				next := waits(t, locks.RWMutex("a").Write().Lock)
				release(t, l)
				l = next.handed()
				larger(l.Token())
			}
			writer.waiting()
			release(t, l)
			theirs := writer.got()
			larger(theirs.Token())
			release(t, theirs)

			up, err := locks.RWMutex("a").Upgradeable().Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			larger(up.Token())
			if err := up.Upgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			larger(up.Token())
			release(t, up.Lease)
		}
	})
}

func TestHandOver_AnotherProcessIsGrantedWithinTheTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []*Options{nil, {HandOver: &HandOver{Times: 5, For: time.Hour}}} {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, o)
			l := lock(t, locks, "a")
			elsewhere := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
			all := inLine(t, locks, 100)
			most := 64
			if o != nil {
				most = 5
			}
			for _, w := range all[:most-1] {
				elsewhere.waiting()
				release(t, l)
				l = w.handed()
			}
			release(t, l)
			theirs := elsewhere.got()
			time.Sleep(time.Second)
			all[most-1].waiting()
			same(t, "entries", len(stored(s.mem, "a").Entries), 2) // of all that wait here one has asked
			release(t, theirs)
			for _, w := range all[most-1:] {
				release(t, w.got())
			}
		}
	})
}

func TestHandOver_AnotherProcessIsGrantedWithinTheTime(t *testing.T) {
	bounded(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		elsewhere := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
		all := inLine(t, locks, 5)
		time.Sleep(30 * time.Millisecond)
		release(t, l)
		l = all[0].handed()
		time.Sleep(19 * time.Millisecond)
		release(t, l)
		l = all[1].handed()
		same(t, "asks", len(s.made("ask")), 0)
		time.Sleep(time.Millisecond)
		synctest.Wait() // the next waiter asks for a position, behind the other
		same(t, "asks", len(s.made("ask")), 1)
		same(t, "asked at", s.made("ask")[0].sent.Sub(start), 50*time.Millisecond)
		release(t, l)
		all[2].waiting()
		theirs := elsewhere.got()
		time.Sleep(time.Second)
		release(t, theirs)
		for _, w := range all[2:] {
			release(t, w.got())
		}
	})
}

// The same with a hold whose bounds for hand-over are lower than those before it.
func TestHandOver_TheShorterTimeOfALaterHoldCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{HandOver: &HandOver{Times: 2, For: time.Hour}})
		first := lock(t, locks, "a")
		second := waits(t, locks.Mutex("a").Lock)
		brief := locks.With(&Options{HandOver: &HandOver{Times: 64, For: 50 * time.Millisecond}})
		all := inLine(t, brief, 3)
		release(t, first)
		release(t, second.handed())
		l := all[0].got()
		if l.ID() == first.ID() {
			t.Fatal("the hold was handed over more than twice")
		}
		asks := len(s.made("ask"))
		time.Sleep(49 * time.Millisecond)
		synctest.Wait()
		same(t, "asks", len(s.made("ask")), asks)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		same(t, "entries", len(stored(s.mem, "a").Entries), 2) // ahead of later claims of other processes
		elsewhere := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
		release(t, l)
		l = all[1].got()
		elsewhere.waiting()
		time.Sleep(time.Second)
		release(t, l)
		release(t, elsewhere.got())
		release(t, all[2].got())
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// The store's expiry counts: a hand-over does not change it.
func TestHandOver_TheDeadlineIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second, HandOver: &HandOver{Times: 64, For: time.Minute}})
		l := lock(t, locks, "a")
		all := inLine(t, locks, 2)
		time.Sleep(time.Second)
		release(t, l)
		l = all[0].handed()
		same(t, "deadline", l.Deadline(), ends(start, 6*time.Second))
		s.renewalsFail(start.Add(time.Hour))
		<-l.Lost()
		same(t, "lost", time.Now(), ends(start, 6*time.Second))
		is(t, l.Release(), ErrLost)
		all[1].cancel()
		all[1].wait()
	})
}

// Each lease of a chain ends by its own release only.
func TestHandOver_EachLeaseIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		ctx := l.Context(t.Context())
		next := waits(t, locks.Mutex("a").Lock)
		release(t, l)
		mine := next.handed()
		is(t, context.Cause(ctx), ErrReleased)
		same(t, "valid", fmt.Sprint(l.Valid(), mine.Valid()), "false true")
		same(t, "context", mine.Context(t.Context()).Err(), nil)
		is(t, l.Release(), ErrReleased) // a late second release
		same(t, "operations", s.ops(), "try")
		same(t, "valid", mine.Valid(), true)
		if over(l.Lost()) || over(mine.Lost()) {
			t.Fatal("a lease was lost")
		}
		same(t, "holds renewed", locks.engine.Holds(), 1)
		release(t, mine)
	})
}

// A hold is handed over to waiters whose entry in the store would be the same.
// The store learns the new owner with the next renewal.
func TestHandOver_ItsOwnerAndTokenReachTheStoreWithTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{Note: "the first"})
		l := lock(t, locks, "a")
		next := waits(t, locks.With(&Options{Note: "the second", Wait: time.Minute, RenewEvery: time.Second}).Mutex("a").Lock)
		release(t, l)
		mine := next.handed()
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "the first")
		time.Sleep(11 * time.Second)
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "the second")
		asked := s.made("renew")[0].holds[0]
		same(t, "identity", asked.Token, l.Token())
		same(t, "newest token", asked.Used, mine.Token())
		release(t, mine)
	})
}

func TestHandOver_MaxHoldIsEachLeasesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{MaxHold: 30 * time.Millisecond})
		l := lock(t, locks, "a")
		all := inLine(t, locks, 2)
		time.Sleep(20 * time.Millisecond)
		release(t, l)
		l = all[0].handed()
		time.Sleep(20 * time.Millisecond)
		same(t, "valid", l.Valid(), true)
		start := time.Now()
		release(t, l)
		l = all[1].handed()
		<-l.Lost()
		same(t, "lost after", time.Since(start), 30*time.Millisecond)
		is(t, l.Release(), ErrLost)
		synctest.Wait()
		empty(t, s.mem)
	})
}

// The lease before had a MaxHold; the next one has none.
func TestHandOver_MaxHoldOfOneLeaseEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks.With(&Options{MaxHold: 30 * time.Millisecond}), "a")
		next := waits(t, locks.Mutex("a").Lock)
		release(t, l)
		mine := next.handed()
		time.Sleep(time.Hour)
		same(t, "valid", mine.Valid(), true)
		release(t, mine)
	})
}

// A try does not overtake the waiters here, and nothing is handed over to it.
func TestHandOver_ATryIsRefusedDuringHandOvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		for range 10 {
			next := waits(t, locks.Mutex("a").Lock)
			release(t, l)
			_, err := locks.Mutex("a").TryLock(t.Context())
			is(t, err, ErrHeld)
			l = next.handed()
		}
		release(t, l)
	})
}

// When the bounds are reached, the next waiter asks at the moment at which the
// release is sent; in memory right after it, as then it needs no position.
func TestHandOver_ThenReleaseAndAskGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inProcess := range []bool{false, true} {
			s := newLink(t)
			s.desc.InProcess = inProcess
			locks := locker(t, withNotifications{s}, &Options{HandOver: &HandOver{Times: 2, For: time.Second}})
			if !inProcess {
				locks.engine.Subscribe(t.Context()) // as the first claim that has to wait there would
			}
			l := lock(t, locks, "a")
			all := inLine(t, locks, 3)
			release(t, l)
			l = all[0].handed()
			if !inProcess {
				s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
			}
			start := time.Now()
			release(t, l)
			next := all[1].got()
			if took := time.Since(start); took > 2*time.Millisecond { // one round trip
				t.Errorf("the hand-over took %v, want one round trip, at most 2ms", took)
			}
			if ask := s.made("try", "ask")[1]; ask.sent != start {
				t.Errorf("the ask was sent %v after the release, want at the same time", ask.sent.Sub(start))
			}
			if inProcess {
				same(t, "operations", s.ops(), "try release try")
			}
			release(t, next)
			release(t, all[2].handed())
		}
	})
}

// For an observer each lease of the chain begins and ends, with its own token.
func TestHandOver_EachLeaseIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var mu sync.Mutex
		var seen []string
		start := time.Now()
		locks := locker(t, withNotifications{s}, &Options{Observer: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == EventWaiting {
				return
			}
			seen = append(seen, fmt.Sprint(e.Kind, " ", e.Token-start.UnixMicro(), " ", e.After))
		}})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		time.Sleep(20 * time.Millisecond)
		release(t, l)
		mine := next.handed()
		time.Sleep(10 * time.Millisecond)
		release(t, mine)
		synctest.Wait()
		slices.Sort(seen) // events of two goroutines at the same time have no order
		same(t, "events", strings.Join(seen, ", "), "granted 0 0s, handed over 1 20ms, released 0 20ms, released 1 10ms")
	})
}
