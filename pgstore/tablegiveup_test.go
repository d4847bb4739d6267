package pgstore

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// asks is a claim that waits for a name, and asks its holders to give up.
func asks(t *testing.T, s *Store, name, reason string) store.Claim {
	t.Helper()
	c := mutex(name)
	c.GiveUp = reason
	if a := mustAsk(t, s, c); a.Granted {
		t.Fatalf("%q is free", name)
	}
	return c
}

// isAsked renews a hold and checks why it is asked to be given up.
func isAsked(t *testing.T, s *Store, h store.Hold, want string) {
	t.Helper()
	if r := mustRenew(t, s, h); r.GiveUp != want {
		t.Fatalf("%q is asked to be given up for %q, want %q", h.Name, r.GiveUp, want)
	}
}

// A session that could not be called is called by the next ask.
func TestWhoCouldNotCallAHolderCallsItWithTheNextAsk(t *testing.T) {
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

// A notification can come before the session is called: the next renewal reads the row.
func TestAHoldThatANotificationTellsOfIsReadByItsNextRenewal(t *testing.T) {
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

// What a notification tells while the row is being read may not be in what is read.
func TestAHoldThatANotificationTellsOfWhileItIsReadIsReadAgain(t *testing.T) {
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
			t.Fatalf("the row was read %d times by %d renewals, want %d", n, i+1, want)
		}
	}
}

// Who has died asks for nothing any more, and whoever asks behind it is heard.
func TestTheDeadAskNobodyToGiveUp(t *testing.T) {
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
	// It heard a moment ago that the session goes on.
	until(t, "the next is heard", func() bool { return mustRenew(t, s, h).GiveUp == "next" })
	if e := state(t, s, "n").Entries; len(e) != 2 || e[1].GiveUp != "next" {
		t.Errorf("there is %+v", e)
	}
}

// Whoever was called reads its rows, all by one statement, and writes none that stands there as it knows it.
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
		t.Errorf("%d reads, the rows were %s, are %s", reads.Load(), before, after)
	}
}

// A mismatch names the smallest total of all, though a crowd is not read.
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
			t.Errorf("a lock, where there are slots: %v", err)
		}
	}
}
