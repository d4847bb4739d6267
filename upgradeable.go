package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// An UpgradeableLease is the lease of an upgradeable read lock: it reads together
// with other readers, and can become the only holder with no other writer in between.
// There is at most one at a time, and no writer while it is held. All methods are
// safe for concurrent use.
type UpgradeableLease struct{ *Lease }

// An UpgradeableLock is one name for a reader that can become its writer. It is
// waited for or tried as a [Lock] is, and gives an [UpgradeableLease]. It keeps no state
// of its own and is safe for concurrent use.
type UpgradeableLock struct{ claimed engine.Target }

// Lock waits until the caller may read. Other readers may come and go, but only the
// caller can write next, by [UpgradeableLease.Upgrade]. Others that want to upgrade
// or to write wait. See [Lock.Lock].
func (m *UpgradeableLock) Lock(ctx context.Context) (*UpgradeableLease, error) {
	return upgradeable(lockFor(ctx, &m.claimed))
}

// TryLock takes the name to read and to upgrade if no other holder can upgrade or
// write, and no one waits. See [Lock.TryLock].
func (m *UpgradeableLock) TryLock(ctx context.Context) (*UpgradeableLease, error) {
	return upgradeable(tryFor(ctx, &m.claimed))
}

// Do waits for the name, as Lock does, and runs fn under the lease.
// See [Lock.Do].
func (m *UpgradeableLock) Do(ctx context.Context, fn func(context.Context, *UpgradeableLease) error) error {
	return do(ctx, &m.claimed, withUpgradeable(fn))
}

// TryDo runs fn under the lease, if the name is free to read and to upgrade. It
// does not wait: if it is refused it returns false and no error. See [Lock.TryDo].
func (m *UpgradeableLock) TryDo(ctx context.Context, fn func(context.Context, *UpgradeableLease) error) (ran bool, err error) {
	return tryDo(ctx, &m.claimed, withUpgradeable(fn))
}

// withUpgradeable passes fn the lease that its context comes from.
func withUpgradeable(fn func(context.Context, *UpgradeableLease) error) func(context.Context) error {
	return func(ctx context.Context) error { return fn(ctx, &UpgradeableLease{LeaseFrom(ctx)}) }
}

func upgradeable(l *Lease, err error) (*UpgradeableLease, error) {
	if err != nil {
		return nil, err
	}
	return &UpgradeableLease{l}, nil
}

// Upgrade waits until all other readers have left, and makes the lease the only one of the name: from then on
// it is a write lock. It goes before all waiters, and while it waits no other claim is granted. The
// [Lease.Token] becomes a larger one, so that a resource can refuse late writes of earlier writers. The lease
// stays the same otherwise: its contexts, its id, its deadline, which an upgrade does not move.
//
// While it waits it asks the readers that block it to give up, if the Locker of the lease has
// [Options.AskToGiveUp]: until it is granted or the wait ends. There is an [EventWaiting] when it begins to
// wait, and when those that block it change. Its calls have the values of the context of the claim, not of ctx.
//
// ctx bounds the waiting, as does Options.Wait. If it fails the lease is what it was, to read and to upgrade,
// and the readers that waited are granted. Errors: one that matches the context's error, and ErrHeld (as a
// *HeldError) if the store had answered that others hold the name; ErrInvalid if it is upgraded already;
// ErrLost or ErrReleased if the lease has ended, then or before; ErrDeadlock if ctx comes from another lease
// that reads the name; ErrUnavailable (within a second if the store's port is closed, unless it waits already),
// ErrDenied, ErrCorrupt and ErrClosed. Like [Lease.Release] it waits for a renewal that is under way.
func (l *UpgradeableLease) Upgrade(ctx context.Context) error { return l.engine().Upgrade(ctx, false) }

// TryUpgrade upgrades if no other reader holds the name. It does not wait, and asks no one to give up. If
// another reader holds the name, the error is a *[HeldError], which says who, and the lease is what it was. The
// other errors are those of [UpgradeableLease.Upgrade].
func (l *UpgradeableLease) TryUpgrade(ctx context.Context) error {
	return l.engine().Upgrade(ctx, true)
}

// Downgrade makes an upgraded lease one that reads, and can be upgraded again,
// and lets other readers in, with no moment between in which another could
// write. From its first moment this lease may only read. The Token stays.
//
// Like Release it takes no context and is bounded, by a third of the TTL and
// five seconds at most: then the error is ErrUnavailable, other readers may have
// to wait still, and the engine asks again until it is answered. Errors:
// ErrInvalid if it is not upgraded, ErrLost or ErrReleased if it has ended, and
// ErrClosed. While another lease of the same hold (Options.Reentrant) is
// upgraded, or locks it, nothing is sent.
func (l *UpgradeableLease) Downgrade() error { return l.engine().Downgrade() }
