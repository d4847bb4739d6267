package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// meddled intercepts each statement before it is sent.
type meddled struct {
	db
	meet   atomic.Pointer[func(statement string, args []any) error]
	server atomic.Int64 // the server reports this identity instead of its own; 0: its own
}

func (m *meddled) query(ctx context.Context, statement string, args []any, how how, row func(scan func(...any) error) error) error {
	if meet := m.meet.Load(); meet != nil {
		if err := (*meet)(statement, args); err != nil {
			return err
		}
	}
	if n := m.server.Load(); n != 0 {
		statement = strings.ReplaceAll(statement, "pg_postmaster_start_time()", fmt.Sprintf("to_timestamp(%d)", n))
	}
	return m.db.query(ctx, statement, args, how, row)
}

// meddle has f intercept each statement of a store of newShared from now on. f may delay or fail it.
func meddle(s *Store, f func(statement string, args []any) error) { s.db.(*meddled).meet.Store(&f) }

var errCut = errors.New("the link is cut")

// dead cuts the store off from the server for good, as if its process had been killed.
func dead(s *Store) { meddle(s, func(string, []any) error { return errCut }) }

// second returns a store on the same table, as another process would have it.
func second(t *testing.T, s *Store) *Store {
	t.Helper()
	other, err := newStore(onPgx(poolOf(s)), &Options{Schema: s.schema}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return other
}

// version returns a value that changes with each write of the name's row.
func version(t *testing.T, s *Store, name string) string {
	t.Helper()
	return pgtest.One[string](t, poolOf(s), "SELECT ctid::text || xmin FROM "+tableOf(s)+" WHERE name = $1", []byte(name))
}

func TestUnchangedWaitersAndHoldsAreNotRewritten(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, _ := kept(t, s, "n")
	waits := mutex("n")
	mustAsk(t, other, waits)
	before := version(t, s, "n")
	for range 5 {
		mustRenew(t, s, h)
		if a := mustAsk(t, other, waits); a.Granted || a.Holding != 1 || a.Waiting != 0 || a.From == 0 {
			t.Fatalf("%+v", a)
		}
	}
	if after := version(t, s, "n"); after != before {
		t.Errorf("the row was written: from %s to %s", before, after)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if a := mustAsk(t, other, waits); !a.Granted {
		t.Errorf("%+v", a)
	}
}

// Nobody calls the owner of a hold whose row was deleted. The owner's store reads the row half a TTL later.
func TestAHoldWhoseRowIsLostIsLost(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	there, _ := kept(t, s, "there")
	gone, _ := kept(t, s, "gone")
	taken, _ := kept(t, s, "taken")
	run(t, poolOf(s), "DELETE FROM "+tableOf(s)+" WHERE name <> 'there'")
	mustHold(t, second(t, s), mutex("taken"))
	before := version(t, s, "there")
	s.claims.mu.Lock()
	for _, m := range s.claims.of {
		m.seen = m.seen.Add(-m.sess.TTL / 2)
	}
	s.claims.mu.Unlock()
	for i, r := range s.Renew(t.Context(), []store.Hold{there, gone, taken}) {
		if i == 0 && r.Err != nil || i > 0 && !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
	if after := version(t, s, "there"); after != before {
		t.Errorf("the row was written: from %s to %s", before, after)
	}
}

// The short session keeps a hold that was granted in the queue, until the hold is renewed.
func TestAGrantInTheQueueMovesToTheLongSession(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, waits := mustHold(t, s, mutex("n")), mutex("n")
	mustAsk(t, s, waits)
	short := sessionOf(t, s, "n", waits.ID)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	a := mustAsk(t, s, waits)
	if !a.Granted || a.TTL > store.MaxPositionTTL || a.From == 0 {
		t.Fatalf("got %+v, want it for at most the time of its session", a)
	}
	h = store.Hold{Name: "n", ID: waits.ID, Token: a.Token, TTL: waits.TTL}
	mustRenew(t, s, h)
	if long := sessionOf(t, s, "n", h.ID); long == short || long == (session.ID{}) {
		t.Errorf("the hold is in session %v, was in %v", long, short)
	}
	if e := state(t, s, "n").Entries[0]; e.Expires <= store.MaxPositionTTL {
		t.Errorf("after the renewal: got %+v", e)
	}
}

// When several names are taken together, a hold whose owner has not used the token is kept by asking for it again. Nothing has run under it,
// so its minimum hold does not count if its process dies.
func TestToAskForAHoldAgainShowsNoToken(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other, waits := second(t, s), mutex("n")
	h := mustHold(t, other, mutex("n"))
	waits.TTL, waits.MinHold = time.Minute, time.Hour
	mustAsk(t, s, waits)
	if err := other.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for _, ttl := range []time.Duration{waits.PositionTTL, waits.TTL, waits.TTL} {
		if a := mustAsk(t, s, waits); !a.Granted || a.TTL != ttl {
			t.Fatalf("got %+v, want a TTL of %v", a, ttl)
		}
	}
	dead(s)
	expire(t, s, "n")
	mustHold(t, other, mutex("n"))
}

// expire makes all entries of a name expire that have an expiry of their own.
func expire(t *testing.T, s *Store, name string) {
	t.Helper()
	run(t, poolOf(s), "UPDATE "+tableOf(s)+" SET expires = (SELECT array_agg(CASE WHEN u.session = '' THEN 1 ELSE u.expires END ORDER BY o) FROM unnest(expires, session)"+
		" WITH ORDINALITY AS u(expires, session, o)) WHERE name = $1", []byte(name))
}

func TestTheHoldOfADeadProcessIsFreedWithItsSession(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	c := mutex("n")
	c.LockDelay = 100 * time.Millisecond
	h := mustHold(t, s, c)
	mustRenew(t, s, h)
	mustAsk(t, s, mutex("n")) // in another session
	dead(s)
	const left = 2 * time.Second // of both sessions, however busy this machine has been until now
	run(t, poolOf(s), "UPDATE "+sessionsOf(s)+" SET expires = $1", time.Now().Add(left).UnixMicro())
	locks, err := holdfast.New(other, &holdfast.Options{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := locks.Mutex("n").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("free %v after the death of its process, whose sessions had %v left, with a lock delay of %v", time.Since(begun), left, c.LockDelay)
	if lease.Token() <= h.Token {
		t.Errorf("got token %d after %d, want a larger one", lease.Token(), h.Token)
	}
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err == nil {
		t.Error("the hold of the dead process was renewed")
	}
}

// A claim that nobody renews is removed, though its session goes on for others.
func TestAnUnrenewedClaimIsRemovedFromALiveSession(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	const ttl = 20 * time.Second
	var holds []store.Hold
	for _, name := range []string{"renewed", "left"} {
		c := mutex(name)
		c.TTL, c.PositionTTL, c.LockDelay = ttl, store.MaxPositionTTL, 10*time.Millisecond
		h := mustHold(t, s, c)
		h.TTL = ttl
		mustRenew(t, s, h)
		holds = append(holds, h)
	}
	waits := mutex("left")
	mustAsk(t, second(t, s), waits)
	s.claims.mu.Lock()
	s.claims.of[holds[1].ID].ends, s.claims.of[holds[0].ID].ends = store.Now(), store.Now() // they would have expired by now
	s.renewed(s.claims.of[holds[0].ID], ttl, store.Now())                                   // except for this renewal
	s.claims.mu.Unlock()
	s.poke()
	until(t, "the unrenewed hold is removed", func() bool {
		if err := s.Renew(t.Context(), holds[:1])[0].Err; errors.Is(err, store.ErrLost) {
			t.Fatalf("the renewed hold: %v", err)
		}
		return state(t, s, "left").Entries[0].ID == waits.ID
	})
	if st := state(t, s, "renewed"); len(st.Entries) != 1 {
		t.Errorf("the renewed hold: got %+v", st)
	}
	if err := s.Renew(t.Context(), holds[1:])[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal of the removed hold: %v, want ErrLost", err)
	}
}

func TestABrokenHoldIsLostEvenIfItsSessionGoesOn(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := mutex("n")
	c.TTL = time.Minute // so that it lasts, however busy this machine is
	h := mustHold(t, s, c)
	h.TTL = c.TTL
	for range 3 {
		mustRenew(t, s, h)
	}
	if err := second(t, s).BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Reason: "it hangs"}); err != nil {
		t.Fatal(err)
	}
	var lost *store.LostError
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.As(err, &lost) || lost.Reason != "it hangs" {
		t.Fatalf("renewal of a broken hold: %v, want its loss", err)
	}
	s.claims.mu.Lock()
	s.claims.of[h.ID].ends = store.Now() // a minute later
	s.claims.mu.Unlock()
	s.poke()
	until(t, "the broken hold is removed", func() bool { return len(state(t, s, "n").Entries) == 0 })
}

// The session was called, and the row cannot be read: then the hold is renewed by a write, or not at all.
func TestAHoldWhoseSessionWasCalledIsNotRenewedUnread(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	if err := second(t, s).BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token}); err != nil {
		t.Fatal(err)
	}
	cut(s, &s.do.stands)
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal of a broken hold: %v, want ErrLost", err)
	}
}

