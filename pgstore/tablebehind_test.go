package pgstore

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A waiter learns the holders and how many wait ahead, though it reads no more of a long queue than that.
func TestAWaiterLearnsHowManyAreAhead(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	is := func(what string, a store.Answer, ahead int) {
		t.Helper()
		if a.Granted || a.Holding != 1 || a.Waiting != ahead || len(a.Holders) != 1 || a.Holders[0].Token != h.Token {
			t.Errorf("%s, behind %d waiters: got %+v", what, ahead, a)
		}
	}
	var all []store.Claim
	for i := range 5 {
		c := mutex("n")
		is("the first ask", mustAsk(t, s, c), i)
		all = append(all, c)
	}
	for i, c := range all {
		is("the repeated ask", mustAsk(t, s, c), i)
		a, err := s.Poll(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		is("the poll", a, i)
	}
	try := mutex("n")
	try.Try = true
	is("the try", mustAsk(t, s, try), len(all))
}

// These are the cases that the short statement for claims behind others leaves to the full one.
func TestAClaimBehindOthersWaitsOnlyIfItMust(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	come := func(name string) (store.Answer, error) { // as for a name that was in use a moment ago
		c := mutex(name)
		s.seen.set(name, inUse)
		return s.Ask(t.Context(), c)
	}
	free := mustHold(t, other, mutex("free"))
	if err := other.Release(t.Context(), free); err != nil {
		t.Fatal(err)
	}
	atOnce := func(name string) bool { // then no session keeps it
		f, err := s.look(t.Context(), name)
		return err == nil && len(f.q.Entries) == 1 && len(f.in) == 0
	}
	if a, err := come("free"); err != nil || !a.Granted || !atOnce("free") {
		t.Errorf("a name that was just released: got %+v, %v", a, err)
	}
	c := mutex("expired")
	c.TTL = minTTL
	mustHold(t, other, c)
	until(t, "the hold has expired", func() bool {
		f, err := s.look(t.Context(), "expired")
		return err == nil && f.q.Entries[0].Expires <= f.now
	})
	if a, err := come("expired"); err != nil || !a.Granted || !atOnce("expired") {
		t.Errorf("behind an expired hold: got %+v, %v", a, err)
	}
	slots := mutex("slots")
	slots.Limit, slots.Weight = 5, 1
	mustHold(t, other, slots)
	if a, err := come("slots"); !errors.Is(err, store.ErrMismatch) {
		t.Errorf("a lock where there are slots: got %+v, %v, want ErrMismatch", a, err)
	}
	mustHold(t, other, mutex("twice"))
	waits := mutex("twice")
	mustAsk(t, other, waits)
	s.seen.set("twice", inUse)
	if a, err := s.Ask(t.Context(), waits); !errors.Is(err, store.ErrLost) {
		t.Errorf("a claim in another store's session: got %+v, %v, want ErrLost", a, err)
	}
	if st := state(t, s, "twice"); len(st.Entries) != 2 {
		t.Errorf("got %d entries, want the hold and one position", len(st.Entries))
	}
}

// A hold expires while the statement runs that appends a claim behind it. Only a statement that writes a grant may grant: otherwise two would
// hold the lock, one of them without a token.
func TestAnExpiryDuringAnAppendGrantsNothingUnwritten(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := mutex("n")
	c.TTL = minTTL
	h := mustHold(t, second(t, s), c)
	until(t, "the hold has expired", func() bool {
		f, err := s.look(t.Context(), "n")
		return err == nil && f.q.Entries[0].Expires <= f.now
	})
	statement := strings.Replace(s.do.askBehind, "< ALL (expires)", "< ALL (expires) OR true", 1) // as if the hold had still been live when the statement looked
	if statement == s.do.askBehind {
		t.Fatal("the statement lacks the expected condition")
	}
	s.do.askBehind = statement
	s.seen.set("n", inUse)
	waits := mutex("n")
	a := mustAsk(t, s, waits)
	if e := state(t, s, "n").Entries[0]; !a.Granted || a.Token <= h.Token || e.ID != waits.ID || e.Token != a.Token {
		t.Errorf("got %+v, and %+v in the store", a, e)
	}
}

// An ask waits for the row so long that it was given up, and whoever kept the row has changed nothing in it. The ask then takes no queue
// position, though it reached the server in time.
func TestAnAskThatWaitedTooLongForTheRowAddsNoEntry(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	mustHold(t, second(t, s), mutex("n"))
	mustAsk(t, s, mutex("n")) // the store then knows the server's time
	s.claims.mu.Lock()
	s.claims.late = 2 * time.Second
	s.claims.mu.Unlock()
	_, done := lock(t, s, tableOf(s)+" WHERE name = 'n'")
	claim := mutex("n")
	answered := make(chan error, 1)
	go func() {
		a, err := s.Ask(t.Context(), claim)
		if err == nil {
			t.Errorf("%+v", a)
		}
		answered <- err
	}()
	until(t, "the ask waits for the row", func() bool { return waitingForRows(t, s) >= 1 })
	now := pgtest.One[int64](t, poolOf(s), "SELECT "+serverNow)
	until(t, "the ask is too late", func() bool {
		return pgtest.One[int64](t, poolOf(s), "SELECT "+serverNow) > now+2*time.Second.Microseconds()
	})
	done()
	if err := <-answered; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want that the ask was too late", err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 2 {
		t.Errorf("got entries %+v", st.Entries)
	}
}

