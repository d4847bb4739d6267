package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tree is a command that starts processes which ignore TERM and HUP, in its group and
// in sessions of their own. The chain is long because each link is found only when the
// one before it is dead. It has treeSize processes.
const (
	tree = `trap "" TERM HUP
		chain() { [ $1 -gt 0 ] && setsid sh -c "$(cat chain)" chain $(($1-1)) & }
		cat >chain <<'end'
			if [ $1 -gt 0 ]; then setsid sh -c "$(cat chain)" chain $(($1-1)) & else touch deep; sleep 1000 & fi
			wait
end
		chain 20
		sh -c 'sleep 1000 & wait' &
		(setsid sh -c 'sleep 1000 & wait' &)
		touch wide
		while :; do wait; done`
	treeSize = 1 + 20 + 1 + 2 + 2
)

func beginTree(t *testing.T, store string, args ...string) *underway {
	t.Helper()
	s := begin(t, store, append(args, "--", "sh", "-c", tree)...)
	soon(t, "the process tree runs", func() bool {
		return s.exists("deep") && s.exists("wide") && len(s.alive()) == treeSize+2
	})
	return s
}

func TestKillingTheFrontEndsAllAndFreesTheLock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		for _, how := range []string{"process", "group"} {
			t.Run(how, func(t *testing.T) {
				s := beginTree(t, store, "--ttl", "1h")
				pid := s.front()
				if how == "group" {
					pid = -pid
				}
				s.signal(pid, syscall.SIGKILL)
				soon(t, "no process is left", func() bool { return len(s.alive()) == 0 })
				if code := obtained(t, store, "-n"); code != 0 {
					t.Errorf("TryLock: exit code %d, want 0", code)
				}
			})
		}
	})
}

func TestKillingTheEngineEndsAllAndFreesTheLock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		ttl := "1h" // a file is free at once
		if strings.HasPrefix(store, "redis:") {
			ttl = stoppedTTL
		}
		s := beginTree(t, store, "--ttl", ttl, "-k", "0.1")
		s.signal(s.engine(), syscall.SIGKILL)
		s.exits(exitInternal)
		s.nothingLeft()
		if !strings.Contains(s.text("stderr"), "was killed") {
			t.Error("stderr does not report that the engine was killed")
		}
		if code := obtained(t, store, "-w", "1m"); code != 0 {
			t.Errorf("lock with a wait: exit code %d, want 0", code)
		}
	})
}

// On the file store a killed process frees the name at once. This must not happen
// before the other process has killed the rest.
func TestTheNextIsGrantedOnlyWhenAllIsKilled(t *testing.T) {
	t.Parallel()
	store := fileStore(t)
	s := beginTree(t, store, "--ttl", "1h")
	engine := s.engine()
	s.stop(s.front()) // so that killing takes a while
	s.kill(engine)
	if code := refusedInTime(t, store); code != exitHeld {
		t.Errorf("while all processes run, another gets exit code %d, want %d", code, exitHeld)
	}
	next := begin(t, store, "-v", "--", "sh", "-c", `grep -lsz "^`+s.mark+`$" /proc/[0-9]*/environ >found; touch looked`)
	soon(t, "the next process waits", func() bool { return strings.Contains(next.text("stderr"), "waiting") })
	s.signal(s.front(), syscall.SIGCONT)
	next.exits(0)
	s.exits(exitInternal)
	// The front itself, and the shell that looks, do not count.
	if found := strings.Fields(next.text("found")); !next.exists("looked") || len(found) > 1 {
		t.Errorf("these processes still ran: %v", found)
	}
}

// The kernel alone kills the process group of the command, and also the command if it
// has left the group.
func TestKillingBothEndsTheCommand(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"group":   {"sh", "-c", "trap '' TERM HUP; sh -c 'touch in; while :; do sleep 1; done' & while :; do wait; done"},
		"outside": {"outside", "in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killBoth(t, command)
		})
	}
}

func killBoth(t *testing.T, command []string) {
	store := fileStore(t)
	s := begin(t, store, append([]string{"--"}, command...)...)
	soon(t, "the command runs", func() bool { return s.exists("in") })
	s.inHand()
	// Neither can react to the other's end: the front is stopped until it is killed.
	// In the reverse case the kernel would continue the engine: when its parent ends,
	// its process group is an orphan.
	engine := s.engine()
	s.stop(s.front())
	s.kill(engine)
	s.signal(s.front(), syscall.SIGKILL)
	soon(t, "no process is left", func() bool { return len(s.alive()) == 0 })
	if code := obtained(t, store, "-n"); code != 0 {
		t.Errorf("TryLock: exit code %d, want 0", code)
	}
}

// The exit code is that of the command, and its whole group ends.
func TestLeftoversInTheCommandsGroupAreKilled(t *testing.T) {
	t.Parallel()
	s := begin(t, fileStore(t), "-k", "10", "--", "sh", "-c",
		"sh -c 'trap \"sleep 1; touch asked; exit\" TERM; touch in; while :; do sleep 0.1; done' & until [ -e in ]; do sleep 0.1; done; exit 3")
	s.exits(3)
	s.nothingLeft()
	if !s.exists("asked") {
		t.Error("the leftover got no TERM, or too little time after it")
	}
}

func TestADaemonIsLeftAloneAtTheEnd(t *testing.T) {
	t.Parallel()
	s := begin(t, fileStore(t), "--", "sh", "-c", `setsid sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 1000' & until [ -e pid ]; do sleep 0.1; done; exit 4`)
	s.exits(4)
	pid, err := strconv.Atoi(strings.TrimSpace(s.text("pid")))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the daemon has ended: %v", err)
	}
	if alive := s.alive(); len(alive) != 1 {
		t.Errorf("got processes %v left, want the daemon alone, %d", alive, pid)
	}
}

// A shell may have started processes before it replaced itself by holdfast.
func TestChildrenFromBeforeExecAreNotKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := fmt.Sprintf(`sleep 1000 & echo $! >before; exec holdfast run x --store file:%s -- sh -c 'touch in; exec sleep 1000'`, dir)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer killMarked("HOLDFAST_TEST=" + dir)
	soon(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "in")); return err == nil })
	text, err := os.ReadFile(filepath.Join(dir, "before"))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	for _, pid := range childrenOf(cmd.Process.Pid) {
		if pid != before {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInternal {
		t.Errorf("exit code %d, want %d", code, exitInternal)
	}
	if left := marked("HOLDFAST_TEST=" + dir); len(left) != 1 || left[0] != before {
		t.Errorf("got processes %v left, want %d", left, before)
	}
}
