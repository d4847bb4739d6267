package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestLook_ReturnsHoldersAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		one, two := candidate(t, mem, "one"), candidate(t, mem, "two")
		l := lock(t, one, "a")
		waits(t, two.With(&Options{AskToGiveUp: "please"}).RWMutex("a").Read().Lock)
		time.Sleep(3 * time.Second)
		got, err := two.Look(t.Context(), "a")
		if err != nil || len(got.Holders) != 1 || len(got.Waiters) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		h, w := got.Holders[0], got.Waiters[0]
		same(t, "holder", fmt.Sprint(h.Note, h.ID, h.Token, h.Mode, h.Slots), fmt.Sprint("one", l.ID(), l.Token(), ModeWrite, 0))
		same(t, "held for", time.Since(h.Since), 3*time.Second)
		same(t, "waiter", fmt.Sprint(w.Note, w.Mode, w.Slots, w.GiveUp), fmt.Sprint("two", ModeRead, 0, "please"))
		same(t, "slots", got.Slots, 0)
	})
}

func TestLook_ReturnsTheSlotsOfASemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := candidate(t, memstore.New(), "one")
		if _, err := locks.Semaphore("s", 5).TryAcquire(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		got, err := locks.Look(t.Context(), "s")
		if err != nil || got.Slots != 5 || len(got.Holders) != 1 || got.Holders[0].Slots != 3 || got.Holders[0].Mode != ModeSlots {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func TestLook_AtAFreeNameReturnsNoHolder(t *testing.T) {
	locks := locker(t, memstore.New(), nil)
	got, err := locks.Look(t.Context(), "a")
	if err != nil || got.Name != "a" || got.Holders != nil || got.Waiters != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = locks.Look(t.Context(), "")
	is(t, err, ErrInvalid)
}

// A backwards store lists its names from the last to the first.
type backwards struct{ withList }

func (s backwards) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		var all []store.State
		for st := range s.mem.List(ctx, name) {
			all = append(all, st)
		}
		for _, st := range slices.Backward(all) {
			if !yield(st, nil) {
				return
			}
		}
	}
}

func TestList_IsByPrefixAndInOrder(t *testing.T) {
	locks := locker(t, backwards{listed(t, memstore.New())}, nil)
	for i := range 20 {
		lock(t, locks, fmt.Sprint("tenant/", i))
		lock(t, locks, fmt.Sprint("other/", i))
	}
	got, err := locks.List(t.Context(), "tenant/1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got {
		names = append(names, strings.TrimPrefix(s.Name, "tenant/"))
	}
	same(t, "names", strings.Join(names, " "), "1 10 11 12 13 14 15 16 17 18 19")
	all, err := locks.List(t.Context(), "")
	same(t, "all", fmt.Sprint(len(all), err), "40 <nil>")
}

func TestList_ReportsWhatItCannotReadAndListsTheRest(t *testing.T) {
	s := listed(t, memstore.New())
	locks := locker(t, s, nil)
	s.on(func(c *call) fate {
		if c.op == "list" {
			return fate{fail: errLink}
		}
		return fate{}
	})
	_, err := locks.List(t.Context(), "a")
	is(t, err, ErrUnavailable, errLink)
	_, err = locker(t, newLink(t), nil).List(t.Context(), "a")
	is(t, err, ErrUnsupported)
}

func TestLook_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listed(t, memstore.New())
		locks := locker(t, s, nil)
		s.on(func(*call) fate { return fate{there: time.Hour} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := locks.Look(ctx, "a")
		is(t, err, ErrUnavailable, context.DeadlineExceeded)
		start := time.Now()
		_, err = locks.Look(t.Context(), "a")
		is(t, err, ErrUnavailable)
		isNot(t, err, context.DeadlineExceeded)
		same(t, "returned after, with a context that has no deadline", time.Since(start), 5*time.Second)
	})
}

func TestBreak_TheHolderGetsTheOperatorAndTheReason(t *testing.T) {
	for by, want := range map[string]string{"": thisUser() + ": web-3 is replaced", "alice": "alice: web-3 is replaced"} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			l := lock(t, candidate(t, mem, "one"), "a")
			ops := candidate(t, mem, "ops")
			b := Break{Name: "a", ID: l.ID(), Token: l.Token(), Reason: "web-3 is replaced", By: by}
			if err := ops.Break(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			got, err := ops.Look(t.Context(), "a")
			if err != nil || got.Holders[0].Broken != want {
				t.Fatalf("%+v, %v", got, err)
			}
			same(t, "valid until its next renewal", l.Valid(), true)
			<-l.Lost()
			if err := l.Release(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), want) {
				t.Fatal(err)
			}
		})
	}
}

