package contain

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bootID is the file with the boot id.
const bootID = "/proc/sys/kernel/random/boot_id"

// Attr changes a so that a process started with it is in namespaces of its own.
// If that is not allowed, the start fails.
func Attr(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	if os.Geteuid() != 0 {
		// In a user namespace only root keeps the right to mount after exec.
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
}

// Enter gives this process, which was started with Attr, a boot id of its own.
func Enter(id string) error {
	f, err := os.CreateTemp("", "boot_id")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // the mount keeps the file
	_, err = fmt.Fprintln(f, id)
	if err := f.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	// These mounts must not be visible outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &os.PathError{Op: "make private", Path: "/", Err: err}
	}
	if err := unix.Mount(f.Name(), bootID, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "mount over", Path: bootID, Err: err}
	}
	return nil
}
