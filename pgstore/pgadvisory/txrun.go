package pgadvisory

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// txGrace is how long a statement may take after the end of the caller's
	// context. One that is cut off costs the caller the transaction.
	txGrace = 5 * time.Second
	// txLate is how long after a deadline the server may take to end a wait by lock_timeout before
	// we send a cancel request.
	txLate = time.Second
	// txPart is how long one statement waits if it cannot be canceled.
	txPart = time.Second
)

// A txRun runs statements in a transaction of the caller.
type txRun struct {
	query func(ctx context.Context, statement string, args []any) (string, error) // one row, one column
	exec  func(ctx context.Context, statement string) error
	conn  *pgx.Conn // to cancel a statement with; nil: this driver cannot
}

func newTxRun(tx any) (*txRun, error) {
	switch tx := tx.(type) {
	case pgx.Tx:
		return &txRun{
			query: func(ctx context.Context, statement string, args []any) (text string, err error) {
				err = tx.QueryRow(ctx, statement, args...).Scan(&text)
				return text, err
			},
			exec: func(ctx context.Context, statement string) error {
				_, err := tx.Exec(ctx, statement)
				return err
			},
			conn: tx.Conn(),
		}, nil
	case *sql.Tx:
		if tx != nil {
			return onSQLTx(tx), nil
		}
	}
	return nil, fmt.Errorf("%w: want a pgx.Tx or a *sql.Tx, got %T", store.ErrInvalid, tx)
}

func onSQLTx(tx *sql.Tx) *txRun {
	t := &txRun{exec: func(ctx context.Context, statement string) error {
		_, err := tx.ExecContext(ctx, statement)
		return err
	}}
	plain := func(ctx context.Context, statement string, args []any) (text string, err error) {
		err = tx.QueryRowContext(ctx, statement, args...).Scan(&text)
		return text, err
	}
	// The first statement finds out whether the driver is that of pgx. Another
	// driver refuses the extra argument before it sends anything.
	t.query = func(ctx context.Context, statement string, args []any) (string, error) {
		t.query = plain
		text, err := plain(ctx, statement, slices.Insert(slices.Clone(args), 0, any(&connect.Finder{Found: func(c *pgx.Conn) { t.conn = c }})))
		if t.conn == nil {
			return plain(ctx, statement, args)
		}
		return text, err
	}
	return t
}

// run runs a statement to its end, even if ctx ends meanwhile, unless the server does not answer at
// all.
func (t *txRun) run(ctx context.Context, statement string, args ...any) (text string, err error) {
	t.within(ctx, func(ctx context.Context) { text, err = t.query(ctx, statement, args) })
	return text, err
}

func (t *txRun) do(ctx context.Context, statement string) (err error) {
	t.within(ctx, func(ctx context.Context) { err = t.exec(ctx, statement) })
	return err
}

func (t *txRun) within(ctx context.Context, f func(context.Context)) {
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(txGrace, cancel) })()
	f(bounded)
}

// failed returns an error after which the transaction is unusable.
func (t *txRun) failed(err error) error {
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, pgx.ErrTxClosed) {
		err = fmt.Errorf("the transaction has ended: %w", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

const savepoint = "holdfast_wait"

// wait waits for the lock in a savepoint. timeout is the transaction's own
// lock_timeout.
func (t *txRun) wait(ctx context.Context, do inTx, timeout string) error {
	if err := t.do(ctx, "SAVEPOINT "+savepoint); err != nil {
		return t.failed(err)
	}
	for {
		err := t.waitPart(ctx, do, timeout)
		ended := ctx.Err()
		if err == nil && ended == nil {
			if err := t.do(ctx, "RELEASE SAVEPOINT "+savepoint); err != nil {
				return t.failed(err)
			}
			return nil
		}
		// A lock that was granted as ctx ended is released with the savepoint.
		if back := t.do(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); back != nil { //mutant:pg-tx-wait-rolled-back
			return t.failed(errors.Join(err, back))
		}
		if ended == nil && store.SQLState(err) == "55P03" { // lock_timeout, of this part
			continue
		}
		if back := t.do(ctx, "RELEASE SAVEPOINT "+savepoint); back != nil {
			return t.failed(errors.Join(err, back))
		}
		switch {
		case ended != nil:
			return fmt.Errorf("gave up waiting: %w: %w", ended, store.ErrHeld)
		case store.SQLState(err) == "40P01":
			return fmt.Errorf("%w: another transaction waits for a lock of this one: roll this one back: %w", store.ErrDeadlock, err)
		case store.SQLState(err) == "57014":
			return fmt.Errorf("%w: the server ended the wait: %w", store.ErrHeld, err)
		}
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}

// waitPart waits for the lock until ctx ends, or for as long as one statement may. When it returns,
// no cancel request is under way, which could hit a statement of the caller.
func (t *txRun) waitPart(ctx context.Context, do inTx, timeout string) error {
	within := time.Duration(0) // no limit
	if t.conn == nil {
		within = txPart
	}
	if end, ok := ctx.Deadline(); ok {
		left := min(max(time.Until(end), 0), math.MaxInt32*time.Millisecond-time.Millisecond) + time.Millisecond
		within = min(left, cmp.Or(within, left))
	}
	answered, stopped := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		t.cancel(ctx, answered)
	})
	_, err := t.run(ctx, do.wait, append(slices.Clip(do.args), strconv.FormatInt(within.Milliseconds(), 10), timeout)...)
	close(answered)
	if !stop() {
		<-stopped
	}
	return err
}

// cancel asks the server to end the waiting statement, unless that is answered or about to be.
func (t *txRun) cancel(ctx context.Context, answered <-chan struct{}) {
	if t.conn == nil {
		return
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case <-answered:
			return
		case <-time.After(txLate):
		}
	}
	select {
	case <-answered:
		return
	default:
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), txGrace)
	defer cancel()
	_ = t.conn.PgConn().CancelRequest(asking) // if it fails, within closes the connection
}
