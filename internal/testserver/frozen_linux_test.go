package testserver

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestAFrozenPostgresServerIsFrozenWithItsBackends(t *testing.T) {
	s := Postgres(t)
	s.Freeze()
	for _, pid := range append(children(s.PID), s.PID) {
		s.until("process "+strconv.Itoa(pid)+" stands still", func() bool {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if err != nil {
				t.Fatal(err)
			}
			state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
			return state == "T" || state == "Z"
		})
	}
	s.Thaw()
	if err := postgresReady(s.Addr); err != nil {
		t.Errorf("a thawed server: %v", err)
	}
	s.Freeze() // the clean-up stops a frozen one as well
}