func TestBreak_NowGrantsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		l, ops := lock(t, candidate(t, mem, "one"), "a"), candidate(t, mem, "ops")
		if err := ops.Break(t.Context(), Break{Name: "a", ID: l.ID(), Token: l.Token(), Reason: "gone", Now: true}); err != nil {
			t.Fatal(err)
		}
		lock(t, ops, "a")
	})
}

// The holder gets the reason with its next renewal, and then the entry is gone.
func TestBreak_NowIsReportedToTheHolderAndListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		l, ops := lock(t, candidate(t, mem, "one"), "a"), candidate(t, mem, "ops")
		if err := ops.Break(t.Context(), Break{Name: "a", ID: l.ID(), Token: l.Token(), Reason: "gone", By: "alice", Now: true}); err != nil {
			t.Fatal(err)
		}
		got, err := ops.Look(t.Context(), "a")
		if err != nil || len(got.Holders) != 0 || len(got.Freed) != 1 || got.Freed[0].ID != l.ID() || got.Freed[0].Broken != "alice: gone" {
			t.Fatalf("%+v, %v", got, err)
		}
		<-l.Lost()
		if err := context.Cause(l.Context(t.Context())); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "alice: gone") {
			t.Fatal(err)
		}
		is(t, l.Release(), ErrLost)
		same(t, "entries", len(stored(mem, "a").Entries), 0)
	})
}

func TestObserve_AFreedHolderDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		term, err := candidate(t, mem, "one").Election("leader").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ops := candidate(t, mem, "ops")
		if err := ops.Break(t.Context(), Break{Name: "leader", ID: term.ID(), Token: term.Token(), Reason: "gone", Now: true}); err != nil {
			t.Fatal(err)
		}
		leader, err := ops.Election("leader").Leader(t.Context())
		if err != nil || leader.ID != "" {
			t.Fatalf("%+v, %v", leader, err)
		}
	})
}

func TestBreak_NothingElseIsHit(t *testing.T) {
	mem := memstore.New()
	locks := locker(t, mem, nil)
	l := lock(t, locks, "a")
	good := Break{Name: "a", ID: l.ID(), Token: l.Token(), Reason: "why"}
	for what, c := range map[string]struct {
		change func(*Break)
		want   error
	}{
		"another token":     {func(b *Break) { b.Token += store.MaxBlock }, ErrLost},
		"another id":        {func(b *Break) { b.ID = store.NewProcess().NewID().String() }, ErrLost},
		"another name":      {func(b *Break) { b.Name = "b" }, ErrLost},
		"no id":             {func(b *Break) { b.ID = "x" }, ErrInvalid},
		"no token":          {func(b *Break) { b.Token = 0 }, ErrInvalid},
		"no name":           {func(b *Break) { b.Name = "" }, ErrInvalid},
		"no reason":         {func(b *Break) { b.Reason = "" }, ErrInvalid},
		"too long a reason": {func(b *Break) { b.Reason = strings.Repeat("x", 200) }, ErrInvalid},
		"too long together": {func(b *Break) { b.By = strings.Repeat("x", 197) }, ErrInvalid},
	} {
		t.Run(what, func(t *testing.T) {
			b := good
			c.change(&b)
			is(t, locks.Break(t.Context(), b), c.want)
			same(t, "broken", stored(mem, "a").Entries[0].Broken, "")
		})
	}
	is(t, locker(t, newLink(t), nil).Break(t.Context(), good), ErrUnsupported)
}

func TestHeld_IsWhatThisProcessHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		a, b := lock(t, locks, "b"), lock(t, locks.With(&Options{TTL: time.Minute}), "a")
		other(t, s.mem, "c", time.Hour)
		names := func() (names string) {
			for _, l := range locks.Held() {
				names += l.Name()
			}
			return names
		}
		same(t, "held", names(), "ab")
		release(t, a)
		same(t, "held", names(), "a")
		s.mem.Break("a")
		<-b.Lost()
		same(t, "held", names(), "")

		// The hold has expired by the clock, before any operation has dropped it.
		lock(t, locks.With(&Options{TTL: time.Second, NoRenew: On}), "d")
		same(t, "held", names(), "d")
		suspend(time.Minute)
		defer suspend(-time.Minute)
		same(t, "held", names(), "")
	})
}

