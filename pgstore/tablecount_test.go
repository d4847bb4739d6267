package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// tallied counts statements by kind.
type tallied struct {
	db
	counts *recordtest.Counts
	do     *statements
}

func (c *tallied) query(ctx context.Context, statement string, args []any, how how, row func(scan func(...any) error) error) error {
	c.counts.Add(kindOf(c.do, statement))
	return c.db.query(ctx, statement, args, how, row)
}

// kindOf returns the kind of a statement.
func kindOf(do *statements, statement string) string {
	for kind, text := range map[string]string{
		"ask free": do.askFast, "ask idle": do.askIdle, "ask": do.ask, "ask behind": do.askBehind, "look": do.ahead, "renew": do.renewFast, "renew one": do.renew,
		"release": do.releaseFast, "release next": do.releaseNext, "release full": do.release, "sweep": do.sweep, "stands": do.stands, "begin": do.session.begin,
		"renew session": do.session.renew, "left": do.session.left, "end": do.session.end, "sweep sessions": do.session.sweep,
	} {
		if statement == text {
			return kind
		}
	}
	return "other"
}

// counted counts the statements of a store, except the renewals of its sessions. If one of those is not answered in time the store begins
// another session, which is not counted either.
type counted struct {
	db
	n            atomic.Int64
	renew, begin string
	failed       atomic.Bool
}

func (c *counted) query(ctx context.Context, statement string, args []any, how how, row func(scan func(...any) error) error) error {
	if statement == c.renew {
		err := c.db.query(ctx, statement, args, how, row)
		if err != nil {
			c.failed.Store(true)
		}
		return err
	}
	if statement != c.begin || !c.failed.Load() {
		c.n.Add(1)
	}
	return c.db.query(ctx, statement, args, how, row)
}

// Each statement is a round trip. An operation takes one statement if nobody blocks it, or if one waiter waits for what one holder releases. A
// statement that failed to do it is not tried again until it would succeed.
func TestAnOperationIsOneStatementOrTwoUnderContention(t *testing.T) {
	s := newShared(t)
	c := &counted{db: s.db, renew: s.do.session.renew, begin: s.do.session.begin}
	s.db = c
	is := func(want int64, what string, do func()) {
		t.Helper()
		c.n.Store(0)
		if do(); c.n.Load() != want {
			t.Errorf("%s: got %d statements, want %d", what, c.n.Load(), want)
		}
	}
	claim := func(weight int64) store.Claim {
		c := mutex("n")
		c.Weight = weight
		return c
	}
	granted := func(c store.Claim) (h store.Hold) {
		t.Helper()
		a := mustAsk(t, s, c)
		if !a.Granted || a.N != c.Tokens() || a.Last < a.Token+int64(a.N)-1 {
			t.Fatalf("%+v", a)
		}
		return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}
	}
	release := func(h store.Hold) func() {
		return func() {
			t.Helper()
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
	}
	made := mustHold(t, s, mutex("made")) // creates the table
	mustAsk(t, s, mutex("made"))          // begins the session to wait in
	release(made)()
	s.tasks.Wait() // the initial sweep
	var h store.Hold
	writer := claim(store.Full)
	for _, what := range []string{"a new name", "a known name"} {
		is(1, "ask for "+what, func() { h = granted(writer) })
		is(1, "release of "+what, release(h))
		writer = claim(store.Full)
	}
	h = granted(writer)
	var waiting []store.Claim
	for i, weight := range []int64{store.Full, store.Full, store.Upgradeable, store.Full, 1, store.Full} {
		c := claim(weight)
		c.Block = 5
		is(max(2-int64(i), 1), "wait", func() { mustAsk(t, s, c) }) // at first the store may believe it free
		waiting = append(waiting, c)
	}
	for i, c := range waiting { // at first the store expects nobody
		is(max(2-int64(i), 1), "release to a waiter", release(h))
		h = granted(c)
	}
	is(1, "ask for a known name that is held", func() { mustAsk(t, s, claim(store.Full)) })
	if st := state(t, s, "n"); len(st.Entries) != 2 || st.Entries[0].ID != h.ID || st.Entries[1].Granted {
		t.Fatalf("behind a hold: got %+v", st)
	}
	for _, not := range []store.Hold{{Name: "n", ID: h.ID, Token: h.Token + 1}, {Name: "n", ID: me.NewID(), Token: h.Token}} {
		s.ways.set("n", next)
		if err := s.Release(t.Context(), not); !errors.Is(err, store.ErrLost) {
			t.Fatalf("release with a wrong id or token: %v, want ErrLost", err)
		}
	}
	if err := s.Release(t.Context(), store.Hold{Name: "n", ID: state(t, s, "n").Entries[1].ID}); err != nil {
		t.Fatal(err)
	}
	left := claim(store.Full)
	left.PositionTTL = time.Microsecond // it expires before anything else arrives
	mustAsk(t, s, left)
	s.ways.set("n", next)
	is(2, "release before an expired waiter", release(h))
	if st := state(t, s, "n"); len(st.Entries) != 0 {
		t.Errorf("the expired waiter is still listed: %+v", st)
	}
	for _, want := range []int64{2, 2, 1} { // the store expects nobody, then one, then two
		h = granted(claim(store.Full))
		one, two, last := claim(1), claim(1), claim(store.Full)
		mustAsk(t, s, one)
		mustAsk(t, s, two)
		by := s.ways.get("n")
		is(want, "release to two waiters", release(h))
		h = granted(one)
		other := granted(two)
		mustAsk(t, s, last)
		s.ways.set("n", next)
		is(2, "release beside another hold", release(h))
		s.ways.set("n", next)
		is(1, "release with no other entry", release(other))
		s.ways.set("n", by+1)
		is(1, "release with no other entry, where others were expected", release(granted(last)))
		if s.ways.get("n") != alone {
			t.Error("no waiter is left, but the store still expects one")
		}
		s.ways.set("n", by+1)
	}
	block := claim(store.Full)
	block.Block = 5
	for _, w := range []way{alone, next} {
		h = granted(block)
		s.ways.set("n", w)
		h.Used = h.Token + 2
		release(h)()
		if st, err := s.look(t.Context(), "n"); err != nil || st.q.Last != h.Used {
			t.Errorf("of a block up to %d with newest used %d: got newest drawn %d, %v", h.Token+4, h.Used, st.q.Last, err)
		}
		block.ID = me.NewID()
	}
	for i := range 2 * mostNames {
		s.ways.set(string(rune('a'+i)), next)
	}
	if n := len(s.ways.are); n > mostNames {
		t.Errorf("the store remembers %d names", n)
	}
}

