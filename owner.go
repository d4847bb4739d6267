package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// An Owner is who holds or waits, for people to read. It grants nothing. It
// never has a program's arguments, which may be secret.
type Owner = store.Owner

// ThisProcess is the owner of this process's claims unless Options.Owner says
// otherwise: change a part of it for that.
func ThisProcess() Owner { return engine.ThisProcess() }