// A process whose session has ended has lost all that the session kept, whatever is asked.
func TestAllEntriesOfAnEndedSessionAreLost(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, in := kept(t, s, "held")
	waits := mutex("waited for")
	mustHold(t, second(t, s), mutex("waited for"))
	mustAsk(t, s, waits)
	for _, id := range s.sessions.IDs() {
		sess := s.sessions.Own(id)
		if err := (sessionTable{s}).End(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		sess.Wait(t.Context(), sess.Renew())
	}
	if in == (session.ID{}) || len(s.sessions.IDs()) == 0 {
		t.Log("the store has already forgotten the sessions")
	}
	again := mutex("held")
	again.ID = h.ID
	_, asked := s.Ask(t.Context(), waits)
	_, askedAgain := s.Ask(t.Context(), again)
	_, changed := s.Change(t.Context(), h, 1, store.Full)
	for what, err := range map[string]error{
		"renewed": s.Renew(t.Context(), []store.Hold{h})[0].Err, "asked for": asked, "asked for again": askedAgain, "changed": changed,
		"released": s.Release(t.Context(), h),
	} {
		if !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: %v, want ErrLost", what, err)
		}
	}
	if st := state(t, s, "held"); len(st.Entries) != 0 {
		t.Errorf("got %+v listed, want nothing", st)
	}
}

