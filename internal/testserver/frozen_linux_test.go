package testserver

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func TestAFrozenPostgresServerIsFrozenWithItsBackends(t *testing.T) {
	s := Postgres(t)
	s.Freeze()
	for _, pid := range append(children(s.PID), s.PID) {
		if !still(pid) {
			t.Errorf("process %d is running", pid)
		}
	}
	s.Thaw()
	responds(t, s.Addr, postgresReady)
	s.Freeze() // the clean-up also stops a frozen server
}

// diesFrozenEnv turns the test below into the test binary that dies.
const diesFrozenEnv = "HOLDFAST_TEST_DIES_FROZEN"

func TestNothingOfAFrozenServerOutlivesATestBinaryThatDies(t *testing.T) {
	if os.Getenv(diesFrozenEnv) != "" {
		s := Postgres(t)
		s.Freeze()
		for _, pid := range children(s.PID) {
			fmt.Println(pid)
		}
		os.Exit(3) // as a timeout does, with no clean-up
	}
	dir := t.TempDir()
	for d := dir; len(d) >= len(filepath.Dir(dir)); d = filepath.Dir(d) { // so that the server's user gets to it
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), diesFrozenEnv+"=1", "TMPDIR="+dir)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	pids := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); pids++ {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		(&Server{tb: t}).until("process "+lines.Text()+" has ended", func() bool { return gone(pid) })
	}
	if pids < 3 {
		t.Errorf("the server had %d children, too few to prove anything", pids)
	}
}
