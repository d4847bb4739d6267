// Package holdfasttusd lets one request at a time, of all servers of a fleet, work on an upload:
//
//	composer := handler.NewStoreComposer()
//	store.UseIn(composer)
//	holdfasttusd.New(locks, "tusd/").UseIn(composer)
//
// If a request asks for an upload that another request holds, on any server, it asks that one to
// end, and continues where it ended. If the store has notifications, the holder is asked at once.
// Otherwise it is asked with its next renewal: set Options.RenewEvery, a third of the TTL unless
// set, well below tusd's AcquireLockTimeout. On a store that cannot pass requests on (see
// [holdfast.Options.AskToGiveUp]) every Lock is a [holdfast.ErrUnsupported].
//
// tusd 2.6 can end a request only while it reads the request's body. A request that is asked to end
// before that, right after it got the lock, does not notice. The other one then waits until the
// chunk is complete, or for AcquireLockTimeout. tusd's own lockers behave the same.
//
// If the lease is lost, for example after the process was suspended for longer than the TTL, tusd
// ends the request as if another had asked for the upload. A chunk on its way to the data store can
// still arrive. A data store that must refuse it can compare the token of [Locker.Lease].
//
// tusd ignores the error of Unlock. It sends an error of Lock that is not its own to the client, as
// it does with errors of data stores: the error may name a server.
package holdfasttusd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A Locker is a handler.Locker. It is safe for concurrent use.
type Locker struct {
	locks  *holdfast.Locker
	prefix string

	mu     sync.Mutex
	leases map[string]*holdfast.Lease // by upload, the newest
}

var (
	_ handler.Locker = (*Locker)(nil)
	_ handler.Lock   = (*lock)(nil)
)

// New returns a Locker. The name of an upload's lock is the prefix and the upload's ID. Clients
// send IDs, so no other lock of the store may begin with the prefix.
func New(locks *holdfast.Locker, prefix string) *Locker {
	return &Locker{
		locks:  locks.With(&holdfast.Options{AskToGiveUp: "another request for the upload"}),
		prefix: prefix,
		leases: map[string]*holdfast.Lease{},
	}
}

// UseIn makes the composer use this Locker.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns the lock of an upload, which is not held. If the ID cannot be part of a name, for
// example because it is too long, the name has its hash instead.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	name := l.prefix + id //mutant:tusd-name
	if store.CheckName(name) != nil || !utf8.ValidString(name) {
		name = fmt.Sprintf("%ssha256-%x", l.prefix, sha256.Sum256([]byte(id)))
	}
	return &lock{locker: l, id: id, name: name}, nil
}

// Lease returns the lease of an upload that is held in this process, or nil if it is not.
func (l *Locker) Lease(id string) *holdfast.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[id]
}

type lock struct {
	locker   *Locker
	id, name string

	mu       sync.Mutex
	lease    *holdfast.Lease // nil: it is not held
	unlocked chan struct{}   // closed by Unlock
}

// Lock waits for the upload, and asks others that hold it to unlock it. It calls requestUnlock,
// once, when another request asks for the upload, or its lease is lost. The error is
// handler.ErrLockTimeout if ctx ends first, and handler.ErrFileLocked if as many wait as
// Options.MaxWaiting allows, both with the error of [holdfast.Lock.Lock]. Any other error is that
// one.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	lease, err := l.locker.locks.Mutex(l.name).Lock(ctx)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", handler.ErrLockTimeout, err)
	case errors.Is(err, holdfast.ErrHeld):
		return fmt.Errorf("%w: %w", handler.ErrFileLocked, err)
	case err != nil:
		return err
	}
	unlocked := make(chan struct{})
	l.mu.Lock()
	l.lease, l.unlocked = lease, unlocked
	l.mu.Unlock()
	l.locker.mu.Lock()
	l.locker.leases[l.id] = lease
	l.locker.mu.Unlock()
	go func() {
		select {
		case <-lease.AskedToGiveUp(): //mutant:tusd-asked
			requestUnlock()
		case <-lease.Lost(): //mutant:tusd-lost
			requestUnlock()
		case <-unlocked:
		}
	}()
	return nil
}

// Unlock releases the upload. The error is [holdfast.ErrLost] if the lease was lost meanwhile, and
// [holdfast.ErrReleased] if this lock is not held.
func (l *lock) Unlock() error {
	l.mu.Lock()
	lease := l.lease
	if lease == nil {
		l.mu.Unlock()
		return fmt.Errorf("unlock %q: %w: it is not held here", l.name, holdfast.ErrReleased)
	}
	l.lease = nil
	close(l.unlocked)
	l.mu.Unlock()
	l.locker.mu.Lock()
	if l.locker.leases[l.id] == lease { // not that of a later request, if this one was lost
		delete(l.locker.leases, l.id)
	}
	l.locker.mu.Unlock()
	return lease.Release() //mutant:tusd-release
}