// The row does not know yet that its session has ended.
func TestAnExpiredHoldThatIsReleasedKeepsItsMinimumHold(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := mutex("n")
	c.MinHold = time.Hour
	h := mustHold(t, s, c)
	mustRenew(t, s, h)
	sess := s.sessions.Own(sessionOf(t, s, "n", h.ID))
	if err := (sessionTable{s}).End(t.Context(), sess.ID); err != nil {
		t.Fatal(err)
	}
	sess.Wait(t.Context(), sess.Renew())
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	try := mutex("n")
	try.Try = true
	if a := mustAsk(t, second(t, s), try); a.Granted {
		t.Errorf("within the minimum hold: got %+v", a)
	}
}

// Knowing the id and token of a hold is not enough to renew it in another session.
func TestAHoldThatASessionOfAnotherKeepsIsNotRenewed(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, in := kept(t, s, "n")
	mustHold(t, other, mutex("some")) // so that both stores choose the same statements
	for _, many := range [][]store.Hold{{h}, {h, h}} {
		for _, r := range other.Renew(t.Context(), many) {
			if !errors.Is(r.Err, store.ErrLost) {
				t.Errorf("renewal: %v, want ErrLost", r.Err)
			}
		}
	}
	if now := sessionOf(t, s, "n", h.ID); now != in {
		t.Errorf("the hold is in session %v, was in %v", now, in)
	}
	mustRenew(t, s, h)
}

// A hold lasts as long as its owner was promised until it has moved into a session. That session must not end before.
func TestAHoldDoesNotMoveIntoASessionThatEndsBeforeIt(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	long, err := s.sessions.Present(t.Context(), time.Minute) // from an earlier time
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.renew {
			return errCut
		}
		return nil
	})
	h := mustHold(t, s, mutex("n"))
	mustRenew(t, s, h)
	if in := sessionOf(t, s, "n", h.ID); in != (session.ID{}) {
		t.Errorf("the hold moved into session %v, which ends before it (%v)", in, long.ID)
	}
	meddle(s, func(string, []any) error { return nil })
	mustRenew(t, s, h)
	if in := sessionOf(t, s, "n", h.ID); in == (session.ID{}) {
		t.Error("the hold did not move into a renewed session")
	}
}
