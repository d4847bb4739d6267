package filestore

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/store/storetest/contain"
	"golang.org/x/sys/unix"
)

// Before a helper opens its Store, it takes the boot id, and mounts a file system
// of the size over the directory.
const (
	bootEnv = "HOLDFAST_FILESTORE_BOOT"
	diskEnv = "HOLDFAST_FILESTORE_DISK"
)

func enterNamespaces() error {
	if id := os.Getenv(bootEnv); id != "" {
		if err := contain.Enter(id); err != nil {
			return err
		}
	}
	if size := os.Getenv(diskEnv); size != "" {
		return unix.Mount("none", os.Args[1], "tmpfs", 0, "size="+size)
	}
	return nil
}

// contained makes a helper start in a container that has the boot id. It skips the
// test if that is not allowed.
func contained(t testing.TB, cmd *exec.Cmd, boot string) *exec.Cmd {
	t.Helper()
	change := func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, bootEnv+"="+boot)
		cmd.SysProcAttr = new(syscall.SysProcAttr)
		contain.Attr(cmd.SysProcAttr)
	}
	probe := helperCommand(t, "tell the clock", t.TempDir(), "name")
	change(probe)
	probe.Stderr = nil
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("no container can be made here: %v %s", err, out)
	}
	change(cmd)
	return cmd
}

// The same as TestAFullDiskEndsNoHold, on a file system that is full.
func TestAFullFileSystemEndsNoHold(t *testing.T) {
	cmd := helperCommand(t, "fill the disk", t.TempDir(), "name")
	cmd.Env = append(cmd.Env, diskEnv+"=256k,mode=700")
	h := startAs(t, contained(t, cmd, "any"))
	h.says("full")
	h.end()
}
