package pgstore

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// asks returns a claim that waits for a name, and asks the holders to give up.
func asks(t *testing.T, s *Store, name, reason string) store.Claim {
	t.Helper()
	c := mutex(name)
	c.GiveUp = reason
	if a := mustAsk(t, s, c); a.Granted {
		t.Fatalf("%q is free, want it held", name)
	}
	return c
}

// isAsked renews a hold and checks the reason for which it is asked to give up.
func isAsked(t *testing.T, s *Store, h store.Hold, want string) {
	t.Helper()
	if r := mustRenew(t, s, h); r.GiveUp != want {
		t.Fatalf("%q: got request %q, want %q", h.Name, r.GiveUp, want)
	}
}

// The next ask repeats a call to a session that failed.
func TestAnAskRepeatsACallThatFailed(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, _ := kept(t, other, "n")
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.call {
			return errCut
		}
		return nil
	})
	w := asks(t, s, "n", "please")
	isAsked(t, other, h, "")
	meddle(s, func(string, []any) error { return nil })
	mustAsk(t, s, w)
	isAsked(t, other, h, "please")
}

// A notification can come before the session is called. The next renewal reads the row.
func TestANotifiedHoldIsReadByItsNextRenewal(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, _ := kept(t, other, "n")
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.call {
			return errCut
		}
		return nil
	})
	asks(t, s, "n", "please")
	other.heard(&store.Notification{Name: "n", ID: h.ID})
	isAsked(t, other, h, "please")
}

// A notification that arrives during a read of the row may tell of a change that the read missed.
func TestAHoldNotifiedWhileItIsReadIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	n := &store.Notification{Name: "n", ID: h.ID}
	var reads atomic.Int32
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.stands && reads.Add(1) == 1 {
			s.heard(n)
		}
		return nil
	})
	s.heard(n)
	for i, want := range []int32{1, 2, 2} {
		isAsked(t, s, h, "")
		if n := reads.Load(); n != want {
			t.Fatalf("got %d reads of the row in %d renewals, want %d", n, i+1, want)
		}
	}
}

// The request of a waiter that has died does not count, and the holder gets the request of the waiter behind it.
func TestADeadWaiterAsksNoHolderToGiveUp(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	first, next := second(t, s), second(t, s)
	h, _ := kept(t, s, "n")
	w := asks(t, first, "n", "first")
	asks(t, next, "n", "next")
	isAsked(t, s, h, "first")
	if err := (sessionTable{s}).End(t.Context(), sessionOf(t, s, "n", w.ID)); err != nil {
		t.Fatal(err)
	}
	// The store heard a moment ago that the session goes on.
	until(t, "the holder gets the next request", func() bool { return mustRenew(t, s, h).GiveUp == "next" })
	if e := state(t, s, "n").Entries; len(e) != 2 || e[1].GiveUp != "next" {
		t.Errorf("got entries %+v", e)
	}
}

// Each upgrade asks each other holder once. The upgrader itself is not asked, and a call that failed is repeated.
func TestAnUpgradeAsksTheOtherHolders(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	// The upgrader has asked while it waited.
	before, _ := kept(t, other, "n")
	c := mutex("n")
	c.Weight, c.GiveUp = store.Upgradeable, "please"
	mustAsk(t, s, c)
	if err := other.Release(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	u := mustHold(t, s, c)
	mustRenew(t, s, u)
	c = mutex("n")
	c.Weight = 1
	r := mustHold(t, other, c)
	for range 2 { // the first moves it into its session, and returns the call from before
		isAsked(t, other, r, "")
	}
	var calls atomic.Int32
	var cut atomic.Bool
	cut.Store(true)
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.call {
			calls.Add(1)
			if cut.Load() {
				return errCut
			}
		}
		return nil
	})
	change := func(turn int32, weight int64) {
		t.Helper()
		u.GiveUp = "please"
		if a, err := s.Change(t.Context(), u, turn, weight); err != nil || a.Granted != (weight != store.Full) {
			t.Fatal(a, err)
		}
	}
	change(1, store.Full)
	isAsked(t, other, r, "")
	cut.Store(false)
	change(1, store.Full)
	change(1, store.Full)
	if have := calls.Load(); have != 2 {
		t.Fatalf("got %d calls, one of which failed", have)
	}
	isAsked(t, other, r, "please")
	isAsked(t, s, u, "")
	change(2, store.Upgradeable)
	isAsked(t, other, r, "")
	change(3, store.Full)
	if have := calls.Load(); have != 3 {
		t.Fatalf("got %d calls of two upgrades, one of which failed", have)
	}
	isAsked(t, other, r, "please")
}

// An upgrade whose owner has died does not ask either.
func TestADeadUpgraderAsksNoHolderToGiveUp(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	c := mutex("n")
	c.Weight = 1
	h := mustHold(t, s, c)
	mustRenew(t, s, h)
	c = mutex("n")
	c.Weight = store.Upgradeable
	u := mustHold(t, other, c)
	mustRenew(t, other, u)
	u.GiveUp = "please"
	if a, err := other.Change(t.Context(), u, 1, store.Full); err != nil || a.Granted {
		t.Fatal(a, err)
	}
	isAsked(t, s, h, "please")
	if err := (sessionTable{s}).End(t.Context(), sessionOf(t, s, "n", u.ID)); err != nil {
		t.Fatal(err)
	}
	// The store heard a moment ago that the session goes on.
	until(t, "the holder gets no request", func() bool { return mustRenew(t, s, h).GiveUp == "" })
}

// A session that was called reads all its rows with one statement, and writes none that is as the store knows it.
func TestACallCostsOneReadOfAllRows(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	one, in := kept(t, s, "one")
	two, _ := kept(t, s, "two")
	gone, _ := kept(t, s, "gone")
	before := version(t, s, "one") + version(t, s, "two")
	run(t, poolOf(s), "DELETE FROM "+tableOf(s)+" WHERE name = 'gone'")
	if err := second(t, s).sessions.Call(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int32
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.stands {
			reads.Add(1)
		}
		return nil
	})
	for range 2 {
		for i, r := range s.Renew(t.Context(), []store.Hold{one, two, gone}) {
			if i < 2 && r.Err != nil || i == 2 && !errors.Is(r.Err, store.ErrLost) {
				t.Errorf("renewal %d: %v", i, r.Err)
			}
		}
	}
	if after := version(t, s, "one") + version(t, s, "two"); after != before || reads.Load() != 1 {
		t.Errorf("got %d reads; the rows changed from %s to %s", reads.Load(), before, after)
	}
}

// A mismatch names the smallest of all totals, though the store does not read the whole queue.
func TestAMismatchNamesTheSmallestTotal(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	slots := func(limit int64) store.Claim {
		c := mutex("n")
		c.Limit, c.Weight = limit, limit
		return c
	}
	mustHold(t, s, slots(5))
	for _, limit := range []int64{6, 3, 4} {
		mustAsk(t, s, slots(limit))
	}
	for _, ask := range []func(c store.Claim) error{
		func(c store.Claim) error { c.Try = true; _, err := s.Ask(t.Context(), c); return err },
		func(c store.Claim) error { _, err := s.Ask(t.Context(), c); return err },
		func(c store.Claim) error { _, err := s.Poll(t.Context(), c); return err },
	} {
		var m *store.MismatchError
		if err := ask(mutex("n")); !errors.As(err, &m) || m.Have != 3 || m.Want != store.Full {
			t.Errorf("a lock where there are slots: %v", err)
		}
	}
}
