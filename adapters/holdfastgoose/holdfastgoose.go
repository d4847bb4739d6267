// Package holdfastgoose runs the migrations of goose in one process at a time, with any database that goose
// supports:
//
//	locker := holdfastgoose.New(locks, "migrations of orders")
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithSessionLocker(locker))
//
// goose waits for the lock, within the context of the call and Options.Wait. Then it reads which migrations
// have run, and runs the others.
//
// goose cannot notice a lost lease, for example after the process was suspended for longer than the
// TTL. It runs the remaining migrations, and Up returns [holdfast.ErrLost] at the end. A Go
// migration can check for a loss by [Locker.Lease]. To make goose stop before the next migration,
// give the provider no locker and run it under the lock: its context ends with the lease.
//
//	err := locks.Mutex("migrations of orders").Do(ctx, func(ctx context.Context) error {
//		_, err := provider.Up(ctx)
//		return err
//	})
//
// goose keeps one connection of its pool while it waits. A store on the same pool needs another.
package holdfastgoose

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast"
)

// A Locker is goose's Locker and its SessionLocker. goose.WithLocker and goose.WithSessionLocker do
// the same with it, because the lock is in no session of the database. It is safe for concurrent
// use, and several providers can share it.
type Locker struct {
	byName *holdfast.ByName
	name   string
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// New returns a Locker for the migrations of one database. name is the name of the lock: use the
// same in all processes that migrate the database, and another for each database.
func New(locks *holdfast.Locker, name string) *Locker { return &Locker{locks.ByName(), name} }

// Lock waits for the lock. Its errors are those of [holdfast.Lock.Lock]. It uses no connection of the database.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error { return l.byName.Lock(ctx, l.name) } //mutant:goose-lock

// Unlock releases the lock. The error is [holdfast.ErrLost] if the lease was lost meanwhile, and
// [holdfast.ErrReleased] if this Locker does not hold the lock.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error { return l.byName.Unlock(ctx, l.name) } //mutant:goose-unlock

// SessionLock is [Locker.Lock].
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return l.Lock(ctx, nil) }

// SessionUnlock is [Locker.Unlock].
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.Unlock(ctx, nil) }

// Lease returns the lease of the migrations that run in this process, or nil if none run.
func (l *Locker) Lease() *holdfast.Lease { return l.byName.Lease(l.name) }