// HOLDFAST_TEST_CROWD=300 shows more.
func TestACrowdCostsFewStatementsALock(t *testing.T) {
	t.Parallel()
	n := recordtest.CrowdSize(30)
	// The claims hold the name one after another. If each of their statements takes this long, the last gets no answer within the 5 s of a
	// call.
	tooSlow := 5 * time.Second / time.Duration(n)
	for tries := 1; ; tries++ {
		var each float64
		var unanswered int
		var took time.Duration
		t.Run(fmt.Sprint("try ", tries), func(t *testing.T) { each, unanswered, took = crowd(t, n) })
		if unanswered > 0 && took > tooSlow && tries < 10 {
			t.Logf("this machine is too slow: an unblocked statement took %v", took)
			continue
		}
		if each > 15 || unanswered > 0 {
			t.Errorf("got %.1f statements per lock, want at most 15; %d got no answer", each, unanswered)
		}
		return
	}
}

// crowd is recordtest.Crowd on a server of its own. It also returns the longest time that a statement took there if nothing blocked it.
func crowd(t *testing.T, n int) (each float64, unanswered int, took time.Duration) {
	t.Helper()
	server := testserver.Postgres(t, "-c", fmt.Sprintf("max_connections=%d", n+100))
	pool, direct := poolOn(t, server.Addr, func(c *pgxpool.Config) { c.MaxConns = 32 }), poolOn(t, server.Addr)
	ctx, end := context.WithCancel(t.Context())
	var probing sync.WaitGroup
	probing.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			time.Sleep(time.Millisecond)
			if _, err := direct.Exec(ctx, "SELECT 1"); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			took = max(took, time.Since(begun))
		}
	})
	var counts recordtest.Counts
	each, unanswered = recordtest.Crowd(t, n, &counts, func(t *testing.T) store.Store {
		s := tableOn(t, pool, nil)
		s.db = &tallied{s.db, &counts, s.do}
		return s
	})
	end()
	probing.Wait()
	return each, unanswered, took
}

// HOLDFAST_TEST_CROWD=10000 shows more.
func TestManyLeasesAreRenewedByFewStatements(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	var counts recordtest.Counts
	writes := &counted{db: s.db} // it counts renewals too
	s.db = &tallied{writes, &counts, s.do}
	const ttl = 30 * time.Second // long enough for a busy machine to renew in time
	locks, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	n := recordtest.CrowdSize(500)
	names := make(chan string, n)
	for i := range n {
		names <- fmt.Sprint("lease ", i)
	}
	close(names)
	var all sync.WaitGroup
	var mu sync.Mutex
	var leases []*holdfast.Lease
	for range 8 {
		all.Go(func() {
			for name := range names {
				lease, err := locks.Mutex(name).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				leases = append(leases, lease)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	until(t, "all holds are in a session", func() bool {
		s.claims.mu.Lock()
		defer s.claims.mu.Unlock()
		for _, m := range s.claims.of {
			if m.sess == nil {
				return false
			}
		}
		return true
	})
	begun, before := time.Now(), writes.n.Load()
	row := version(t, s, "lease 0")
	time.Sleep(ttl / 3) // all are renewed in that time
	each := float64(writes.n.Load()-before) / time.Since(begun).Seconds()
	t.Logf("%d leases: %.1f statements a second", n, each)
	if each > 10 {
		t.Errorf("%d leases: got %.1f statements a second, want at most 10", n, each)
	}
	if now := version(t, s, "lease 0"); now != row {
		t.Error("a row was written")
	}
	for _, lease := range leases {
		if !lease.Valid() {
			t.Fatal("a lease was lost")
		}
	}
}
