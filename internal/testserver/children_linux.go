package testserver

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// gone reports whether a process has ended, be it buried or not.
func gone(pid int) bool { return AllThreads(pid, "Z") }

// still reports whether nothing of a stopped process runs any more.
func still(pid int) bool { return AllThreads(pid, "TZ") }

// AllThreads reports whether each thread of the process is in one of the states, as
// /proc names them: T is stopped, Z is dead. A signal to stop is taken by one thread
// after the other, and the first can be dead long before the others are. A process
// that is not there has no threads. Only Linux has it.
func AllThreads(pid int, states string) bool {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	return !slices.ContainsFunc(tasks, func(task string) bool {
		state := State(task)
		return state != "" && !strings.Contains(states, state)
	})
}

// State is the state in a stat file of /proc, of a process or a thread: R, S, T, Z …;
// empty if it is not there.
func State(file string) string {
	state, _ := readStat(file)
	return state
}

// readStat reads the state, and the parent's pid, in a stat file of /proc.
func readStat(file string) (state, parent string) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return "", "" // it has ended
	}
	// PID (NAME) STATE PPID …, and the name may have anything in it.
	if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 1 {
		return string(fields[0]), string(fields[1])
	}
	return "", ""
}

// children returns the pids of a process's children, which a server such as
// PostgreSQL works with.
func children(parent int) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, of := readStat("/proc/" + e.Name() + "/stat"); of == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
