package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A TableLease is what CheckTx needs of a lease. A holdfast.Lease is one.
type TableLease interface {
	// Name is the name that is held.
	Name() string
	// Token is the fencing token of the lease.
	Token() int64
}

// CheckTx checks in a transaction of yours that the lease is held. It is for work in the same
// database as the locks of this Store. Make it the last statement before the commit: from then on,
// until the transaction ends, the name is not granted to anyone else, so the transaction commits
// only while the lease is held. Then no fence is needed, and slots may be checked too.
//
// tx is a [pgx.Tx], or a [*sql.Tx] of any driver, on the database of the Store. CheckTx locks the
// row of the name FOR SHARE, so renewals, releases and waiters of the name wait for the
// transaction: commit it soon. The role needs the rights of the Store. Above READ COMMITTED the
// check can end the transaction with a serialization failure (40001), because its row is often
// written: retry the transaction.
//
// The error matches store.ErrLost if the lease is no longer held or is not of this store: roll
// back. It matches store.ErrInvalid if tx is not a transaction, store.ErrCorrupt or
// store.ErrUnsupported for the stored state, store.ErrDenied, and otherwise store.ErrUnavailable.
func (s *Store) CheckTx(ctx context.Context, tx any, l TableLease) error {
	name, token := l.Name(), l.Token()
	doing := func(err error) error { return fmt.Errorf("check %.100q in a transaction: %w", name, err) }
	if err := store.CheckName(name); err != nil {
		return doing(err)
	}
	f := &found{}
	add := func(scan func(...any) error) error {
		var r row
		if err := scan(r.dests()...); err != nil {
			return err
		}
		f.add(&r)
		return nil
	}
	args := []any{[]byte(name)}
	if s.clock != nil {
		args = append(args, s.clock())
	}
	var query func(statement string, row func(scan func(...any) error) error) error
	switch tx := tx.(type) {
	case pgx.Tx:
		query = func(statement string, row func(scan func(...any) error) error) error {
			return each(ctx, tx.Query, statement, args, row)
		}
	case *sql.Tx:
		if tx == nil { //mutant:pg-held-tx-nil
			return doing(noTx(tx))
		}
		query = func(statement string, row func(scan func(...any) error) error) error {
			return eachSQL(ctx, tx.QueryContext, statement, args, row)
		}
	default:
		return doing(noTx(tx))
	}
	f, err := s.finish(f, query(s.do.held, add), "check", name)
	if err != nil {
		return doing(err)
	}
	for i := range f.q.Entries { // an unknown end cannot be returned
		if e := &f.q.Entries[i]; f.in[e.ID] != (session.ID{}) {
			e.Expires = min(e.Expires, f.now+micros(store.MaxPositionTTL))
		}
	}
	for _, e := range f.q.State(f.time(), name).Entries {
		if e.Has(token) && e.Expires > 0 && e.Broken == "" { //mutant:pg-held-lasts
			in, kept := f.in[e.ID]
			if !kept {
				return nil
			}
			// A statement of its own sees the session as it is now. A process that ends the session
			// from now on grants nothing before the transaction has ended.
			var id []byte
			var left int64
			var final bool
			var ids array
			ids.session(in)
			args[0] = ids.text()
			if err := query(s.do.session.left, func(scan func(...any) error) error { return scan(&id, &left, &final) }); err != nil {
				return doing(s.failed("look at a session", err))
			}
			if left <= 0 { // perhaps only in the snapshot of a transaction above READ COMMITTED
				args[0] = in[:]
				if err := query(s.do.session.held, func(scan func(...any) error) error { return scan(&left) }); err != nil {
					return doing(s.failed("look at a session", err))
				}
			}
			if left > 0 { //mutant:pg-held-session-lives
				return nil
			}
		}
	}
	return doing(fmt.Errorf("%w: the hold with token %d has ended; roll back", store.ErrLost, token))
}

func noTx(tx any) error {
	return fmt.Errorf("%w: want a pgx.Tx or a *sql.Tx, got %T", store.ErrInvalid, tx)
}
