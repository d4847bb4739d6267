package pgadvisory

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// queued waits until the backend waits for an advisory lock.
func queued(t *testing.T, pool *pgxpool.Pool, pid string) {
	t.Helper()
	until(t, "the transaction waits in the server", func() bool {
		return pgtest.One[int](t, pool, "SELECT count(*)::int FROM pg_stat_activity WHERE pid = $1::text::int AND wait_event = 'advisory'", pid) == 1
	})
}

// TestTx_TheServerQueuesAndWakes shows that a waiter is in the server's queue: it is granted in the order of arrival, and sends nothing while
// it waits.
func TestTx_TheServerQueuesAndWakes(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		first := begin()
		if err := LockTx(t.Context(), first.Tx, name); err != nil {
			t.Fatal(err)
		}
		var order []int
		done := make(chan error)
		for i := range 4 {
			tx := begin()
			pid := tx.PID(t)
			go func() {
				err := LockTx(t.Context(), tx.Tx, name)
				order = append(order, i) // guarded by the lock under test
				done <- errors.Join(err, tx.End())
			}()
			queued(t, pool, pid)
		}
		if err := first.End(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(order, []int{0, 1, 2, 3}) {
			t.Errorf("got the order %v of grants", order)
		}
	})
}

// B138: a wait that ends at about the time of the grant leaves the transaction usable.
func TestTx_ACancellationLeavesTheTransactionAndNoLock(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		holder := begin()
		if err := LockTx(t.Context(), holder.Tx, name); err != nil {
			t.Fatal(err)
		}
		tx := begin()
		pid := tx.PID(t)
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			waited := make(chan error, 1)
			go func() { waited <- LockTx(ctx, tx.Tx, name) }()
			queued(t, pool, pid)
			cancel()
			if i == 19 { // granted at about the same moment
				if err := holder.End(); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-waited; i < 19 && (!errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrHeld)) {
				t.Fatal(err)
			} else if i == 19 && err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			} else if i == 19 && err != nil {
				if err := TryLockTx(t.Context(), begin().Tx, name); err != nil {
					t.Error("the lock is still held after a canceled wait:", err)
				}
			}
			for range 5 { // no late cancel request hits these statements
				if one, err := tx.One("SELECT 'fine'"); err != nil || one != "fine" {
					t.Fatal(one, err)
				}
			}
		}
	})
}

// Two transactions wait for each other: the server detects the deadlock.
func TestTx_ADeadlockIsFoundByTheServer(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		a, b := begin(), begin()
		if err := errors.Join(LockTx(t.Context(), a.Tx, name+"/a"), LockTx(t.Context(), b.Tx, name+"/b")); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			tx  someTx
			err error
		}
		outcomes := make(chan outcome, 2)
		pid := a.PID(t)
		go func() { outcomes <- outcome{a, LockTx(t.Context(), a.Tx, name+"/b")} }()
		queued(t, pool, pid)
		go func() { outcomes <- outcome{b, LockTx(t.Context(), b.Tx, name+"/a")} }()
		one := <-outcomes // the server picks which one fails
		if !errors.Is(one.err, store.ErrDeadlock) {
			t.Fatal(one.err)
		}
		if _, err := one.tx.One("SELECT 'usable'"); err != nil {
			t.Fatal("the refused transaction:", err)
		}
		if err := one.tx.End(); err != nil {
			t.Fatal(err)
		}
		if other := <-outcomes; other.err != nil {
			t.Fatal("the other transaction:", other.err)
		}
	})
}

// The transaction's own lock_timeout does not end a wait, its statement_timeout does. Neither aborts the transaction.
func TestTx_TimeoutsOfTheTransaction(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		a, b := begin(), begin()
		if err := LockTx(t.Context(), a.Tx, name); err != nil {
			t.Fatal(err)
		}
		// The time is long, as it also bounds the statements before the wait, on a busy machine.
		if _, err := b.One("SELECT set_config('lock_timeout', '1', true) || set_config('statement_timeout', '2000', true)"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := LockTx(ctx, b.Tx, name)
		if !errors.Is(err, store.ErrHeld) || !strings.Contains(err.Error(), "statement timeout") {
			t.Fatal(err)
		}
		if _, err := b.One("SELECT set_config('statement_timeout', '0', true)"); err != nil {
			t.Fatal(err)
		}
		pid := b.PID(t)
		waited := make(chan error, 1)
		go func() { waited <- LockTx(ctx, b.Tx, name) }()
		queued(t, pool, pid)
		if err := a.End(); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		if have, err := b.One("SELECT current_setting('lock_timeout')"); err != nil || have != "1ms" {
			t.Fatalf("afterwards: got lock_timeout %s, %v", have, err)
		}
	})
}

// A lock that was taken after a savepoint is released when that is rolled back.
func TestTx_ASavepointThatIsRolledBackGivesItsLocksBack(t *testing.T) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		a, b := begin(), begin()
		run := func(statement string) {
			t.Helper()
			r, err := newTxRun(a.Tx)
			if err == nil {
				err = r.exec(t.Context(), statement)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		run("SAVEPOINT s")
		if err := LockTx(t.Context(), a.Tx, name); err != nil {
			t.Fatal(err)
		}
		run("ROLLBACK TO SAVEPOINT s")
		if err := TryLockTx(t.Context(), b.Tx, name); err != nil {
			t.Fatal("another transaction:", err)
		}
		if err := b.End(); err != nil {
			t.Fatal(err)
		}
		if err := LockTx(t.Context(), a.Tx, name); err != nil {
			t.Fatal("the same transaction again:", err)
		}
	})
}

// With a driver that cannot cancel a statement, the store waits in parts.
func TestTx_AWaitOnAnotherDriverEndsToo(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	db := sql.OpenDB(pgtest.OlderDriver(t, sharedAddr(t)))
	defer db.Close()
	name := "tx/" + store.NewProcess().String()
	a, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Rollback(t.Context())
	b, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Rollback()
	if err := LockTx(t.Context(), a, name); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var pid string
	if err := b.QueryRow("SELECT pg_backend_pid()::text").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- LockTx(ctx, b, name) }()
	queued(t, pool, pid)
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
	go func() { waited <- LockTx(t.Context(), b, name) }()
	queued(t, pool, pid)
	if err := a.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if err := LockTx(t.Context(), b, name); !errors.Is(err, store.ErrDeadlock) {
		t.Fatal(err)
	}
}
