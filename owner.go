package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// An Owner describes a holder or waiter, for people to read. It grants nothing. It
// has a Host, a PID, a Program (the base name, never the arguments, which may be
// secret), the Note of the options, and the pid namespace as Space, on systems that
// have them. Its String is host, pid, program and note on one line.
type Owner = store.Owner

// ThisProcess is the owner of this process's claims unless [Options.Owner] says
// otherwise. To set only a part, change that part of what it returns.
func ThisProcess() Owner { return engine.ThisProcess() }
