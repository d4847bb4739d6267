package front

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const receiveFlags = unix.MSG_CMSG_CLOEXEC

// makePage returns a descriptor of memory that the engine inherits.
func makePage() (fd int, err error) {
	fd, err = unix.MemfdCreate("holdfast", 0)
	return fd, os.NewSyscallError("memfd_create", err)
}

// ignoredSignals returns the signals that were ignored when we were started. signal.Ignored does
// not report those of job control.
func ignoredSignals() map[syscall.Signal]bool {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return nil
	}
	defer f.Close()
	ignored := map[syscall.Signal]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		hex, ok := strings.CutPrefix(lines.Text(), "SigIgn:")
		if !ok {
			continue
		}
		set, _ := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		for sig := syscall.Signal(1); sig <= 64; sig++ {
			if set>>(sig-1)&1 != 0 {
				ignored[sig] = true
			}
		}
	}
	return ignored
}

// stopSelf stops the process before it returns, if a shell can continue it. The signal goes to
// this thread; one to the process could go to another thread.
func stopSelf() {
	WithDefault(unix.SIGTSTP, func() { unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP) })
}

// WithDefault calls f while the signal has its default effect. To reset it is not enough: for
// signals of job control Go keeps its handler, and children inherit that they are ignored.
func WithDefault(sig syscall.Signal, f func()) {
	const setSize = 8
	var none, was [64]byte // a struct sigaction; its layout does not matter
	_, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(&was)), setSize, 0, 0)
	if err == 0 {
		defer unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&was)), 0, setSize, 0, 0)
	}
	f()
}
