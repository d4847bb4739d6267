package contain

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bootID is what a program reads to learn which boot this is.
const bootID = "/proc/sys/kernel/random/boot_id"

// Attr has a process that is started with a be in namespaces of its own. Where
// that is not allowed, to start it fails.
func Attr(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	if os.Geteuid() != 0 {
		// Only root of a user namespace keeps the right to mount when the
		// program is started.
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
	defer os.Remove(f.Name()) // the mount keeps it
	_, err = fmt.Fprintln(f, id)
	if err := f.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	// Nothing of this may be seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &os.PathError{Op: "make private", Path: "/", Err: err}
	}
	if err := unix.Mount(f.Name(), bootID, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "mount over", Path: bootID, Err: err}
	}
	return nil
}
