package filestore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// insider names the process that has the name's file locked, from /proc/locks:
// so the lock itself need not record it.
func (s *Store) insider(name string) string {
	var st unix.Stat_t
	if unix.Lstat(s.path(name), &st) == nil {
		for range 5 { // a line is missed at times while others lock and unlock
			if pid, ok := lockedBy(st.Ino); ok && pid > 0 {
				return describe(pid)
			} else if ok {
				return "a process in another container"
			}
		}
	}
	return "another process"
}

// lockedBy finds the process that has the file with that inode number locked.
// Devices are not compared: some file systems show a different one there than
// stat does.
func lockedBy(ino uint64) (pid int, ok bool) {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, false
	}
	file := fmt.Sprintf(":%d", ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
		part := strings.Fields(line)
		if len(part) == 8 && part[1] == "FLOCK" && strings.HasSuffix(part[5], file) {
			pid, err := strconv.Atoi(part[4])
			return pid, err == nil
		}
	}
	return 0, false
}

// describe is a process for people.
func describe(pid int) string {
	// 4711 (program) T …: the program may have brackets in its name.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || open < 0 || shut < open || len(stat) < shut+3 {
		return fmt.Sprintf("process %d", pid)
	}
	state := ""
	if c := stat[shut+2]; c == 'T' || c == 't' {
		state = ", which is stopped,"
	}
	return fmt.Sprintf("process %d (%s)%s", pid, stat[open+1:shut], state)
}
