package pgstore

import (
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

type heldLease struct {
	name  string
	token int64
}

func (l heldLease) Name() string { return l.name }
func (l heldLease) Token() int64 { return l.token }

// onStore runs a test with a Store that uses the clock of the test, in µs, and with transactions on its database.
func onStore(t *testing.T, f func(t *testing.T, s *Store, now *atomic.Int64, begin func() someTx)) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		addr := sharedAddr(t)
		var now atomic.Int64
		now.Store(1e15)
		s, err := newStore(onPgx(poolOn(t, addr)), &Options{Schema: apart(t, addr)}, now.Load)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		mustHold(t, s, mutex("made")) // creates the table
		f(t, s, &now, begin)
	})
}

func TestHeldTx_OnlyAHoldThatLastsPasses(t *testing.T) {
	onStore(t, func(t *testing.T, s *Store, now *atomic.Int64, begin func() someTx) {
		lost := func(what string, l heldLease) {
			t.Helper()
			tx := begin()
			if err := s.CheckTx(t.Context(), tx.Tx, l); !errors.Is(err, store.ErrLost) {
				t.Errorf("%s: %v, want ErrLost", what, err)
			}
			tx.End()
		}
		held := func(what string, l heldLease) {
			t.Helper()
			tx := begin()
			if err := s.CheckTx(t.Context(), tx.Tx, l); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			tx.End()
		}
		lost("a name never used", heldLease{"n", 1})
		c := mutex("n")
		c.Block = 4
		h := mustHold(t, s, c)
		held("the token", heldLease{"n", h.Token})
		held("the last of its block", heldLease{"n", h.Token + 3})
		lost("a token before", heldLease{"n", h.Token - 1})
		lost("a token after its block", heldLease{"n", h.Token + 4})
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		lost("released", heldLease{"n", h.Token})
		h = mustHold(t, s, mutex("n"))
		if err := s.BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		lost("broken", heldLease{"n", h.Token})
		c = mutex("short")
		c.LockDelay = time.Hour // it blocks the name once it has expired
		h = mustHold(t, s, c)
		now.Add((c.TTL - time.Millisecond).Microseconds())
		held("a millisecond before the end", heldLease{"short", h.Token})
		now.Add(time.Millisecond.Microseconds())
		lost("expired", heldLease{"short", h.Token})
		for _, none := range []any{"no transaction", nil, (*sql.Tx)(nil)} {
			if err := s.CheckTx(t.Context(), none, heldLease{"n", 1}); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%T: %v, want ErrInvalid", none, err)
			}
		}
	})
}

func TestHeldTx_AHoldOfAnEndedSessionDoesNotPass(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, in := kept(t, s, "n")
	check := func() error {
		tx, err := poolOf(s).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		return s.CheckTx(t.Context(), tx, heldLease{"n", h.Token})
	}
	if err := check(); err != nil {
		t.Errorf("while its session lives: %v", err)
	}
	if err := (sessionTable{s}).End(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := check(); !errors.Is(err, store.ErrLost) {
		t.Errorf("after the end of its session: %v, want ErrLost", err)
	}
}

// A transaction above READ COMMITTED sees a session as it was when the transaction began, and that may have been valid for less time than the
// transaction takes. A session renewed since is not reported lost: the check fails with a serialization error, so the transaction begins anew.
func TestHeldTx_ASessionRenewedDuringTheTransactionIsKept(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, in := kept(t, s, "n")
	s.tasks.Wait() // the initial sweep
	expires := "UPDATE " + sessionsOf(s) + " SET expires = $2 WHERE id = $1"
	check := func(what string, between func(), want error) {
		t.Helper()
		tx, err := poolOf(s).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if _, err := tx.Exec(t.Context(), "SELECT FROM "+tableOf(s)); err != nil { // its snapshot is taken here
			t.Fatal(err)
		}
		between()
		if err := s.CheckTx(t.Context(), tx, heldLease{"n", h.Token}); !errors.Is(err, want) || want == store.ErrUnavailable && code(err) != "40001" {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	run(t, poolOf(s), expires, in[:], time.Now().UnixMicro()) // which has expired when it is read
	check("the session has ended", func() {}, store.ErrLost)
	check("the session was renewed since", func() { run(t, poolOf(s), expires, in[:], time.Now().Add(time.Hour).UnixMicro()) }, store.ErrUnavailable)
	check("the session lives", func() {}, nil)
}

// Between the check and the commit nobody is granted the lock, though the hold expires.
func TestHeldTx_TheNameIsNotGrantedBeforeTheCommit(t *testing.T) {
	onStore(t, func(t *testing.T, s *Store, now *atomic.Int64, begin func() someTx) {
		c := mutex("n")
		h := mustHold(t, s, c)
		tx := begin()
		if err := s.CheckTx(t.Context(), tx.Tx, heldLease{"n", h.Token}); err != nil {
			t.Fatal(err)
		}
		now.Add(c.TTL.Microseconds())
		next := mutex("n")
		next.ID = me.NewID()
		granted := make(chan error, 1)
		go func() {
			a, err := s.Ask(t.Context(), next)
			if err == nil && !a.Granted {
				err = errors.New("refused")
			}
			granted <- err
		}()
		until(t, "the next claim waits for the row", func() bool {
			return pgtest.One[int](t, poolOf(s), "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+s.schema+"%'") > 0
		})
		select {
		case err := <-granted:
			t.Fatal("answered before the commit:", err)
		default:
		}
		if err := tx.End(); err != nil {
			t.Fatal(err)
		}
		if err := <-granted; err != nil {
			t.Fatal(err)
		}
		tx = begin()
		if err := s.CheckTx(t.Context(), tx.Tx, heldLease{"n", h.Token}); !errors.Is(err, store.ErrLost) {
			t.Error("check after the commit:", err)
		}
	})
}
