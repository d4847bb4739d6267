package pgstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// A name is kept for a day after its last entry has ended, and not for longer.
func TestOnlyUnneededRowsAreDeleted(t *testing.T) {
	now := time.Now().UnixMicro()
	s := tableAt(t, nil, &now)
	const day = store.TokenRetention
	idle, held, long := mutex("idle"), mutex("held"), mutex("long")
	h := mustHold(t, s, idle)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	held.TTL, held.LockDelay = time.Hour, time.Hour
	mustHold(t, s, held)
	long.MinHold = 100 * time.Hour
	h = mustHold(t, s, long)
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		t.Helper()
		if _, _, _, err := s.sweepPart(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		rows, err := poolOf(s).Query(t.Context(), "SELECT convert_from(name, 'UTF8') FROM "+tableOf(s)+" ORDER BY name")
		if err != nil {
			t.Fatal(err)
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for _, step := range []struct {
		pass time.Duration
		want string
	}{
		{day - time.Second, "held idle long"},
		{time.Minute + 2*time.Second, "held long"}, // it had a TTL of a minute
		{2*time.Hour - 2*time.Minute, "held long"},
		{3 * time.Minute, "long"},
		{98*time.Hour - 4*time.Minute, "long"},
		{5 * time.Minute, ""},
	} {
		now += step.pass.Microseconds()
		if got := strings.Join(left(), " "); got != step.want {
			t.Errorf("after %v more: got %q, want %q", step.pass, got, step.want)
		}
	}
}

// However a claim is granted, renewed or kept, and by whichever statement: the newest token of the name is kept for a day after all of that
// has ended.
func TestARowIsKeptForADayAfterTheLastOfItHasEnded(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	pool := poolOn(t, addr)
	const long = 1000 * time.Hour
	with := func(change func(c *store.Claim)) store.Claim {
		c := mutex("n")
		change(&c)
		return c
	}
	reader := func(c *store.Claim) { c.Weight = 1 }
	lasting := func(c *store.Claim) { c.TTL, c.LockDelay = long, time.Hour }
	kept := func(c *store.Claim) { c.MinHold = long }
	used := func(t *testing.T, s *Store) { // the row exists and has no entry
		if err := s.Release(t.Context(), mustHold(t, s, mutex("n"))); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(t *testing.T, s *Store, h store.Hold) {
		if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, way := range []struct {
		name string
		ends time.Duration // from now
		do   func(t *testing.T, s *Store)
	}{
		{"a_new_name", long + time.Hour, func(t *testing.T, s *Store) { mustHold(t, s, with(lasting)) }},
		{"a_known_name", long + time.Hour, func(t *testing.T, s *Store) { used(t, s); mustHold(t, s, with(lasting)) }},
		{"a_minimum_hold_of_a_new_name", long, func(t *testing.T, s *Store) { shown(t, s, mustHold(t, s, with(kept))) }},
		{"a_minimum_hold_of_a_known_name", long, func(t *testing.T, s *Store) { used(t, s); shown(t, s, mustHold(t, s, with(kept))) }},
		{"a_renewal", long + time.Hour, func(t *testing.T, s *Store) {
			h := mustHold(t, s, with(func(c *store.Claim) { c.LockDelay = time.Hour }))
			h.TTL = long
			shown(t, s, h)
		}},
		{"a_renewal_under_another_id", long, func(t *testing.T, s *Store) {
			h := mustHold(t, s, mutex("n"))
			h.TTL, h.NewID = long, me.NewID()
			shown(t, s, h)
		}},
		{"beside_another", long + time.Hour, func(t *testing.T, s *Store) {
			mustHold(t, s, with(reader))
			mustHold(t, s, with(func(c *store.Claim) { reader(c); lasting(c) }))
		}},
		{"a_minimum_hold_beside_another", long, func(t *testing.T, s *Store) {
			mustHold(t, s, with(reader))
			shown(t, s, mustHold(t, s, with(func(c *store.Claim) { reader(c); kept(c) })))
		}},
		{"a_minimum_hold_of_who_waited", long, func(t *testing.T, s *Store) {
			h, w := mustHold(t, s, mutex("n")), with(kept)
			mustAsk(t, s, w)
			s.ways.set("n", next)
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			shown(t, s, store.Hold{Name: "n", ID: w.ID, Token: state(t, s, "n").Entries[0].Token, TTL: time.Minute})
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			now := time.Now().UnixMicro()
			s := tableAt(t, pool, &now)
			way.do(t, s)
			is := func(want int) {
				t.Helper()
				if _, _, _, err := s.sweepPart(t.Context(), -1); err != nil {
					t.Fatal(err)
				}
				if rows := pgtest.One[int](t, pool, "SELECT count(*)::int FROM "+tableOf(s)); rows != want {
					t.Fatalf("%v from now: got %d rows, want %d", time.Duration(now)*time.Microsecond, rows, want)
				}
			}
			now += (way.ends + store.TokenRetention - time.Second).Microseconds()
			is(1)
			now += (2 * time.Second).Microseconds()
			is(0)
		})
	}
}

// addOldRows adds rows that nobody has used for long.
func addOldRows(t *testing.T, s *Store) {
	t.Helper()
	run(t, poolOf(s), "INSERT INTO "+tableOf(s)+" SELECT ('old/' || i)::bytea, "+strconv.Itoa(form)+", 1, i"+
		strings.Repeat(", '{}'", len(entryColumns))+" FROM generate_series(1, 20000) i")
}

// Rows of names that are used once are deleted as fast as they are created. Each sweep continues where the last one ended, and starts soon if
// that one found much.
func TestOldRowsGoAsFastAsTheyCame(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	mustHold(t, s, mutex("made")) // creates the table
	addOldRows(t, s)
	blocks := pgtest.One[int64](t, poolOf(s), "SELECT pg_relation_size('"+tableOf(s)+"') / current_setting('block_size')::bigint")
	if blocks < 3*sweepBlocks {
		t.Fatalf("got only %d blocks: the test shows nothing", blocks)
	}
	looks, most, at := 0, int64(0), int64(-1)
	for ; pgtest.One[int](t, poolOf(s), "SELECT count(*)::int FROM "+tableOf(s)) > 1; looks++ {
		var gone int64
		var err error
		if gone, at, _, err = s.sweepPart(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		most = max(most, gone)
		if looks > int(blocks/sweepBlocks)+2 {
			t.Fatalf("after %d sweeps of %d blocks each there are still old rows on %d blocks", looks, sweepBlocks, blocks)
		}
	}
	// The pauses are bounds of time, so this checks them without a clock. The sweep that ends with the table may find few rows, wherever the
	// first one began.
	w := sweeper{least: leastSweep, most: mostSweep, pause: mostSweep}
	for range 6 {
		w.pause = w.nextPause(most)
	}
	if w.pause != leastSweep {
		t.Errorf("after six sweeps that found %d rows: got a pause of %v", most, w.pause)
	}
	for range 30 {
		w.pause = w.nextPause(0)
	}
	if w.pause != mostSweep {
		t.Errorf("after sweeps that found nothing: got a pause of %v", w.pause)
	}
	if pgtest.One[int](t, poolOf(s), "SELECT count(*)::int FROM "+tableOf(s)+" WHERE name = 'made'") != 1 {
		t.Error("a row in use was deleted")
	}
}

// A Store in use sweeps again after each pause.
func TestAStoreThatIsUsedGoesOnSweeping(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.least, s.most = 1, 1
	s.next.Store(1)
	h := mustHold(t, s, mutex("made"))
	addOldRows(t, s)
	until(t, "all old rows are deleted", func() bool {
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		h = mustHold(t, s, mutex("made"))
		return pgtest.One[int](t, poolOf(s), "SELECT count(*)::int FROM "+tableOf(s)) == 1
	})
}
