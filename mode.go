package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// A Mode says who else may hold the name of a lease. Package guard needs it:
// only an exclusive lease may close a resource to older tokens.
type Mode int8

const (
	// ModeWrite: there is no other holder of the name.
	ModeWrite Mode = iota + 1
	// ModeRead: others may read too.
	ModeRead
	// ModeSlots: others may have slots too.
	ModeSlots
)

// String returns "write", "read" or "slots", as the command prints it.
func (m Mode) String() string {
	switch m {
	case ModeWrite:
		return "write"
	case ModeRead:
		return "read"
	case ModeSlots:
		return "slots"
	}
	return fmt.Sprintf("mode %d", int8(m))
}

// Mode says who else may hold the name of this lease. A lease that was entered
// again (Options.Reentrant) has the mode of the lease that it entered under; a
// lease of an upgradeable hold is ModeWrite while the hold is upgraded.
func (l *Lease) Mode() Mode {
	slots, alone := l.engine().Shares()
	switch {
	case slots:
		return ModeSlots
	case alone:
		return ModeWrite
	}
	return ModeRead
}

// modeOf returns the mode and the slots of a claim with the weight under the limit.
func modeOf(weight, limit int64) (Mode, int) {
	switch {
	case limit != store.Full:
		return ModeSlots, int(weight)
	case weight == store.Full:
		return ModeWrite, 0
	}
	return ModeRead, 0
}
