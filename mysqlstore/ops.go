package mysqlstore

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// attempts is how often an operation is tried that the server says was not
// applied.
const attempts = 4

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return a, err
	}
	known, take := s.seen.is(c.Name), true
	err = s.repeat(ctx, "ask for", c.Name, func(on querier) (done bool, err error) {
		if take {
			statement := s.sql.insert
			if known {
				statement = s.sql.take
			}
			last, err := tell(ctx, on, statement(&c, s.may(on, c.Name)))
			if err != nil {
				return false, err
			}
			s.seen.note(c.Name)
			if last > 0 {
				n := c.Tokens()
				a = store.Answer{
					Granted: true, Token: last - int64(n) + 1, N: n, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: last,
				}
				return true, nil
			}
		}
		r, err := s.read(ctx, on, c.Name)
		if take, known = r.rev == 0, false; err != nil || take {
			return false, err
		}
		return s.apply(ctx, on, &r, func() (change queue.Change, err error) {
			a, change, err = r.q.Ask(r.now, c.Name, &c)
			return change, err
		})
	})
	if err != nil {
		return store.Answer{}, err
	}
	return a, nil
}

// Look implements [store.Looker].
func (s *Store) Look(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return a, err
	}
	what := fmt.Sprintf("look at %q", c.Name)
	if err := s.prepare(ctx, what); err != nil {
		return a, err
	}
	r, err := s.read(ctx, s.db, c.Name)
	if err == nil {
		a, err = r.q.Look(r.now, c.Name, &c)
	}
	if err != nil {
		return store.Answer{}, s.failed(what, err)
	}
	return a, nil
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	if err := store.CheckChange(h.Name, turn, weight); err != nil {
		return a, err
	}
	err = s.repeat(ctx, "change the weight of", h.Name, func(on querier) (bool, error) {
		return s.change(ctx, on, h.Name, func(r *row) (change queue.Change, err error) {
			a, change, err = r.q.Change(r.now, &h, turn, weight)
			return change, err
		})
	})
	if err != nil {
		return store.Answer{}, err
	}
	return a, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	alone := h.Token != 0
	return s.repeat(ctx, "release", h.Name, func(on querier) (bool, error) {
		if alone {
			alone = false
			rev, err := tell(ctx, on, s.sql.free(&h, s.may(on, h.Name)))
			if rev != 0 {
				s.sweep(h.Name)
			}
			if rev != 0 || err != nil {
				return true, err
			}
		}
		return s.change(ctx, on, h.Name, func(r *row) (queue.Change, error) { return r.q.Release(r.now, &h) })
	})
}

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, abreast, func(i int) { out[i] = s.Release(ctx, holds[i]) })
	return out
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	return s.repeat(ctx, "break", b.Name, func(on querier) (bool, error) {
		return s.change(ctx, on, b.Name, func(r *row) (queue.Change, error) { return r.q.Break(r.now, &b) })
	})
}

// repeat does an operation on a name until it is done, or has an error, or was
// not applied for the fourth time. From the second time on it has its turn at
// the name: there would be no end to it else where many want one name.
func (s *Store) repeat(ctx context.Context, verb, name string, f func(on querier) (done bool, err error)) error {
	what := fmt.Sprintf("%s %q", verb, name)
	if err := s.prepare(ctx, what); err != nil {
		return err
	}
	on := querier(s.db)
	var notApplied error
	for i := range attempts {
		if i == 1 {
			turn, err := s.turn(ctx, name)
			if err != nil {
				return s.failed(what, err)
			}
			defer turn.end(ctx)
			on = turn
		}
		done, err := f(on)
		switch {
		case err == nil && done:
			return nil
		case err == nil:
			notApplied = nil
		case is(err, deadlock, lockWaitTimeout, recordChanged):
			notApplied = err
		default:
			if is(err, noSuchTable, badColumn, noDefault) {
				s.checked.Store(false) // somebody has changed it since
			}
			return s.failed(what, err)
		}
		if err := ctx.Err(); err != nil {
			return s.failed(what, err)
		}
	}
	if notApplied != nil {
		return s.failed(what, notApplied)
	}
	var autocommit int64
	if err := on.QueryRowContext(ctx, "SELECT @@autocommit").Scan(&autocommit); err == nil && autocommit != 1 {
		return s.noCommit()
	}
	return fmt.Errorf("%w: %s on %s: others wrote the row in between, %d times", store.ErrUnavailable, what, s.address, attempts)
}

// change reads the row of a name and applies f to it.
func (s *Store) change(ctx context.Context, on querier, name string, f func(*row) (queue.Change, error)) (done bool, err error) {
	r, err := s.read(ctx, on, name)
	if err != nil {
		return false, err
	}
	return s.apply(ctx, on, &r, func() (queue.Change, error) { return f(&r) })
}

// apply computes what is to become of a row, and writes it unless somebody has
// written it since it was read. A row that is not there is only asked.
func (s *Store) apply(ctx context.Context, on querier, r *row, f func() (queue.Change, error)) (done bool, err error) {
	change, told := f()
	if !change.Wrote || r.rev == 0 {
		return true, told
	}
	rest := appendRest(nil, r.q.Entries[min(1, len(r.q.Entries)):])
	if len(rest) > maxRest {
		return false, fmt.Errorf("%w: %d entries do not fit into the row", store.ErrUnavailable, len(r.q.Entries))
	}
	rev, err := tell(ctx, on, s.sql.write(r.name, r.rev, &r.q, rest, s.may(on, r.name)))
	if err != nil || rev == 0 {
		return false, err
	}
	return true, told
}

// tell runs a statement and returns what it told by LAST_INSERT_ID.
func tell(ctx context.Context, on querier, statement string) (int64, error) {
	result, err := on.ExecContext(ctx, statement)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// read reads the row of a name, or that there is none.
func (s *Store) read(ctx context.Context, on querier, name string) (r row, err error) {
	err = s.rows(ctx, on, s.sql.read(name), func(got row, err error) error {
		r = got
		return err
	})
	r.name = name
	return r, err
}

// rows reads rows and gives each to f, whose error ends it.
func (s *Store) rows(ctx context.Context, on querier, query string, f func(row, error) error) error {
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(s.scan(rows)); err != nil {
			return err
		}
	}
	return rows.Err()
}
