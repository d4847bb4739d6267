// Package holdfastcertmagic gives any certmagic.Storage the locks of holdfast, so that one process
// at a time, of all that share the storage, obtains or renews a certificate:
//
//	storage := holdfastcertmagic.NewStorage(&certmagic.FileStorage{Path: dir}, locks)
//	certmagic.Default.Storage = storage
//
// What is stored goes to the storage that was given; its own locks are not used. All processes
// that share the storage must take their locks from the same store: one that uses the storage's
// own locks excludes none of these.
//
// certmagic cannot be told of a lost lease while it talks to a CA, as when the process was suspended
// for longer than the TTL. It learns of the loss before its next attempt, as [Storage.RenewLockLease]
// takes the lock again, and else when it unlocks, which it logs. The worst that can come of it is that two processes
// obtain the same certificate. An issuer or an event handler of yours that must not
// can ask for [Storage.Lease], and work under its context.
package holdfastcertmagic

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
)

// A Storage is a certmagic.Storage whose locks are those of holdfast, by the name that certmagic
// gives each. It is certmagic's TryLocker and LockLeaseRenewer too. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage
	byName *holdfast.ByName
}

// NewStorage returns a Storage that keeps its keys in storage, and locks with locks.
func NewStorage(storage certmagic.Storage, locks *holdfast.Locker) *Storage {
	return &Storage{storage, locks.ByName()}
}

// Lock waits until the name is ours alone, or ctx ends. Its errors are those of [holdfast.Lock.Lock].
func (s *Storage) Lock(ctx context.Context, name string) error { return s.byName.Lock(ctx, name) }

// TryLock takes the name if nobody has it or waits for it, and reports whether it did.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.byName.TryLock(ctx, name)
}

// Unlock releases the name, also if ctx has ended. The error is [holdfast.ErrLost] if the lease was lost
// meanwhile, and [holdfast.ErrReleased] if the name is not held here.
func (s *Storage) Unlock(ctx context.Context, name string) error { return s.byName.Unlock(ctx, name) }

// RenewLockLease returns nil if the name is held: its lease renews itself, for however long the work
// takes, and not only for the duration. certmagic calls it before each attempt
// to obtain a certificate. If the lease was lost since the last one, the name is locked again,
// as [Storage.Lock] does: certmagic looks next whether another process has obtained the
// certificate meanwhile.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	l := s.byName.Lease(name)
	if l == nil {
		return fmt.Errorf("renew %q: %w: it is not held here", name, holdfast.ErrReleased)
	}
	if l.Valid() {
		return nil
	}
	// The lost lease stays until there is another: without it the next attempt would find nothing to renew.
	if err := s.byName.Lock(ctx, name); err != nil {
		return fmt.Errorf("its lease was lost: %w", err)
	}
	s.byName.Unlock(ctx, name) // the oldest, which is lost
	return nil
}

// Lease returns the lease of a name that is locked in this process, or nil if it is not. certmagic's
// name for the lock of a certificate is "issue_cert_" and the subject, as in "issue_cert_example.com".
func (s *Storage) Lease(name string) *holdfast.Lease { return s.byName.Lease(name) }

// String is how certmagic names the storage in its logs.
func (s *Storage) String() string { return fmt.Sprintf("holdfastcertmagic:%v", s.Storage) }
