//go:build !linux

package testserver

import (
	"os/exec"
	"strconv"
	"strings"
)

// children returns the pids of a process's child processes. PostgreSQL, for example, works with
// these.
func children(parent int) (pids []int) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func gone(int) bool { return true }

func still(int) bool { return true }