// Whoever finds a lease by Held may use it before its caller has it. The race detector
// judges this test.
func TestHeld_ALeaseMayBeUsedBeforeItsCallerHasIt(t *testing.T) {
	ended := make(chan error)
	var locks *Locker
	granted := func(msg string) {
		if msg == "holdfast: granted" {
			go func() {
				for _, l := range locks.Held() {
					ended <- l.Renew(context.Background(), time.Hour)
				}
			}()
		}
	}
	locks = locker(t, memstore.New(), &Options{Logger: slog.New(onLog(granted))})
	lock(t, locks, "a")
	is(t, <-ended, nil)

	locks = locker(t, memstore.New(), &Options{Observer: func(Event) {}})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				l, err := locks.Mutex("b").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				l.Release() // unless it is released already
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		for _, l := range locks.Held() {
			l.Release()
		}
	}
}

func TestSeveral_RenewedByHandTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		leases := all(t, locker(t, s, &Options{TTL: 6 * time.Second, NoRenew: On}), "a", "b", "c")
		time.Sleep(4 * time.Second)
		before := len(s.made("renew"))
		start := time.Now()
		if err := leases.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		same(t, "deadline", leases.Deadline(), ends(start, time.Minute))
		same(t, "calls", len(s.made("renew"))-before, 1)
		s.mem.Break("b")
		is(t, leases.Renew(t.Context(), time.Minute), ErrLost)
		same(t, "a is renewed", leases.Lease("a").Valid(), true)
	})
}

func TestRelease_OfWhatAnotherProcessHasDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		ref, err := lock(t, locker(t, linkTo(t, mem), nil), "a").Detach()
		if err != nil {
			t.Fatal(err)
		}
		another := locker(t, linkTo(t, mem), nil)
		if err := another.Release(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		release(t, lock(t, another, "a"))
		is(t, another.Release(t.Context(), ref), ErrLost)
		is(t, another.Release(t.Context(), Ref{}), ErrInvalid)
		empty(t, mem)
	})
}

// The text of a holder, waiter or leader is for people, and begins with the most important facts.
func TestOwnersArePrintedForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		locks := candidate(t, mem, "one")
		e := locks.Election("a")
		none, err := e.Leader(t.Context())
		is(t, err, nil)
		same(t, "no leader", fmt.Sprint(none), "nobody")
		l := lock(t, locks, "a")
		w := waits(t, candidate(t, mem, "two").With(&Options{AskToGiveUp: "one\nline \x1b[2J"}).Mutex("a").Lock)
		time.Sleep(5 * time.Second)
		st, err := locks.Look(t.Context(), "a")
		is(t, err, nil)
		leader, err := e.Leader(t.Context())
		is(t, err, nil)
		since := ", since " + time.Now().Add(-5*time.Second).Format(time.TimeOnly) + " (5s)"
		same(t, "holder", fmt.Sprint(st.Holders[0]), ThisProcess().String()+`, "one"`+since+", expires in 25s")
		same(t, "leader", fmt.Sprint(leader), ThisProcess().String()+`, "one"`+since)
		same(t, "waiter", fmt.Sprint(st.Waiters[0]), ThisProcess().String()+`, "two", asks to give up: "one line  [2J"`)
		b := Break{Name: "a", ID: l.ID(), Token: l.Token(), Reason: "it\thangs\u202e", By: "al\rice"}
		is(t, locks.Break(t.Context(), b), nil)
		st, err = locks.Look(t.Context(), "a")
		is(t, err, nil)
		same(t, "reason of the break", st.Holders[0].Broken, "al ice: it hangs ")
		<-l.Lost()
		_ = l.Release()
		release(t, w.got())
	})
}

// A look whose context has ended sends nothing, and its error matches only the context's.
func TestLook_ReturnsTheErrorOfAnEndedContext(t *testing.T) {
	s := listed(t, memstore.New())
	locks := locker(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := locks.Look(ctx, "a")
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), `look at "a" on `) {
		t.Errorf("got %v, want the error of the context alone", err)
	}
	_, err = locks.Election("a").Leader(ctx)
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("Leader: got %v, want the error of the context alone", err)
	}
	same(t, "calls", s.ops(), "")
}
