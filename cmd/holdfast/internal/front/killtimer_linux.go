package front

import (
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A killTimer is a timer of the kernel that kills this process. It needs nobody
// to run: the process ends on time though it is stopped, or frozen in a cgroup.
// A cgroup of version 1 is the exception: there it ends when it is thawed.
type killTimer struct{ id int32 }

func newKillTimer() (*killTimer, error) {
	event := struct { // a struct sigevent
		value          uintptr
		signal, notify int32 // notify 0 is SIGEV_SIGNAL: to the process
		_              [48]byte
	}{signal: int32(unix.SIGKILL)}
	t := &killTimer{}
	_, _, err := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&t.id)))
	if err != 0 {
		return nil, os.NewSyscallError("timer_create", err)
	}
	return t, nil
}

// set has the process killed at this instant of the boot clock, and at no
// earlier one; 0: never. A nil timer does nothing.
func (t *killTimer) set(at time.Duration) {
	if t == nil { //mutant:front-killtimer-set
		return
	}
	const absolute = 1 // TIMER_ABSTIME
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// killGroupWithUs has the kernel kill the process group when this process ends, in
// whatever way, until the function that it returns is called. The group is a
// reference to it, not its number: another group that has the number later is safe.
//
// It is done by a pipe that we alone have. Both its ends ask for SIGKILL to the
// group when something happens to them (O_ASYNC), and the only thing that can is
// that the other end is closed. The kernel closes them one after the other, so
// whichever goes first, the other one acts.
func killGroupWithUs(group int) (release func(), err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	release = func() {
		for _, fd := range ends { // first nobody is to be killed
			unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
		}
		for _, fd := range ends {
			unix.Close(fd)
		}
	}
	for _, fd := range ends {
		for _, set := range []struct{ command, value int }{
			{unix.F_SETSIG, int(unix.SIGKILL)},
			{unix.F_SETOWN, -group}, //mutant:front-group-killed-with-us
			{unix.F_SETFL, unix.O_NONBLOCK | unix.O_ASYNC},
		} {
			if _, err := unix.FcntlInt(uintptr(fd), set.command, set.value); err != nil {
				release()
				return nil, os.NewSyscallError("fcntl", err)
			}
		}
	}
	return release, nil
}

// died reports whether a child of ours is dead, and leaves it to be reaped.
func died(pid int) bool {
	var info unix.Siginfo
	err := Retry(func() error { return unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) })
	return err == nil && info.Signo != 0
}

// frozenV1 reports whether we are where a cgroup of version 1 can freeze us: what
// was killed in such a one may have died just now.
func frozenV1() bool {
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(cgroups)) { // ID:CONTROLLERS:PATH
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "freezer") && f[2] != "/" {
			return true
		}
	}
	return false
}
