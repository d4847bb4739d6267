package pgadvisory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// expiring is a context that ends as by its deadline, when the test ends it.
type expiring struct{ context.Context }

func (c expiring) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// B139.
func TestTx_ALockLastsUntilTheTransactionEnds(t *testing.T) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		for _, how := range []string{"COMMIT", "ROLLBACK"} {
			one, two := "tx/"+store.NewProcess().String(), "tx/"+store.NewProcess().String()
			a, b := begin(), begin()
			for _, name := range []string{one, two} { // a transaction can hold several
				if err := TryLockTx(t.Context(), a.Tx, name); err != nil {
					t.Fatal(err)
				}
				if err := TryLockTx(t.Context(), b.Tx, name); !errors.Is(err, store.ErrHeld) {
					t.Fatalf("a second transaction: %v, want ErrHeld", err)
				}
			}
			waits := make(chan error, 1)
			go func() { waits <- LockTx(t.Context(), b.Tx, two) }()
			if how == "COMMIT" {
				if err := a.End(); err != nil {
					t.Fatal(err)
				}
			} else if tx, ok := a.Tx.(pgx.Tx); ok {
				tx.Rollback(t.Context())
			} else {
				a.Tx.(*sql.Tx).Rollback()
			}
			if err := <-waits; err != nil {
				t.Fatal("the next transaction:", err)
			}
			if err := b.End(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// B138.
func TestTx_ARefusalAndATimeoutLeaveTheTransactionAsItWas(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		a, b := begin(), begin()
		for _, set := range []string{"lock_timeout", "statement_timeout"} {
			if _, err := b.One("SELECT set_config('" + set + "', '1234s', true)"); err != nil {
				t.Fatal(err)
			}
		}
		table := "tx_" + store.NewProcess().String()
		if _, err := b.One("SELECT set_config('work_mem', '5MB', true) FROM (SELECT 1) x"); err != nil {
			t.Fatal(err)
		}
		if err := LockTx(t.Context(), a.Tx, name); err != nil {
			t.Fatal(err)
		}
		if err := TryLockTx(t.Context(), b.Tx, name); !errors.Is(err, store.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("TryLockTx: %v, want ErrHeld", err)
		}
		if err := TryRLockTx(t.Context(), b.Tx, name); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("TryRLockTx: %v, want ErrHeld", err)
		}
		pid, err := b.One("SELECT pg_backend_pid()::text")
		if err != nil {
			t.Fatal(err)
		}
		// wait ends the context once the lock has been requested.
		wait := func(ctx context.Context, cancel func(), lock func(context.Context, any, string) error) error {
			t.Helper()
			if _, err := b.One("SELECT 'before'"); err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() { waited <- lock(ctx, b.Tx, name) }()
			until(t, "the transaction waits", func() bool {
				return pgtest.One[int](t, pool, "SELECT count(*)::int FROM pg_stat_activity WHERE pid = $1::text::int AND wait_event = 'advisory'", pid) == 1
			})
			cancel()
			return <-waited
		}
		cancelled, cancel := context.WithCancel(t.Context())
		if err := wait(expiring{cancelled}, cancel, LockTx); !errors.Is(err, store.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a wait that timed out: %v, want ErrHeld and DeadlineExceeded", err)
		}
		cancelled, cancel = context.WithCancel(t.Context())
		if err := wait(cancelled, cancel, RLockTx); !errors.Is(err, store.ErrHeld) || !errors.Is(err, context.Canceled) {
			t.Fatalf("a canceled wait: %v, want ErrHeld and Canceled", err)
		}
		if err := LockTx(cancelled, b.Tx, name); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrHeld) {
			t.Fatalf("an ended context: %v, want Canceled", err)
		}
		have, err := b.One("SELECT current_setting('lock_timeout') || ' ' || current_setting('statement_timeout') || ' ' || current_setting('work_mem') || ' " + table + "'")
		if err != nil || have != "1234s 1234s 5MB "+table {
			t.Fatalf("settings afterwards: got %q, %v", have, err)
		}
		if err := a.End(); err != nil {
			t.Fatal(err)
		}
		if err := LockTx(t.Context(), b.Tx, name); err != nil {
			t.Fatal("LockTx once the lock is free:", err)
		}
		if err := b.End(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTx_ReadersShareAndKeepAWriterOut(t *testing.T) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		a, b, c := begin(), begin(), begin()
		if err := errors.Join(RLockTx(t.Context(), a.Tx, name), TryRLockTx(t.Context(), b.Tx, name)); err != nil {
			t.Fatal(err)
		}
		if err := TryLockTx(t.Context(), c.Tx, name); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("a writer beside readers: %v, want ErrHeld", err)
		}
		if err := errors.Join(a.End(), b.End(), TryLockTx(t.Context(), c.Tx, name)); err != nil {
			t.Fatal(err)
		}
	})
}

