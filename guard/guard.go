// Package guard checks fencing tokens where it matters: at the resource that a lock
// protects. A holder that was stopped for longer than its TTL does not know, when it goes
// on, that another has the name by now; its late write overwrites the other's. A resource
// that remembers the newest token it has seen, and refuses older ones, is safe even then.
//
// For an SQL database (SQLite, PostgreSQL, MySQL, MariaDB) it is one call at the
// beginning of a transaction:
//
//	tx, err := db.BeginTx(lease.Context(ctx), nil)
//	…
//	err = guard.SQLite.Check(ctx, tx, lease) // refuses a late holder
//	…
//	tx.ExecContext(ctx, "UPDATE invoice SET …")
//	tx.Commit()
//
// Package [github.com/holdfast-go/holdfast/redisstore/redisguard] does the same for Redis,
// and [github.com/holdfast-go/holdfast/pgstore/pgxguard] for pgx without database/sql. If
// the locks are in the PostgreSQL database of the transaction,
// [github.com/holdfast-go/holdfast/pgstore.Store.CheckTx] checks the lock itself, and no
// fence is needed; no other store can do that.
//
// # The rule
//
// The fence of a name is the newest token that an exclusive holder has shown at the
// resource. A token smaller than the fence is refused, with a [StaleError]. What a lease
// does depends on its mode:
//
//   - A write lease raises the fence to its token. It must do so before it reads anything
//     that its writes depend on: from then on older writes are refused, so the data read
//     does not change.
//   - A read lease is checked, and never raises: readers hold together, and
//     their tokens are in no order.
//   - Slots of a semaphore are an error. Several hold at a time, and a slot's older token
//     does not mean that its holder is late. Guard the resource of each slot with a lock
//     of its own.
//
// Tokens of different names, and of one name on different stores, are unrelated: all users
// of a resource must take the same lock.
//
// In the repository docs/guard.md has more, and says what to do for other kinds of
// resources.
package guard

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A Lease is what a guard needs to know of a lease. A [*holdfast.Lease] is one;
// if several names were taken together, use [holdfast.LeaseSet.Lease] of the
// name. A program that was passed a token, such as one that `holdfast run`
// starts, can make its own.
type Lease interface {
	// Name is the name of the lock.
	Name() string
	// Token is the fencing token.
	Token() int64
	// Mode says who else may hold the name. A guard reads it before the token.
	Mode() holdfast.Mode
}

// A StaleError is the refusal of a token: a holder with a newer one has been at
// the resource. It matches [holdfast.ErrLost], as the lease cannot be valid any
// more.
type StaleError struct {
	Name  string // of the lock
	Where string // where the fence is kept
	Token int64  // the refused token
	Fence int64  // the newest token there
}

// Error says which token was refused, where, and which is the newest there.
func (e *StaleError) Error() string {
	return fmt.Sprintf("guard %q by %s: token %d is too old: a holder with token %d has been here since; do not write, and start over with a new lease",
		e.Name, e.Where, e.Token, e.Fence)
}

// Is makes it match holdfast.ErrLost.
func (e *StaleError) Is(target error) bool { return target == holdfast.ErrLost } //mutant:guard-stale-is-lost

// Raises reports whether a lease raises the fence, as a write lease does, or is only
// checked against it, as a read lease is. The error matches [holdfast.ErrUnsupported] for
// slots, and [holdfast.ErrInvalid] if the token is not positive (on a store without
// tokens it is 0) or the mode is not a Mode. It is for authors of a guard.
func Raises(l Lease) (bool, error) {
	if l.Token() <= 0 { //mutant:guard-token-positive
		return false, fmt.Errorf("guard %q: %w: %d is no token: tokens are positive", l.Name(), holdfast.ErrInvalid, l.Token())
	}
	switch m := l.Mode(); m {
	case holdfast.ModeWrite:
		return true, nil //mutant:guard-write-lease-raises
	case holdfast.ModeRead:
		return false, nil //mutant:guard-read-lease-raises-not
	case holdfast.ModeSlots: //mutant:guard-slots-refused
		return false, fmt.Errorf("guard %q: %w: slots of a semaphore: several hold at a time, so an older token does not mean a late holder; guard what a slot stands for by a lock of its own",
			l.Name(), holdfast.ErrUnsupported)
	default:
		return false, fmt.Errorf("guard %q: %w: no lease is of %v", l.Name(), holdfast.ErrInvalid, m)
	}
}
