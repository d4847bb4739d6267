package front

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const receiveFlags = 0

// makePage returns a descriptor of memory that the engine inherits: of a deleted file.
func makePage() (fd int, err error) {
	f, err := os.CreateTemp("", "holdfast")
	if err != nil {
		return -1, err
	}
	defer f.Close()
	os.Remove(f.Name())
	fd, err = unix.Dup(int(f.Fd()))
	return fd, os.NewSyscallError("dup", err)
}

func ignoredSignals() map[syscall.Signal]bool {
	ignored := map[syscall.Signal]bool{}
	for _, sig := range passedOn {
		if signal.Ignored(sig) {
			ignored[sig.(syscall.Signal)] = true
		}
	}
	return ignored
}

func stopSelf() { unix.Kill(unix.Getpid(), unix.SIGSTOP) }

func WithDefault(_ syscall.Signal, f func()) { f() }
