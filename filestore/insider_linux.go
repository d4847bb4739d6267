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
// so the lock itself need not tell, and costs no more.
func (s *Store) insider(name string) string {
	const unknown = "another process"
	var st unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Lstat(s.path(name), &st) != nil {
		return unknown
	}
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
		part := strings.Fields(line)
		if len(part) < 8 || part[1] != "FLOCK" || !strings.HasSuffix(part[5], fmt.Sprintf(":%d", st.Ino)) {
			continue // devices are not compared: some file systems show another one here
		}
		pid, err := strconv.Atoi(part[4])
		if err != nil || pid <= 0 {
			return "a process in another container"
		}
		return describe(pid)
	}
	return unknown
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
