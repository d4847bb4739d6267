package holdfast

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

func TestIsLeader_OnlyWhileItsTermLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		first, second := candidate(t, mem, "one"), candidate(t, mem, "two")
		one, two := first.Election("leader"), second.Election("leader")
		leads := func(what string, first, second bool) {
			t.Helper()
			same(t, what+": the first leads", one.IsLeader(), first)
			same(t, what+": the second leads", two.IsLeader(), second)
		}
		leads("at first", false, false)
		term := waits(t, one.Campaign).got()
		next := waits(t, two.Campaign)
		leads("elected", true, false)
		release(t, term)
		next.got()
		leads("resigned", false, true)
		mem.Break("leader")
		<-next.got().Lost()
		leads("broken", false, false)
		same(t, "waiters left of terms that ended", first.kept()+second.kept(), 0)

		waits(t, one.Campaign).got()
		leads("elected again", true, false)
		suspend(time.Minute)
		defer suspend(-time.Minute)
		leads("expired by the clock", false, false)
	})
}

// Whichever of the two ends first, the other still has the term.
func TestIsLeader_ByACampaignThatEnteredAgain(t *testing.T) {
	for name, endFirst := range map[string]int{"the first ends first": 0, "the second ends first": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := locker(t, memstore.New(), &Options{Reentrant: On})
				e := locks.Election("leader")
				first := waits(t, e.Campaign).got()
				second, err := e.Campaign(first.Context(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				terms := []*Lease{first, second}
				release(t, terms[endFirst])
				same(t, "leads by the other term", e.IsLeader(), true)
				release(t, terms[1-endFirst])
				same(t, "leads", e.IsLeader(), false)
				same(t, "kept", locks.kept(), 0)
			})
		})
	}
}

func TestIsLeader_AMutexOfTheNameIsNotATerm(t *testing.T) {
	locks := locker(t, memstore.New(), nil)
	lock(t, locks, "leader")
	same(t, "leads", locks.Election("leader").IsLeader(), false)
}

func TestLeader_IsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := listed(t, mem)
		e := locker(t, s, nil).Election("leader")
		leader, err := e.Leader(t.Context())
		same(t, "nobody", seen(leader, err), seen(Leader{}, nil))
		term := waits(t, candidate(t, mem, "one").Election("leader").Campaign).got()
		leader, err = e.Leader(t.Context())
		if err != nil || leader.Note != "one" || leader.Token != term.Token() {
			t.Fatalf("%+v, %v", leader, err)
		}
		same(t, "calls", s.ops(), "list list")
		s.on(func(*call) fate { return fate{there: time.Hour} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = e.Leader(ctx)
		is(t, err, ErrUnavailable, context.DeadlineExceeded)
	})
}

func TestSetNote_IsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		e := candidate(t, mem, "one").Election("leader")
		term := waits(t, e.Campaign).got()
		for _, note := range []string{"at step 1", "at step 2", ""} {
			if err := term.SetNote(note); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			leader, err := candidate(t, mem, "two").Election("leader").Leader(t.Context())
			if err != nil || leader.Note != note || leader.Token != term.Token() {
				t.Fatalf("got %+v, %v, want the note %q", leader, err, note)
			}
		}
		is(t, term.SetNote(strings.Repeat("x", 101)), ErrInvalid)
		release(t, term)
		is(t, term.SetNote("late"), ErrReleased)
	})
}

// Nothing is sent before the holder renews the lease.
func TestSetNote_OfALeaseThatIsRenewedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, &Options{NoRenew: On}), "a")
		if err := l.SetNote("new"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		same(t, "renewals", len(s.made("renew")), 0)
		if err := l.Renew(t.Context(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "new")
	})
}

// While a renewal is on its way the note goes with the next, which follows at once.
func TestSetNote_DuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		s.on(func(*call) fate { return fate{back: time.Second} })
		time.Sleep(10*time.Second + time.Millisecond)
		if err := l.SetNote("new"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		same(t, "renewals", len(s.made("renew")), 2)
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "new")
	})
}

func TestSetNote_EndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{Note: "usual"})
		l := lock(t, locks, "a")
		if err := l.SetNote("mine"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		next := waits(t, locks.Mutex("a").Lock)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(ctx) })
		cancel()
		cancelled.failed(ErrHeld)
		same(t, "the blocking holder", heldBy(t, cancelled.err).Note, "mine")
		release(t, l)
		next.handed()
		time.Sleep(11 * time.Second)
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "usual")
	})
}

// A grant whose answer comes during Close is released, and nobody leads by it.
func TestIsLeader_NotAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks *Locker
		locks = locker(t, newLink(t), &Options{Observer: func(e Event) {
			if e.Kind == EventGranted {
				locks.engine.Refuse() // as Close begins
			}
		}})
		e := locks.Election("leader")
		_, err := e.Campaign(t.Context())
		is(t, err, ErrClosed)
		same(t, "leads", e.IsLeader(), false)
	})
}
