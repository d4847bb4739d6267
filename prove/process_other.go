//go:build !linux && !darwin

package prove

import (
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

func freeze(*os.Process) error { return store.ErrUnsupported }
func thaw(*os.Process) error   { return store.ErrUnsupported }

func childAttr() *syscall.SysProcAttr { return nil }
