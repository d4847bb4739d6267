// Package holdfastcertmagic gives any certmagic.Storage the locks of holdfast. Of all processes
// that share the storage, only one at a time obtains or renews a certificate:
//
//	storage := holdfastcertmagic.NewStorage(&certmagic.FileStorage{Path: dir}, locks)
//	certmagic.Default.Storage = storage
//
// Keys and values go to the given storage. Its own locks are not used. All processes that share the
// storage must take their locks from the same store: a process that uses the storage's own locks is
// not excluded.
//
// certmagic cannot notice a lost lease while it talks to a CA, for example after the process was
// suspended for longer than the TTL. Two processes can then obtain the same certificate. Before the
// next attempt, [Storage.RenewLockLease] takes the lock again; otherwise certmagic gets the loss as
// the error of Unlock, and logs it. If your issuer or event handler must stop at a loss, work under
// the context of [Storage.Lease].
package holdfastcertmagic

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
)

// A Storage is a certmagic.Storage that locks with holdfast, by the name that certmagic gives each
// lock. It is also certmagic's TryLocker and LockLeaseRenewer. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage
	byName *holdfast.ByName
}

// NewStorage returns a Storage that keeps its keys in storage, and locks with locks.
func NewStorage(storage certmagic.Storage, locks *holdfast.Locker) *Storage {
	return &Storage{storage, locks.ByName()}
}

// Lock waits until this process alone has the name, or ctx ends. Its errors are those of
// [holdfast.Lock.Lock].
func (s *Storage) Lock(ctx context.Context, name string) error { return s.byName.Lock(ctx, name) } //mutant:certmagic-lock

// TryLock takes the name if no one has it or waits for it, and reports whether it did.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.byName.TryLock(ctx, name)
}

// Unlock releases the name, even if ctx has ended. The error is [holdfast.ErrLost] if the lease was
// lost meanwhile, and [holdfast.ErrReleased] if this process does not hold the name.
func (s *Storage) Unlock(ctx context.Context, name string) error { return s.byName.Unlock(ctx, name) } //mutant:certmagic-unlock

// RenewLockLease returns nil if the name is held. Its lease renews itself for as long as the work
// takes, not only for the duration. certmagic calls RenewLockLease before each attempt to obtain a
// certificate. If the lease was lost since the last attempt, RenewLockLease locks the name again,
// like [Storage.Lock]: certmagic then checks whether another process has obtained the certificate
// meanwhile.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	l := s.byName.Lease(name)
	if l == nil {
		return fmt.Errorf("renew %q: %w: it is not held here", name, holdfast.ErrReleased)
	}
	if l.Valid() { //mutant:certmagic-lost-is-locked-again
		return nil
	}
	// The lost lease stays until there is another: without it the next attempt would find nothing to renew.
	if err := s.byName.Lock(ctx, name); err != nil {
		return fmt.Errorf("its lease was lost: %w", err)
	}
	s.byName.Unlock(ctx, name) // the oldest, which is lost
	return nil
}

// Lease returns the lease of a name that is locked in this process, or nil if it is not.
// certmagic's name for the lock of a certificate is "issue_cert_" and the subject, as in
// "issue_cert_example.com".
func (s *Storage) Lease(name string) *holdfast.Lease { return s.byName.Lease(name) }

// String returns how certmagic names the storage in its logs.
func (s *Storage) String() string { return fmt.Sprintf("holdfastcertmagic:%v", s.Storage) }