// B139, B145: in the server's view a session never blocks itself.
func TestTx_TheSameNameAgainIsADeadlock(t *testing.T) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		// Mutants run this test at the same time on the same server.
		n, half := rand.Int64(), rand.Int32()
		for _, name := range []string{
			"tx/" + store.NewProcess().String(), fmt.Sprint("advisory:", n), fmt.Sprint("advisory:", -n),
			fmt.Sprintf("advisory:%d,-2", -half), fmt.Sprintf("advisory:%d,9", half),
		} {
			a := begin()
			if err := LockTx(t.Context(), a.Tx, name); err != nil {
				t.Fatal(name, err)
			}
			for what, f := range map[string]func(context.Context, any, string) error{"lock": LockTx, "try": TryLockTx, "read": RLockTx, "try to read": TryRLockTx} {
				if err := f(t.Context(), a.Tx, name); !errors.Is(err, store.ErrDeadlock) {
					t.Fatalf("%s %s again: %v, want ErrDeadlock", what, name, err)
				}
			}
			if err := TryLockTx(t.Context(), a.Tx, "other/"+name); err != nil {
				t.Fatal("another name:", err)
			}
			if err := a.End(); err != nil {
				t.Fatal(err)
			}
			if again := begin(); TryLockTx(t.Context(), again.Tx, name) != nil {
				t.Fatal("the next transaction of the same connection gets no lock")
			}
		}
	})
}

func TestTx_AFailedTransactionIsReported(t *testing.T) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		failed, ended := begin(), begin()
		if _, err := failed.One("SELECT 1/0"); err == nil {
			t.Fatal("a statement that must fail succeeded")
		}
		if err := LockTx(t.Context(), failed.Tx, name); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "aborted") {
			t.Fatalf("in a failed transaction: %v, want ErrUnavailable", err)
		}
		if err := ended.End(); err != nil {
			t.Fatal(err)
		}
		if err := LockTx(t.Context(), ended.Tx, name); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "transaction has ended") {
			t.Fatalf("in an ended transaction: %v, want ErrUnavailable", err)
		}
	})
}

func TestTx_BadInputIsRefusedBeforeAnyIO(t *testing.T) {
	var none *sql.Tx
	for what, tx := range map[string]any{"nothing": nil, "no *sql.Tx": none, "a pool": poolOn(t, "127.0.0.1:1"), "text": "tx"} {
		if err := LockTx(t.Context(), tx, "a"); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", store.MaxName+1), "advisory:x"} {
		if err := TryLockTx(t.Context(), pgx.Tx(nil), name); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("name %.20q: %v, want ErrInvalid", name, err)
		}
	}
}

// Session locks and transaction locks exclude each other.
func TestTx_ExcludesSessions(t *testing.T) {
	eachTx(t, func(t *testing.T, begin func() someTx) {
		name := "tx/" + store.NewProcess().String()
		u := newUser(t, poolOn(t, sharedAddr(t)), nil)
		a := begin()
		h := u.take(name)
		if err := TryLockTx(t.Context(), a.Tx, name); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("beside a session: %v, want ErrHeld", err)
		}
		u.release(h)
		if err := LockTx(t.Context(), a.Tx, name); err != nil {
			t.Fatal(err)
		}
		u.refused(name)
	})
}
