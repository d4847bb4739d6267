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
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A halt stops only our two processes, and returns a function that continues
// them.
type halt func(s *underway) (resume func())

// stopBoth is what `pkill -STOP holdfast` does.
func stopBoth(s *underway) func() {
	s.t.Helper()
	s.inHand()
	front, engine := s.front(), s.engine()
	s.stop(front)
	s.stop(engine)
	return func() {
		unix.Kill(engine, syscall.SIGCONT) // if it still runs
		s.signal(front, syscall.SIGCONT)
	}
}

// freezeBoth freezes both in a cgroup of their own.
func freezeBoth(s *underway) func() {
	s.t.Helper()
	return freeze(s, newCgroup(s.t, 2))
}

// freezeBothV1 uses the freezer of version 1, in which a frozen process cannot even
// be killed.
func freezeBothV1(s *underway) func() {
	s.t.Helper()
	return freeze(s, newCgroup(s.t, 1))
}

// stopBothInV1 stops both where they could have been frozen as well.
func stopBothInV1(s *underway) func() {
	s.t.Helper()
	into(s, newCgroup(s.t, 1))
	return stopBoth(s)
}

func freeze(s *underway, g *testserver.Cgroup) func() {
	s.t.Helper()
	into(s, g)
	if err := g.Freeze(); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := g.Thaw(); err != nil {
			s.t.Error(err)
		}
	}
}

// into puts both our processes into the cgroup.
func into(s *underway, g *testserver.Cgroup) {
	s.t.Helper()
	s.inHand()
	for _, pid := range []int{s.front(), s.engine()} {
		if err := g.Take(pid); err != nil {
			s.t.Fatal(err)
		}
	}
}

// newCgroup makes a cgroup, which is thawed and removed at the end of the test: what is killed then goes only if it is thawed.
func newCgroup(t *testing.T, version int) *testserver.Cgroup {
	t.Helper()
	g, err := testserver.NewCgroup(version)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		soon(t, "the cgroup is empty", func() bool { return g.Thaw() == nil && g.Remove() == nil })
	})
	return g
}

// stoppedTTL leaves the kernel half a second: on a starved machine a process takes a
// while to die, and the engine has to before the command is killed. With -k 0.1 a
// lease that is renewed outlives a machine that stands still for fifteen seconds.
const stoppedTTL = "24"

var halts = map[string]halt{"stopped": stopBoth, "frozen": freezeBoth}

// If both our processes are stopped, or frozen, and the command is not, then only
// the kernel can end it, and must do so in time. It ends the whole process group of
// the command.
func TestBothStoppedEndTheCommandBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"command":    {"beat", "beat"},
		"grandchild": {"sh", "-c", "trap '' TERM HUP; sh -c 'beat beat & wait' & while :; do wait; done"},
	} {
		for how, halt := range halts {
			t.Run(how+"_"+name, func(t *testing.T) {
				t.Parallel()
				onEach(t, func(t *testing.T, store string) {
					s := begin(t, store, append([]string{"--ttl", stoppedTTL, "--"}, command...)...)
					soon(t, "the command runs", func() bool { return strings.HasSuffix(s.text("beat"), "\n") })
					resume := halt(s)
					n := begin(t, store, "-w", "1m", "--", "beat", "beat")
					n.beatsOn()
					s.before(n)
					resume()
					s.exits(exitLost)
					s.nothingLeft()
					if said := s.text("stderr"); !strings.Contains(said, "another may hold it since") || !strings.Contains(said, "before that") {
						t.Errorf("got stderr %q, want that another may hold the lock", said)
					}
				})
			})
		}
	}
}

// beatsOn waits until its `beat` has beaten for a while.
func (s *underway) beatsOn() {
	s.t.Helper()
	soon(s.t, "the command beats again", func() bool {
		if !strings.HasSuffix(s.text("beat"), "\n") {
			return false
		}
		first, last := s.beats()
		return last-first > int64(100*time.Millisecond)
	})
}

// guarded are the process groups that the kernel kills if the engine ends.
func (s *underway) guarded() (groups int) {
	s.t.Helper()
	infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", s.engine()))
	for _, info := range infos {
		text, _ := os.ReadFile(info) // it may have been closed by now
		_, flags, _ := strings.Cut(string(text), "flags:\t")
		flags, _, _ = strings.Cut(flags, "\n")
		if n, err := strconv.ParseInt(flags, 8, 64); err == nil && n&unix.O_ASYNC != 0 {
			groups++ // each has two ends of a pipe
		}
	}
	return groups / 2
}

