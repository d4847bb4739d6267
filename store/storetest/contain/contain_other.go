//go:build !linux

package contain

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

// Attr does nothing: Enter will fail.
func Attr(*syscall.SysProcAttr) {}

// Enter says that there are no such containers: an error that matches
// store.ErrUnsupported.
func Enter(string) error {
	return fmt.Errorf("%w: there are no mount namespaces on %s", store.ErrUnsupported, runtime.GOOS)
}
