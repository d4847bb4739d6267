package front

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Children returns the pids of our children, dead ones that are not reaped
// among them. While some end at this moment others may be missing.
func Children() []int {
	// Most often there are none, and this is the cheapest way to know.
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil); err == unix.ECHILD {
		return nil
	}
	pids, ok := childrenOf("self")
	if !ok {
		return childrenByStat()
	}
	return pids //mutant:front-children-found
}

// childrenOf returns the children of a process; not ok: this kernel lists none.
func childrenOf(process string) (pids []int, ok bool) {
	dir := "/proc/" + process + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, true // no /proc: then the group is all that can be found
	}
	for _, thread := range threads { // the parent of an orphan is any one of them
		list, err := os.ReadFile(dir + thread.Name() + "/children")
		if os.IsNotExist(err) {
			if _, err := os.Stat(dir + thread.Name()); err == nil {
				return nil, false
			}
		}
		for _, pid := range bytes.Fields(list) {
			if n, err := strconv.Atoi(string(pid)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids, true
}

// childrenByStat asks every process for its parent.
func childrenByStat() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// PID (NAME) STATE PPID …, and the name may have anything in it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}
