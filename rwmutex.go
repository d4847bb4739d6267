package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/engine"
)

// An RWMutex is one name that one writer or many readers may have, in any
// processes. A reader that comes after a waiting writer waits behind it, so
// writers do not starve: in the process at once, and in others once the writer is
// the first of its process. Readers of a process do not wait for each other. See
// Order in the package documentation. Its write side is the [Locker.Mutex] of the
// same name. It keeps no state of its own and is safe for concurrent use.
type RWMutex struct {
	l    *engine.Locker
	name string
}

// RWMutex returns the readers-writer lock of the name: any UTF-8 of 1 to 512
// bytes. A bad name is an ErrInvalid of the first call.
func (l *Locker) RWMutex(name string) *RWMutex { return &RWMutex{l.engine, name} }

// Write returns the lock of a writer, which is the only holder.
func (m *RWMutex) Write() *Lock { return &Lock{m.l.Write(m.name)} }

// Read returns the lock of a reader, which holds together with other readers. Their tokens are
// distinct, in no promised order among readers that overlap.
func (m *RWMutex) Read() *Lock { return &Lock{m.l.Read(m.name)} }

// Upgradeable returns the lock of a reader, which holds together with other
// readers and can become the writer: it is the only one that can write next. On
// a store without upgrades (redlock, pgadvisory) the first call is
// ErrUnsupported.
func (m *RWMutex) Upgradeable() *UpgradeableLock { return &UpgradeableLock{m.l.Upgradeable(m.name)} }