// The kernel also ends other groups and sessions of the command's descendants, once
// they have existed for a while.
func TestBothStoppedEndOtherGroupsToo(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"session": "setsid beat beat & touch in; while :; do wait; done",
		"group":   "timeout 1h beat beat & touch in; while :; do wait; done",
		"orphan":  "(setsid sh -c 'beat beat & wait' &) ; touch in; while :; do sleep 1; done",
	} {
		for how, halt := range halts {
			t.Run(how+"_"+name, func(t *testing.T) {
				t.Parallel()
				store := fileStore(t)
				s := begin(t, store, "--ttl", stoppedTTL, "-k", "0.1", "--", "sh", "-c", line)
				soon(t, "the command runs", func() bool { return s.exists("in") && strings.HasSuffix(s.text("beat"), "\n") })
				soon(t, "the other group is found", func() bool { return s.guarded() >= 2 })
				resume := halt(s)
				n := begin(t, store, "-w", "1m", "--", "beat", "beat")
				n.beatsOn()
				s.before(n)
				resume()
				s.exits(exitLost)
				s.nothingLeft()
			})
		}
	}
}

// A daemon that has run for long is not killed at a normal end.
func TestADaemonIsLeftAloneAfterLong(t *testing.T) {
	t.Parallel()
	s := begin(t, fileStore(t), "--ttl", lastingTTL, "--", "sh", "-c", "setsid beat beat & until [ -e out ]; do sleep 0.1; done; exit 4")
	soon(t, "the daemon is found", func() bool { return strings.HasSuffix(s.text("beat"), "\n") && s.guarded() >= 2 })
	s.touch("out")
	s.exits(4)
	_, before := s.beats()
	soon(t, "the daemon beats on", func() bool { _, last := s.beats(); return last > before })
}

// The kernel cannot reach a process that leaves its process group after ours were
// stopped. It is killed when ours continue, and the message does not claim that this
// was in time.
func TestBothStoppedSayWhatRanOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		halt halt
		line string
		says string
	}{
		"what_has_left_the_group": {stopBoth, "touch in; until [ -e out ]; do sleep 0.1; done; setsid beat beat & while :; do wait; done", "but 1 outside its group ran on"},
		"frozen_by_version_1":     {freezeBothV1, "beat beat & touch in; while :; do wait; done", "the command may have run until now"},
		"stopped_in_version_1":    {stopBothInV1, "beat beat & touch in; while :; do wait; done", "the command may have run until now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := fileStore(t)
			s := begin(t, store, "--ttl", stoppedTTL, "--", "sh", "-c", c.line)
			soon(t, "the command runs", func() bool { return s.exists("in") })
			resume := c.halt(s)
			s.touch("out")
			n := begin(t, store, "-w", "1m", "--", "beat", "beat")
			n.beatsOn()
			resume()
			s.exits(exitLost)
			s.nothingLeft()
			if said := s.text("stderr"); !strings.Contains(said, "another may hold it since") || !strings.Contains(said, c.says) {
				t.Errorf("got stderr %q, want %q in it", said, c.says)
			}
		})
	}
}

// Without its front, only the kernel ends a stopped engine.
func TestAStoppedEngineWithoutAFrontEndsTheCommandInTime(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		s := begin(t, store, "--ttl", stoppedTTL, "--", "sh", "-c", "beat beat & while :; do wait; done")
		soon(t, "the command runs", func() bool { return strings.HasSuffix(s.text("beat"), "\n") })
		s.inHand()
		// With one in the engine's group whose parent is in another the group is no
		// orphan, or the kernel would continue the engine when the front ends.
		engine := s.engine()
		beside := exec.Command("sleep", "1000")
		beside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: engine}
		if err := beside.Start(); err != nil {
			t.Fatal(err)
		}
		defer beside.Wait()
		defer beside.Process.Kill()
		s.stop(engine)
		s.signal(s.front(), syscall.SIGKILL)
		n := begin(t, store, "-w", "1m", "--", "beat", "beat")
		n.beatsOn()
		s.before(n)
		s.nothingLeft()
	})
}
