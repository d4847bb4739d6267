//go:build !linux && !darwin

package prove

import (
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

func freeze(*os.Process) error   { return store.ErrUnsupported }
func thaw(*os.Process) error     { return store.ErrUnsupported }
func endAll(p *os.Process) error { return p.Kill() }

func endGroup(int) {}

func childAttr() *syscall.SysProcAttr { return nil }
