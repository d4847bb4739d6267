package front

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Children returns the pids of our children, including dead ones that are not reaped. It may miss
// some while others are ending.
func Children() []int {
	// Usually there are none, and this is the cheapest way to find out.
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil); err == unix.ECHILD {
		return nil
	}
	pids, ok := childrenOf("self")
	if !ok {
		return childrenByStat()
	}
	return pids //mutant:front-children-found
}

// childrenOf returns the children of a process; ok is false if this kernel lists none.
func childrenOf(process string) (pids []int, ok bool) {
	dir := "/proc/" + process + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, true // no /proc: only the group can be found
	}
	for _, thread := range threads { // the parent of an orphan can be any of them
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

// childrenByStat reads the parent of every process.
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