// Processes ahead of the claim have died. A repeated ask skips all of them at once.
func TestARepeatedAskSkipsAllThatHaveDied(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	var dead []session.ID
	for i := range 4 {
		of := second(t, s)
		if i == 0 {
			_, in := kept(t, of, "n")
			dead = append(dead, in)
			continue
		}
		c := mutex("n")
		mustAsk(t, of, c)
		dead = append(dead, sessionOf(t, s, "n", c.ID))
	}
	waits := mutex("n")
	mustAsk(t, s, waits)
	for _, in := range dead {
		if err := (sessionTable{s}).End(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the store reads whether the sessions live", func() bool {
		return !slices.ContainsFunc(dead, func(in session.ID) bool { _, known := s.sessions.Known(in); return known })
	})
	if a := mustAsk(t, s, waits); !a.Granted {
		t.Errorf("%+v", a)
	}
}

// A writer waits behind a reader, and its process dies. Other readers are granted once its session has ended, though nobody releases anything.
func TestADeadWaiterBlocksNoOther(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	for _, how := range []string{"tries", "waits"} {
		reads := func() store.Claim {
			c := mutex(how)
			c.Weight, c.Try = 1, how == "tries"
			return c
		}
		mustRenew(t, s, mustHold(t, s, reads()))
		writes, one := mutex(how), reads()
		mustAsk(t, second(t, s), writes)
		if a := mustAsk(t, s, one); a.Granted || a.Waiting != 1 {
			t.Fatalf("%s behind a writer: got %+v", how, a)
		}
		if err := (sessionTable{s}).End(t.Context(), sessionOf(t, s, how, writes.ID)); err != nil {
			t.Fatal(err)
		}
		// The store heard a moment ago that the writer's session goes on.
		until(t, how+": the claim is granted", func() bool { return mustAsk(t, s, one).Granted })
	}
}

// A poll that finds the grant returns it, for as long as the session that kept the position lasts. It returns none for a hold, which may be
// moving into another session.
func TestAPollReturnsAGrantForTheTimeOfTheSession(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, waits := mustHold(t, other, mutex("n")), mutex("n")
	waits.TTL = time.Hour
	mustAsk(t, s, waits)
	poll := func() store.Answer {
		t.Helper()
		a, err := s.Poll(t.Context(), waits)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := poll(); a.Granted || a.From == 0 || a.Holding != 1 {
		t.Fatalf("the waiter: got %+v", a)
	}
	if err := other.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	a := poll()
	if !a.Granted || a.Token <= h.Token || a.From == 0 || a.TTL > store.MaxPositionTTL {
		t.Fatalf("after the release: got %+v, want a grant", a)
	}
	h = store.Hold{Name: "n", ID: waits.ID, Token: a.Token, TTL: waits.TTL}
	for _, when := range []string{"granted", "renewed"} {
		if a := poll(); !a.Granted || a.Token != h.Token || a.From != 0 {
			t.Errorf("%s: got %+v", when, a)
		}
		mustRenew(t, s, h)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// A claim that was granted while its statement waited for the row finds nothing to do, and neither does the next behind it.
func TestARepeatedAskBehindOthersWritesNothing(t *testing.T) {
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
	for _, of := range []*Store{s, other} { // the sessions that it heard of a moment ago
		until(t, "the store reads whether the holder's session lives", func() bool { _, known := of.sessions.Known(in); return !known })
	}
	var before string
	var met atomic.Bool
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.ask && met.CompareAndSwap(false, true) {
			if a := mustAsk(t, other, first); !a.Granted {
				t.Errorf("the first waiter is not granted: got %+v", a)
			}
			before = version(t, s, "n")
		}
		return nil
	})
	if a := mustAsk(t, s, next); a.Granted || a.Holding != 1 {
		t.Errorf("%+v", a)
	}
	if after := version(t, s, "n"); !met.Load() || after != before {
		t.Errorf("the row was written: from %s to %s", before, after)
	}
}

// A waiter granted by a notification sends no ask. It releases by the statement that grants the next waiter, and the store forgets it then,
// even if the hold was lost.
func TestAHolderGrantedByNotificationIsKnownAtItsRelease(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	reported := make(chan store.Notification, 1000)
	if err := s.Watch(t.Context(), me, func(n store.Notification) { reported <- n }); err != nil {
		t.Fatal(err)
	}
	for _, broken := range []bool{false, true} {
		h, waits := mustHold(t, other, mutex("n")), mutex("n")
		mustAsk(t, s, waits)
		if err := other.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		var n store.Notification
		for n.ID != waits.ID { // notifications of other tests arrive too
			select {
			case n = <-reported:
			case <-time.After(patience):
				t.Fatal("got no notification")
			}
		}
		if n.Name != "n" || n.Token <= h.Token {
			t.Fatalf("%+v", n)
		}
		hold := store.Hold{Name: "n", ID: waits.ID, Token: n.Token, TTL: waits.TTL}
		if !broken && s.ways.get("n") != next {
			t.Error("the release does not use the statement that grants the next waiter")
		}
		if broken {
			if err := other.BreakHold(t.Context(), store.Break{Name: "n", ID: waits.ID, Token: n.Token, Now: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Release(t.Context(), hold); broken != errors.Is(err, store.ErrLost) {
			t.Errorf("broken %v: got %v", broken, err)
		}
		s.claims.mu.Lock()
		if m := s.claims.of[waits.ID]; m != nil {
			t.Errorf("broken %v: the store still knows the claim: %+v", broken, m)
		}
		s.claims.mu.Unlock()
	}
}
