package filestore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// insider describes the process that has the file of the name locked. It reads
// /proc/locks, so processes need not record who they are when they lock.
func (s *Store) insider(name string) string {
	var st unix.Stat_t
	if unix.Lstat(s.path(name), &st) == nil {
		for range 5 { // /proc/locks can miss a line while others lock and unlock
			if pid, ok := lockedBy(st.Ino); ok && pid > 0 {
				return describe(pid)
			} else if ok {
				return "a process in another container"
			}
		}
	}
	return "another process"
}

// lockedBy finds the process that has the file with this inode number locked. It does not
// compare devices: on some file systems /proc/locks shows another one than stat.
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

// describe returns a process in words.
func describe(pid int) string {
	// The format is "4711 (program) T …". The name of the program may contain brackets.
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
