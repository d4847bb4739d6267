package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	o := &Options{Schema: apart(t, addr)}
	open := func(t *testing.T, addr string) record.Backend {
		s := tableOn(t, poolOn(t, addr), o)
		return recordtest.OnlySessions(sessionTable{s}, s.Close)
	}
	recordtest.RunSessions(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return open(t, addr) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			link := testserver.NewLink(t, addr)
			return open(t, link.Addr()), link
		},
	})
}

func sessionsOf(s *Store) string { return tableOf(s)[:len(tableOf(s))-1] + sessionsSuffix + `"` }

// kept returns a hold that a session of the store keeps.
func kept(t *testing.T, s *Store, name string) (h store.Hold, in session.ID) {
	t.Helper()
	h = mustHold(t, s, mutex(name))
	mustRenew(t, s, h)
	return h, sessionOf(t, s, name, h.ID)
}

func mustRenew(t *testing.T, s *Store, h store.Hold) store.Renewal {
	t.Helper()
	r := s.Renew(t.Context(), []store.Hold{h})[0]
	if r.Err != nil {
		t.Fatalf("renew %q: %v", h.Name, r.Err)
	}
	return r
}

// sessionOf returns the session that keeps an entry, from the row of its name, or zero.
func sessionOf(t *testing.T, s *Store, name string, id store.ID) session.ID {
	t.Helper()
	f, err := s.look(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return f.in[id]
}

// lock locks the rows that a condition selects, until done is called. tx runs statements in the same transaction.
func lock(t *testing.T, s *Store, rows string, args ...any) (tx pgx.Tx, done func()) {
	t.Helper()
	tx, err := poolOf(s).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+rows+" FOR UPDATE", args...); err != nil {
		t.Fatal(err)
	}
	return tx, func() {
		t.Helper()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// This is why one statement makes the end of a session final before another uses it, and why a claim that waits does not depend on the calls
// of its session: a statement that has waited for a name's row reads the rows of sessions as they were when the statement began.
func TestAReadOfASessionBehindAWaitForANameIsStale(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	_, in := kept(t, s, "n")
	_, done := lock(t, s, tableOf(s)+" WHERE name = 'n'")
	type sight struct {
		lives bool
		calls int64
	}
	seen := make(chan sight, 1)
	go func() {
		var one sight
		err := poolOf(s).QueryRow(t.Context(), "WITH l AS MATERIALIZED (SELECT name FROM "+tableOf(s)+" WHERE name = 'n' FOR UPDATE) SELECT x.expires > 0, x.calls FROM l, "+
			sessionsOf(s)+" x WHERE x.id = $1", in[:]).Scan(&one.lives, &one.calls)
		if err != nil {
			t.Error(err)
		}
		seen <- one
	}()
	until(t, "the statement waits for the row", func() bool { return waitingForRows(t, s) == 1 })
	if err := (sessionTable{s}).Call(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := (sessionTable{s}).End(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	done()
	if one := <-seen; !one.lives || one.calls != 0 {
		t.Errorf("the statement saw %+v: then such a read could be relied on after all", one)
	}
}

// The session of a holder ends for good while somebody's ask waits for the row. What the ask read before its wait is no reason to skip the
// holder, nor to wait forever.
func TestAnAskThatWaitedForTheRowSkipsAnEndedHolder(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := tableOn(t, poolOf(s), &Options{Schema: s.schema})
	defer other.Close()
	h, in := kept(t, s, "n")
	_, done := lock(t, s, tableOf(s)+" WHERE name = 'n'")
	claim := mutex("n")
	answered := make(chan store.Answer, 1)
	go func() {
		a, err := other.Ask(t.Context(), claim)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	until(t, "the ask waits for the row", func() bool { return waitingForRows(t, s) >= 1 })
	if err := (sessionTable{s}).End(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	done()
	if a := <-answered; !a.Granted || a.Token <= h.Token {
		t.Errorf("got %+v, want a grant", a)
	}
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != store.ErrLost {
		t.Errorf("the hold before it: got %v, want ErrLost", err)
	}
}

// A renewal is under way while another process finds that the session has expired: one of the two is done first, and the other sees it.
func TestASessionIsSkippedOnlyOnceItsEndIsFinal(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := tableOn(t, poolOf(s), &Options{Schema: s.schema})
	defer other.Close()
	_, in := kept(t, s, "n")
	s.tasks.Wait() // the initial sweep
	run(t, poolOf(s), "UPDATE "+sessionsOf(s)+" SET expires = 1 WHERE id = $1", in[:])
	tx, done := lock(t, s, sessionsOf(s)+" WHERE id = $1", in[:])
	claim := mutex("n")
	answered := make(chan store.Answer, 1)
	go func() {
		a, err := other.Ask(t.Context(), claim)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	until(t, "the claim that found the session expired waits for its row", func() bool {
		select {
		case a := <-answered:
			t.Fatalf("answered before the end of the session is final: %+v", a)
		default:
		}
		return waitingForRows(t, s) >= 1
	})
	if _, err := tx.Exec(t.Context(), "UPDATE "+sessionsOf(s)+" SET expires = $2 WHERE id = $1", in[:], time.Now().Add(time.Hour).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	done()
	if a := <-answered; a.Granted || a.Holding != 1 {
		t.Errorf("beside the hold of a renewed session: got %+v", a)
	}
}

// A process died, and nobody asked for what it held. Its lock delay counts from the end of its session, not from when another process finds
// that.
func TestALockDelayCountsFromTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	c := mutex("n")
	c.LockDelay = time.Hour
	h := mustHold(t, s, c)
	mustRenew(t, s, h)
	in := sessionOf(t, s, "n", h.ID)
	dead(s)
	for _, step := range []struct {
		ago     time.Duration
		granted bool
	}{{30 * time.Minute, false}, {2 * time.Hour, true}} {
		run(t, poolOf(s), "UPDATE "+sessionsOf(s)+" SET expires = $2 WHERE id = $1", in[:], time.Now().Add(-step.ago).UnixMicro())
		comes := mutex("n")
		comes.Try = true
		a := mustAsk(t, other, comes)
		if a.Granted != step.granted {
			t.Errorf("%v after the end of its session: got %+v", step.ago, a)
		}
		if left := c.LockDelay - step.ago; !a.Granted && (a.Until > left || a.Until < left-time.Minute) {
			t.Errorf("got a wait of %v, want %v", a.Until, left)
		}
		other = second(t, s)
	}
}

func TestSessionsThatHaveEndedAreDeletedAndOthersAreNot(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	_, in := kept(t, s, "n")
	begun := func(ended time.Duration) session.ID { // ended so long ago; nobody uses it
		id := session.NewID()
		if _, err := (sessionTable{s}).Begin(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		if ended != 0 {
			run(t, poolOf(s), "UPDATE "+sessionsOf(s)+" SET expires = $2 WHERE id = $1", id[:], time.Now().Add(-ended).UnixMicro())
		}
		return id
	}
	dead, lately, long := begun(0), begun(time.Hour), begun(25*time.Hour)
	if err := (sessionTable{s}).End(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	left := func(id session.ID) time.Duration {
		all, err := (sessionTable{s}).Left(t.Context(), []session.ID{id})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	if l := left(lately); l > -time.Hour || l < -2*time.Hour {
		t.Errorf("the session that ended an hour ago: got %v left", l)
	}
	if l := left(long); l > -25*time.Hour {
		t.Errorf("the session that ended 25 hours ago: got %v left", l)
	}
	if err := s.run(t.Context(), s.do.session.sweep, nil, func() {}, nil); err != nil {
		t.Fatal(err)
	}
	there := func(id session.ID) bool {
		return pgtest.One[bool](t, poolOf(s), "SELECT EXISTS (SELECT FROM "+sessionsOf(s)+" WHERE id = $1)", id[:])
	}
	if there(dead) || there(long) || !there(lately) || !there(in) {
		t.Errorf("got the ended session: %v; ended long ago: %v; ended lately: %v; alive: %v", there(dead), there(long), there(lately), there(in))
	}
	if l := left(lately); l > -time.Hour {
		t.Errorf("the session that ended an hour ago: got %v left, but its end is final", l)
	}
}

// A row that nobody has written for a day is kept if a session keeps its entries, and settled if that session has ended.
func TestAHoldThatIsOnlyRenewedByItsSessionIsNotSwept(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, in := kept(t, s, "n")
	run(t, poolOf(s), "UPDATE "+tableOf(s)+" SET kept = 1")
	sweep := func() []string {
		t.Helper()
		_, _, names, err := s.sweepPart(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	names := sweep()
	if !slices.Equal(names, []string{"n"}) {
		t.Errorf("got %q, want the name", names)
	}
	if err := s.settle(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	mustRenew(t, s, h)
	if st := state(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].ID != h.ID {
		t.Fatalf("got %+v, want the hold", st)
	}
	if err := (sessionTable{s}).End(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	other := second(t, s)
	if err := other.settle(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if ids := pgtest.One[int](t, poolOf(s), "SELECT cardinality(id) FROM "+tableOf(s)+" WHERE name = 'n'"); ids != 0 {
		t.Errorf("got %d entries of a dead process left", ids)
	}
}

// A user who creates the tables by hand gets both.
func TestTheSchemaHasBothTables(t *testing.T) {
	sql, err := Schema(&Options{Table: "mine"})
	if err != nil || !strings.Contains(sql, `"mine" (`) || !strings.Contains(sql, `"mine_sessions" (`) {
		t.Errorf("got %q, %v", sql, err)
	}
	if _, err := Schema(&Options{Table: strings.Repeat("x", 55)}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a name too long for the table of sessions: %v, want ErrInvalid", err)
	}
}
