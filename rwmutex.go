package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// An RWMutex is one name that one writer or many readers may have, wherever
// they ask from. A reader that comes after a waiting writer waits behind it, so
// writers do not starve: in the process at once, and in others once the writer
// is the first of its process. Readers of a process do not wait for each other.
// See Order in the package documentation. Its write side is the [Mutex] of the
// same name. It keeps no state of its own and is safe for
// concurrent use.
type RWMutex struct{ write, read, upgradeable engine.Target }

// RWMutex returns the readers-writer lock of the name: any UTF-8 of 1 to 512
// bytes. A bad name is an ErrInvalid of the first call.
func (l *Locker) RWMutex(name string) *RWMutex {
	return &RWMutex{l.engine.Write(name), l.engine.Read(name), l.engine.Upgradeable(name)}
}

// Lock waits until the name is ours alone. See [Mutex.Lock].
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return lockFor(ctx, &m.write) }

// TryLock takes the name if nobody has it or waits for it. See [Mutex.TryLock].
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return tryFor(ctx, &m.write) }

// Do runs fn while the name is ours alone. See [Mutex.Do].
func (m *RWMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, &m.write, fn)
}

// TryDo runs fn if the name is free. See [Mutex.TryDo].
func (m *RWMutex) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	return tryDo(ctx, &m.write, fn)
}

// RLock waits until the name is ours to read, beside other readers. Their
// tokens are distinct, in no promised order among readers that overlap. See
// [Mutex.Lock].
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return lockFor(ctx, &m.read) }

// TryRLock takes the name to read if no writer has it or waits for it. See
// [Mutex.TryLock].
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return tryFor(ctx, &m.read) }

// RDo runs fn while the name is ours to read. See [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, &m.read, fn)
}

// TryRDo runs fn if the name is free to read. See [Mutex.TryDo].
func (m *RWMutex) TryRDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	return tryDo(ctx, &m.read, fn)
}
