package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/memstore"
)

func do(t *testing.T, s server, l guard.Lease, fn func(ctx context.Context, tx *sql.Tx) error) error {
	t.Helper()
	return s.Do(t.Context(), s.db, nil, l, fn)
}

func set(who string) func(ctx context.Context, tx *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET who = '"+who+"'")
		return err
	}
}

// conflicts makes the server report that the transaction lost a conflict.
func (s server) conflicts(ctx context.Context, tx *sql.Tx) error {
	query := "SIGNAL SQLSTATE '40001'"
	if s.Dialect == guard.PostgreSQL {
		query = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"
	}
	_, err := tx.ExecContext(ctx, query)
	return err
}

func TestGuard_DoRestartsAfterAConflict(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		runs := 0
		fine(t, do(t, s, writer(10), func(ctx context.Context, tx *sql.Tx) error {
			if runs++; runs < 4 {
				fine(t, set("a failed attempt")(ctx, tx))
				return s.conflicts(ctx, tx)
			}
			_, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + 1`)
			return err
		}))
		if have := s.account(t); runs != 4 || have != "nobody 1" {
			t.Errorf("got %d runs, stored %q", runs, have)
		}
		runs = 0
		err := do(t, s, writer(10), func(ctx context.Context, tx *sql.Tx) error { runs++; return s.conflicts(ctx, tx) })
		if !again(err) && err == nil || runs != 10 {
			t.Errorf("a function that conflicts each time ran %d times: %v", runs, err)
		}
	})
}

func TestGuard_DoCommitsOrLeavesNothing(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		fine(t, do(t, s, writer(20), set("the holder")))
		stale(t, do(t, s, writer(19), func(context.Context, *sql.Tx) error {
			t.Error("the function of a late holder ran")
			return nil
		}), 19, 20)
		wrong := errors.New("wrong")
		runs := 0
		err := do(t, s, writer(21), func(ctx context.Context, tx *sql.Tx) error {
			runs++
			fine(t, set("wrong")(ctx, tx))
			return wrong
		})
		if err != wrong || runs != 1 {
			t.Errorf("got %d runs: %v", runs, err)
		}
		func() {
			defer func() { recover() }()
			_ = do(t, s, writer(21), func(ctx context.Context, tx *sql.Tx) error {
				fine(t, set("panic")(ctx, tx))
				panic("test")
			})
		}()
		if have := s.account(t); have != "the holder 0" {
			t.Errorf("stored %q", have)
		}
		fine(t, do(t, s, writer(20), set("again"))) // the rolled-back transaction raised no fence
	})
}

func TestGuard_DoEndsWithTheLease(t *testing.T) {
	db := database(t, 0)
	locks, err := holdfast.New(memstore.New(), nil)
	fine(t, err)
	defer locks.Close()
	l, err := locks.Mutex("a").Lock(t.Context())
	fine(t, err)
	fine(t, guard.SQLite.Do(t.Context(), db, nil, l, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET by = 'the holder'")
		return err
	}))
	err = guard.SQLite.Do(t.Context(), db, nil, l, func(ctx context.Context, tx *sql.Tx) error {
		fine(t, l.Release())
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
			t.Error("the context did not end with the lease")
		}
		return context.Cause(ctx)
	})
	if !errors.Is(err, holdfast.ErrReleased) {
		t.Error(err)
	}
}

func TestGuard_ADeletedNameStartsWithoutAFence(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		fine(t, s.check(t, writer(20)))
		fine(t, s.check(t, made{"other", 30, holdfast.ModeWrite}))
		tx := begin(t, s.db)
		fine(t, s.Forget(t.Context(), tx, "a"))
		fine(t, tx.Rollback())
		stale(t, s.check(t, writer(19)), 19, 20)
		for range 2 { // to forget a missing fence is no error
			tx = begin(t, s.db)
			fine(t, s.Forget(t.Context(), tx, "a"))
			commit(t, tx)
		}
		fine(t, s.check(t, writer(1)))
		stale(t, s.check(t, made{"other", 29, holdfast.ModeWrite}), 29, 30)
	})
}

// Two transactions wait for each other's rows, and the server ends one of them.
func TestGuard_DoRestartsAfterADeadlock(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		mustExec := func(query string) {
			t.Helper()
			_, err := s.db.ExecContext(t.Context(), query)
			fine(t, err)
		}
		mustExec(`INSERT INTO account VALUES (2, 0, 'nobody')`)
		names, ready := [2]string{"a", "b"}, [2]chan bool{make(chan bool, 2), make(chan bool, 2)}
		for _, name := range names { // their fences exist, so neither waits for those
			fine(t, s.check(t, made{name, 1, holdfast.ModeWrite}))
		}
		var runs, ended [2]int
		var errs [2]error
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				defer func() { ready[i] <- true }() // even if its first update failed
				errs[i] = s.Do(t.Context(), s.db, nil, made{names[i], 2, holdfast.ModeWrite}, func(ctx context.Context, tx *sql.Tx) error {
					runs[i]++
					for step, id := range [2]int{1 + i, 2 - i} { // each has locked one row when it needs the other's
						if _, err := tx.ExecContext(ctx, fmt.Sprint("UPDATE account SET balance = balance + 1 WHERE id = ", id)); err != nil {
							ended[i]++
							return fmt.Errorf("update: %w", err)
						}
						if step == 0 && runs[i] == 1 {
							ready[i] <- true
							<-ready[1-i]
						}
					}
					return nil
				})
			})
		}
		both.Wait()
		fine(t, errors.Join(errs[:]...))
		if runs[0]+runs[1] < 3 || ended[0]+ended[1] == 0 {
			t.Errorf("got runs %v, of which %v ended: there was no deadlock", runs, ended)
		}
		var sum int
		fine(t, s.db.QueryRowContext(t.Context(), "SELECT SUM(balance) FROM account").Scan(&sum))
		if sum != 4 {
			t.Errorf("got %d updates, want 4", sum)
		}
	})
}
