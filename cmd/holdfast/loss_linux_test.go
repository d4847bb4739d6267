package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

const (
	// lastingTTL is one that a machine which stalls for fourteen seconds ends for nobody,
	// and longerThanTTL longer.
	lastingTTL, longerThanTTL = "24", "25"
	// politeTTL leaves such a machine time to end a command by TERM before it is
	// killed: a third of the TTL.
	politeTTL = "48"
)

// A cable is a connection to a server that can be cut: then nothing passes, and neither
// side gets an error.
type cable struct {
	addr string
	mu   sync.Mutex
	cut  bool
}

func newCable(t *testing.T, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &cable{addr: l.Addr().String()}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				return
			}
			t.Cleanup(func() { near.Close(); far.Close() })
			go c.carry(near, far)
			go c.carry(far, near)
		}
	}()
	return c
}

func (c *cable) carry(from, to net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		c.mu.Lock()
		cut := c.cut
		c.mu.Unlock()
		switch {
		case err != nil && cut: // the other side is not informed
			return
		case err != nil:
			to.Close()
			return
		case !cut:
			to.Write(b[:n])
		}
	}
}

func (c *cable) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}

// beats are the first and the last instant at which its `beat` was alive.
func (s *underway) beats() (first, last int64) {
	s.t.Helper()
	if _, err := fmt.Sscanf(s.text("beat"), "%d %d\n", &first, &last); err != nil {
		s.t.Fatalf("beat wrote %q: %v", s.text("beat"), err)
	}
	return first, last
}

// beating reports whether a `beat` of s still runs.
func (s *underway) beating() bool {
	return slices.ContainsFunc(s.alive(), func(pid int) bool {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return strings.HasPrefix(string(line), "beat\x00")
	})
}

// before checks that the command of s had ended when that of next began.
func (s *underway) before(next *underway) {
	s.t.Helper()
	soon(s.t, "the next command runs", func() bool { return strings.HasSuffix(next.text("beat"), "\n") })
	in, _ := next.beats()
	var gone int64
	soon(s.t, "the first command is dead, or beats on", func() bool { // one that is not run for a while is not dead
		dead := !s.beating()
		_, gone = s.beats()
		return dead || gone >= in
	})
	if in <= gone {
		s.t.Errorf("another command ran %v before the first had ended", time.Duration(gone-in))
	}
	s.t.Logf("another command ran %v after the first had ended", time.Duration(in-gone))
}

func beginBeat(t *testing.T, store string, args ...string) *underway {
	t.Helper()
	s := begin(t, store, append(args, "--", "beat", "beat")...)
	soon(t, "the command runs", func() bool { return strings.HasSuffix(s.text("beat"), "\n") })
	return s
}

// If the connection to the store is cut, the command gets TERM, then KILL, the exit
// code is 76, and a process with another connection gets the lock after that.
func TestACutLinkEndsTheCommandBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	cable := newCable(t, server.Addr)
	s := begin(t, "redis://"+cable.addr+"?max_retries=-1", "--ttl", politeTTL, "--",
		"sh", "-c", "trap 'touch termed' TERM; beat beat & while :; do wait; done")
	soon(t, "the command runs", func() bool { return strings.HasSuffix(s.text("beat"), "\n") })
	cable.sever()
	n := begin(t, "redis://"+server.Addr, "-w", "1m", "--", "beat", "beat")
	s.exits(exitLost)
	s.nothingLeft()
	s.before(n)
	if !s.exists("termed") {
		t.Error("the command did not get TERM first")
	}
}

// If the engine is stopped, it cannot renew: the front kills all in time.
func TestAStoppedEngineEndsTheCommandBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		s := beginBeat(t, store, "--ttl", lastingTTL)
		s.stop(s.engine())
		n := begin(t, store, "-w", "1m", "--", "beat", "beat")
		s.exits(exitLost)
		s.nothingLeft()
		s.before(n)
	})
}

