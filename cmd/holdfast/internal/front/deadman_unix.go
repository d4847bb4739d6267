//go:build linux || darwin

package front

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// orphaned ends all, when the engine has died without a word.
func (f *frontend) orphaned() int {
	f.killAll()
	f.take(true)
	tell("internal error, or killed: process %d, which held the lock, is dead; all that the command had started was killed", f.engine)
	return ExitInternal
}

// expired ends all, when the engine has not moved its deadline in time.
func (f *frontend) expired() int {
	f.killAll()
	f.take(true)
	if f.board.endless.Load() {
		tell("process %d, which holds the lock, was stopped or hangs, so that nobody would notice a loss: all was killed", f.engine)
	} else {
		tell("process %d, which holds the lock, was stopped or hangs: all was killed before the lock ran out", f.engine)
	}
	return ExitLost
}

// killAll kills all that is below us, and returns when it is gone. What cannot
// be killed is waited for as long as the lock is not over.
func (f *frontend) killAll() {
	// The group first: when its parent dies the kernel lets a stopped one go on.
	if group := int(f.board.group.Load()); group != 0 {
		unix.Kill(-group, syscall.SIGKILL)
	}
	if !f.reaped {
		unix.Kill(f.engine, syscall.SIGKILL)
	}
	for since := time.Now(); !f.reap(); time.Sleep(500 * time.Microsecond) {
		for _, pid := range Children() {
			if !slices.Contains(f.spared, pid) {
				unix.Kill(pid, syscall.SIGKILL)
			}
		}
		if time.Since(since) > patienceWithTheDead && (f.board.deadline.Load() == 0 || f.board.over()) {
			tell("processes that the command has started do not end though they were killed")
			return
		}
	}
}

// patienceWithTheDead is how long a killed process may take without a word.
const patienceWithTheDead = 5 * time.Second

// reap buries our dead children, and reports whether no other is left. While
// the engine lives there are hardly any.
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
			f.spared = slices.DeleteFunc(f.spared, func(spared int) bool { return spared == pid })
		}
	}
}
