package testserver

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// gone reports whether a process has ended, even if it is still a zombie.
func gone(pid int) bool { return AllThreads(pid, "Z") }

// still reports whether no thread of a stopped process runs any more.
func still(pid int) bool { return AllThreads(pid, "TZ") }

// AllThreads reports whether each thread of the process is in one of the states, as /proc names
// them: T is stopped, Z is dead. The threads take a stop signal one after the other, and the
// first thread can be dead long before the others. A process that does not exist has no
// threads. Only Linux has AllThreads.
func AllThreads(pid int, states string) bool {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	return !slices.ContainsFunc(tasks, func(task string) bool {
		state := State(task)
		return state != "" && !strings.Contains(states, state)
	})
}

// State is the state in a /proc stat file of a process or a thread: R, S, T, Z …; empty if the
// file does not exist.
func State(file string) string {
	state, _ := readStat(file)
	return state
}

// readStat returns the state and the parent's pid from a /proc stat file.
func readStat(file string) (state, parent string) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return "", "" // it has ended
	}
	// PID (NAME) STATE PPID …, where NAME may contain anything.
	if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 1 {
		return string(fields[0]), string(fields[1])
	}
	return "", ""
}

// children returns the pids of a process's child processes. PostgreSQL, for example, works with
// these.
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
