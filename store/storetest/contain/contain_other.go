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

// Enter returns an error that matches store.ErrUnsupported: this system has no
// such containers.
func Enter(string) error {
	return fmt.Errorf("%w: there are no mount namespaces on %s", store.ErrUnsupported, runtime.GOOS)
}