// A stop of the front for longer than the TTL loses nothing, neither meanwhile nor
// when it continues.
func TestALongStopOfTheFrontLosesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		s := begin(t, store, "--ttl", lastingTTL, "-k", "0.1", "--", "sh", "-c", "touch in; until [ -e out ]; do sleep 0.1; done; exit 5")
		soon(t, "the command runs", func() bool { return s.exists("in") })
		s.stop(s.front())
		if code := obtained(t, store, "-w", longerThanTTL); code != exitHeld {
			t.Errorf("another process gets exit code %d, want %d", code, exitHeld)
		}
		s.signal(s.front(), syscall.SIGCONT)
		if code := refusedInTime(t, store); code != exitHeld { // the front checks each second
			t.Errorf("another process gets exit code %d, want %d", code, exitHeld)
		}
		if err := os.WriteFile(s.dir+"/out", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.exits(5)
	})
}

// If all processes are stopped until after the deadline, another process gets the
// lock. When ours continue, a command that is still stopped does nothing any more.
func TestACommandStoppedPastTheDeadlineNeverRunsAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		s := begin(t, store, "--ttl", lastingTTL, "-k", "0.1", "--", "sh", "-c", "trap 'touch termed' TERM; echo $$ >pid; while :; do sleep 0.1; [ -e late ] && touch ran; done")
		soon(t, "the command runs", func() bool { return strings.HasSuffix(s.text("pid"), "\n") })
		var command int
		fmt.Sscan(s.text("pid"), &command)
		engine := s.engine()
		s.inHand()
		s.stop(s.front())
		s.stop(engine)
		s.signal(-command, syscall.SIGSTOP)
		s.stop(command)
		if code := obtained(t, store, "-w", "1m"); code != 0 {
			t.Fatalf("lock by another process: exit code %d, want 0", code)
		}
		if err := os.WriteFile(s.dir+"/late", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.signal(s.front(), syscall.SIGTERM) // it comes with the CONT
		s.signal(engine, syscall.SIGCONT)
		s.signal(s.front(), syscall.SIGCONT)
		s.exits(exitLost)
		s.nothingLeft()
		if s.exists("ran") || s.exists("termed") {
			t.Error("the stopped command ran after the deadline")
		}
	})
}

// After the deadline the supervisor kills all processes below its own, whatever it is
// asked to do. Here its own process is the test binary, so no other test runs
// beside this one.
func TestAfterTheDeadlineTheCommandIsOnlyKilled(t *testing.T) {
	for what, do := range map[string]func(s *supervisor){
		"a signal":      func(s *supervisor) { s.pass(syscall.SIGCONT) },
		"TERM":          func(s *supervisor) { s.pass(syscall.SIGTERM) },
		"the loss":      func(s *supervisor) { s.end(exitLost) },
		"--at-most-for": func(s *supervisor) { s.end(exitTimeout) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "kill -STOP $$; touch ran"},
				&syscall.ProcAttr{Dir: dir, Env: os.Environ(), Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}})
			if err != nil {
				t.Fatal(err)
			}
			var status syscall.WaitStatus
			wait := func() {
				if err := front.Retry(func() error { _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); return err }); err != nil {
					t.Fatal(err)
				}
			}
			if wait(); !status.Stopped() {
				t.Fatalf("the command has not stopped: %v", status)
			}
			s := &supervisor{group: &group{pgid: pid}, ttl: 2 * time.Second, grace: time.Second}
			s.start = clock.Now().Add(-time.Minute)
			s.deadline = s.start.Add(2 * time.Second)
			do(s)
			if s.killAt != 0 && s.killAt <= clock.Now() && s.killed == 0 { // as look does
				s.group.signal(unix.SIGKILL)
			}
			if wait(); !status.Signaled() || status.Signal() != syscall.SIGKILL {
				t.Errorf("the command ended with %v, want KILL", status)
			}
			if _, err := os.Stat(dir + "/ran"); err == nil {
				t.Error("the command ran after the deadline")
			}
		})
	}
}
