package front

import (
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A killTimer is a kernel timer that kills this process. The process ends on time even if it is
// stopped, or frozen in a cgroup. A version 1 cgroup is the exception: there it ends when it is
// thawed.
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

// set makes the kernel kill the process at this instant of the boot clock, in place of the one
// set before; 0: never. A nil timer does nothing.
func (t *killTimer) set(at time.Duration) {
	if t == nil { //mutant:front-killtimer-set
		return
	}
	const absolute = 1 // TIMER_ABSTIME
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// killGroupWithUs makes the kernel kill the process group when this process ends in any way,
// until release is called. The kernel refers to the group itself, not its number: a later group
// with the same number is safe.
//
// It uses a pipe that only we have. Both ends ask for SIGKILL to the group on an event (O_ASYNC),
// and the only possible event is that the other end is closed. The kernel closes one end first,
// in either order, and then the other one acts.
func killGroupWithUs(group int) (release func(), err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	release = func() {
		for _, fd := range ends { // first turn the signals off
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

// died reports whether our child is dead, and does not reap it.
func died(pid int) bool {
	var info unix.Siginfo
	err := Retry(func() error { return unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) })
	return err == nil && info.Signo != 0
}

// frozenV1 reports whether a version 1 cgroup can freeze us: a process that was killed in one may
// have died only just now.
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
