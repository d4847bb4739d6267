package pgstore

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Who waits is told of the holders and of how many wait ahead, though it reads no more of a crowd than that.
func TestAWaiterIsToldHowManyAreAhead(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	is := func(what string, a store.Answer, ahead int) {
		t.Helper()
		if a.Granted || a.Holding != 1 || a.Waiting != ahead || len(a.Holders) != 1 || a.Holders[0].Token != h.Token {
			t.Errorf("%s, behind %d that wait: %+v", what, ahead, a)
		}
	}
	var all []store.Claim
	for i := range 5 {
		c := mutex("n")
		is("it comes", mustAsk(t, s, c), i)
		all = append(all, c)
	}
	for i, c := range all {
		is("it asks again", mustAsk(t, s, c), i)
		a, err := s.Poll(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		is("it reads", a, i)
	}
	try := mutex("n")
	try.Try = true
	is("it tries", mustAsk(t, s, try), len(all))
}

// What the short statement for those who come behind others leaves to the full one.
func TestWhoComesBehindOthersWaitsOnlyIfItHasTo(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	come := func(name string) (store.Answer, error) { // as to a name that was in use a moment ago
		c := mutex(name)
		s.seen.set(name, inUse)
		return s.Ask(t.Context(), c)
	}
	free := mustHold(t, other, mutex("free"))
	if err := other.Release(t.Context(), free); err != nil {
		t.Fatal(err)
	}
	if a, err := come("free"); err != nil || !a.Granted {
		t.Errorf("a name that is free by now: %+v, %v", a, err)
	}
	c := mutex("expired")
	c.TTL = minTTL
	mustHold(t, other, c)
	until(t, "the hold has expired", func() bool {
		f, err := s.look(t.Context(), "expired")
		return err == nil && f.q.Entries[0].Expires <= f.now
	})
	if a, err := come("expired"); err != nil || !a.Granted {
		t.Errorf("behind a hold that has expired: %+v, %v", a, err)
	}
	slots := mutex("slots")
	slots.Limit, slots.Weight = 5, 1
	mustHold(t, other, slots)
	if a, err := come("slots"); !errors.Is(err, store.ErrMismatch) {
		t.Errorf("a lock of what is slots: %+v, %v", a, err)
	}
	mustHold(t, other, mutex("twice"))
	waits := mutex("twice")
	mustAsk(t, other, waits)
	s.seen.set("twice", inUse)
	if a, err := s.Ask(t.Context(), waits); !errors.Is(err, store.ErrLost) {
		t.Errorf("a claim that a session of another keeps: %+v, %v", a, err)
	}
	if st := state(t, s, "twice"); len(st.Entries) != 2 {
		t.Errorf("there are %d entries, want the hold and one position", len(st.Entries))
	}
}

// A claim that was let in while it waited for the row finds nothing to do, and neither does the next behind it.
func TestWhoAsksAgainBehindOthersWritesNothing(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	holder, other := second(t, s), second(t, s)
	_, in := kept(t, holder, "n")
	first, next := mutex("n"), mutex("n")
	mustAsk(t, other, first)
	mustAsk(t, s, next)
	if err := (sessionTable{holder}).End(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, of := range []*Store{s, other} { // what it heard of that session a moment ago
		until(t, "it asks whether the holder lives", func() bool { _, known := of.sessions.Known(in); return !known })
	}
	var before string
	var met atomic.Bool
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.ask && met.CompareAndSwap(false, true) {
			if a := mustAsk(t, other, first); !a.Granted {
				t.Errorf("the first is not let in: %+v", a)
			}
			before = version(t, s, "n")
		}
		return nil
	})
	if a := mustAsk(t, s, next); a.Granted || a.Holding != 1 {
		t.Errorf("%+v", a)
	}
	if after := version(t, s, "n"); !met.Load() || after != before {
		t.Errorf("the row was written: %s, now %s", before, after)
	}
}

// The notification of a grant is the answer to the ask that follows it: no statement is sent, and the hold lasts as the
// session does that keeps it.
func TestAnAskThatANotificationHasAnsweredIsNotSent(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	told := make(chan store.Notification, 10)
	if err := s.Watch(t.Context(), me, func(n store.Notification) { told <- n }); err != nil {
		t.Fatal(err)
	}
	h, waits := mustHold(t, other, mutex("n")), mutex("n")
	mustAsk(t, s, waits)
	sess := s.sessions.Own(sessionOf(t, s, "n", waits.ID))
	if err := other.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-told:
		if n.ID != waits.ID || n.Name != "n" {
			t.Fatalf("%+v", n)
		}
	case <-time.After(patience):
		t.Fatal("no notification")
	}
	var sent atomic.Int64
	meddle(s, func(statement string, _ []any) error {
		if statement != s.do.session.renew {
			sent.Add(1)
		}
		return nil
	})
	a := mustAsk(t, s, waits)
	if !a.Granted || a.Token <= h.Token || a.From == 0 || a.From > sess.State().Renewed || a.TTL > store.MaxPositionTTL {
		t.Errorf("%+v, of a session that was renewed at %v", a, sess.State().Renewed)
	}
	if n := sent.Load(); n != 0 {
		t.Errorf("%d statements were sent", n)
	}
	meddle(s, func(string, []any) error { return nil })
	hold := store.Hold{Name: "n", ID: waits.ID, Token: a.Token, TTL: waits.TTL}
	if e := state(t, s, "n").Entries[0]; e.Token != a.Token || e.ID != waits.ID {
		t.Errorf("the store has %+v", e)
	}
	mustRenew(t, s, hold)
	if err := s.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
}
