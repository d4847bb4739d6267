//go:build linux || darwin

package front

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// orphaned kills everything when the engine has died without sending "ended".
func (f *frontend) orphaned() int {
	f.killAll() //mutant:front-orphan-kills-all
	f.take(true)
	tell("our process %d, which held the lock, was killed or has crashed; killed the command and its children", f.engine)
	return ExitInternal
}

// expired kills everything when the engine has not moved its deadline in time.
func (f *frontend) expired() int {
	end := time.Duration(f.board.end.Load())
	woke := clock.Boot()
	// A dead engine was killed in time: it does not end by itself while the lock lasts. See Link.Guard.
	inTime := f.board.guarded.Load() && (f.reaped || died(f.engine)) && clock.Slept()-f.slept < 100*time.Millisecond && !frozenV1() //mutant:front-all-died-in-time
	killed := f.killAll()
	f.take(true)
	late := clock.Boot() - end
	switch {
	case end == 0: //mutant:front-lock-without-end
		tell("our process %d was stopped or hung, and could not have noticed a loss of the lock; killed the command and its children", f.engine)
	case late < 0: //mutant:front-killed-in-time
		tell("our process %d was stopped or hung; killed the command and its children before the lock expired", f.engine)
	case woke < end:
		tell("our process %d was stopped or hung; killed the command, but only after the lock expired at %s: another may hold it since",
			f.engine, time.Now().Add(-late).Format(time.TimeOnly))
	default:
		tell("holdfast was stopped; the lock expired at %s, and another may hold it since; %s",
			time.Now().Add(-late).Format(time.TimeOnly), whatRan(inTime, killed))
	}
	return ExitLost
}

// whatRan says what part of the command ran while we were stopped: none of its process group if
// the kernel killed that in time. killed is how many processes were left.
func whatRan(inTime bool, killed int) string {
	switch {
	case !inTime:
		return "the command may have run until now; killed it"
	case killed > 0:
		return fmt.Sprintf("the command was killed before that, but %d outside its group ran on", killed)
	}
	return "the command was killed before that"
}

// killAll kills all our descendants but the spared, and returns when they are gone, with how many
// children it has killed. It gives up on what cannot be killed after patienceWithTheDead, but not
// before the deadline of the board.
func (f *frontend) killAll() (killed int) {
	pids := map[int]bool{}
	// The group first: the kernel continues a stopped group when its parent dies.
	if group := int(f.board.group.Load()); group != 0 && !f.buried {
		unix.Kill(-group, syscall.SIGKILL)
	}
	if !f.reaped {
		unix.Kill(f.engine, syscall.SIGKILL)
	}
	for since := time.Now(); !f.reap(); time.Sleep(500 * time.Microsecond) {
		for _, pid := range Children() {
			if !slices.Contains(f.spared, pid) {
				unix.Kill(pid, syscall.SIGKILL)
				pids[pid] = true
			}
		}
		if time.Since(since) > patienceWithTheDead && (f.board.deadline.Load() == 0 || f.board.over()) {
			tell("KILL has not ended all processes of the command yet")
			break
		}
	}
	return len(pids)
}

// patienceWithTheDead is how long a killed process may take to die before we report it.
const patienceWithTheDead = 5 * time.Second

// reap reaps our dead children, and reports whether none but the spared are left. While the
// engine lives few die.
func (f *frontend) reap() (none bool) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return len(f.spared) > 0 && !slices.ContainsFunc(Children(), func(pid int) bool { return !slices.Contains(f.spared, pid) })
		default:
			f.reaped = f.reaped || pid == f.engine
			f.buried = f.buried || pid == int(f.board.group.Load())
			f.spared = slices.DeleteFunc(f.spared, func(spared int) bool { return spared == pid })
		}
	}
}
