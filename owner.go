package holdfast

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// An Owner is who holds or waits, for people to read. It grants nothing. It
// never has a program's arguments, which may be secret.
type Owner = store.Owner

// ThisProcess is the owner of this process's claims unless Options.Owner says
// otherwise: change a part of it for that.
func ThisProcess() Owner { return thisProcess() }

var thisProcess = sync.OnceValue(func() Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	o := Owner{Host: host, PID: os.Getpid(), Program: filepath.Base(os.Args[0])}
	// On Linux a pid means something only together with its namespace.
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		o.Space = strings.TrimSuffix(strings.TrimPrefix(ns, "pid:["), "]")
	}
	return o
})
