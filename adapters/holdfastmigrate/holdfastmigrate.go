// Package holdfastmigrate runs the migrations of golang-migrate in one process at a time, with any
// of its database drivers, also those whose own lock works only within one process, such as
// SQLite's:
//
//	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
//	m, err := migrate.NewWithInstance("iofs", migrations, "sqlite",
//		holdfastmigrate.New(driver, locks, "migrations of orders", 10*time.Second))
//
// The driver's own lock is not used. All processes that migrate the database must take the lock
// from the same store: a process that uses only the driver, as the command migrate does, is not
// excluded.
//
// A running migration cannot notice a lost lease, for example after the process was suspended for
// longer than the TTL. The driver then refuses to begin another, and the error of Up matches
// [holdfast.ErrLost]. The running migration may still mark its version as clean when it ends. Until
// then the version is dirty, and golang-migrate begins nothing on a dirty database. If the lease is
// lost just before a migration begins, its version can be left dirty although it did not run.
// [Driver.Lease] shows whether the lease is held.
package holdfastmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast"
)

// A Driver is a database.Driver whose Lock and Unlock use holdfast. Everything else is that of the
// driver it was made from.
type Driver struct {
	database.Driver
	locks *holdfast.Locker
	name  string
	wait  time.Duration
	open  context.Context // until Close
	close context.CancelFunc

	mu    sync.Mutex
	taken bool            // from the beginning of Lock on
	lease *holdfast.Lease // once it is granted
}

var _ database.Driver = (*Driver)(nil)

// New returns a Driver that runs migrations with d, under the lock of that name. Use the same name
// in all processes that migrate the database, and a different one for each database. Lock waits for
// at most wait; with 0 it only tries.
//
// wait must be shorter than the LockTimeout of the migrate.Migrate, 15 seconds unless set. That
// timeout does not end a Lock: if the lock is granted later, it stays held until [Driver.Close].
func New(d database.Driver, locks *holdfast.Locker, name string, wait time.Duration) *Driver {
	open, stop := context.WithCancel(context.Background())
	return &Driver{Driver: d, locks: locks, name: name, wait: wait, open: open, close: stop}
}

// Open opens a driver by its URL, and returns it with the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	opened, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return New(opened, d.locks, d.name, d.wait), nil
}

// Lock takes the lock. The error is database.ErrLocked if this driver has it. If another process
// has had it for as long as Lock may wait, the error matches [holdfast.ErrHeld] too, and says who
// holds it. Any other error is that of [holdfast.Lock.Lock].
func (d *Driver) Lock() error {
	d.mu.Lock()
	taken := d.taken
	d.taken = true
	d.mu.Unlock()
	if taken {
		return fmt.Errorf("%w: this driver has it, or waits for it", database.ErrLocked)
	}
	lease, err := d.claim()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.open.Err() != nil { // it was closed meanwhile, and nothing would unlock it
		err = errors.Join(database.ErrLocked, d.open.Err(), lease.ReleaseUnused())
	}
	if err != nil {
		d.taken = false
		return err
	}
	d.lease = lease
	return nil
}

func (d *Driver) claim() (lease *holdfast.Lease, err error) {
	if d.wait > 0 {
		ctx, cancel := context.WithTimeout(d.open, d.wait)
		defer cancel()
		lease, err = d.locks.Mutex(d.name).Lock(ctx)
	} else {
		lease, err = d.locks.Mutex(d.name).TryLock(d.open)
	}
	if errors.Is(err, holdfast.ErrHeld) {
		err = fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	return lease, err
}

// Unlock releases the lock. The error is [holdfast.ErrLost] if the lease was lost meanwhile, and
// database.ErrNotLocked if this driver does not hold the lock.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	lease := d.lease
	if lease != nil {
		d.lease, d.taken = nil, false
	}
	d.mu.Unlock()
	if lease == nil {
		return database.ErrNotLocked
	}
	return lease.Release() //mutant:migrate-release
}

// Close ends a waiting Lock, releases the lock if it is held, and closes the driver.
func (d *Driver) Close() error {
	d.close()
	err := d.Unlock() //mutant:migrate-close
	if errors.Is(err, database.ErrNotLocked) {
		err = nil
	}
	return errors.Join(d.Driver.Close(), err)
}

// Run runs a migration, unless the lease was lost.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion saves the version. With dirty, as before a migration, it fails if the lease was lost.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if err := d.lost(); err != nil && dirty {
		return err
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop deletes everything in the database, unless the lease was lost.
func (d *Driver) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Drop()
}

// lost returns an error if this driver has the lock by a lease that was lost.
func (d *Driver) lost() error {
	if l := d.Lease(); l != nil && !l.Valid() { //mutant:migrate-lost
		return fmt.Errorf("no migration is begun: %w", context.Cause(l.Context(context.Background())))
	}
	return nil
}

// Lease returns the lease by which this driver has the lock, or nil if it does not have it.
func (d *Driver) Lease() *holdfast.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}
