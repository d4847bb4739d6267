package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A shell is an interactive bash on its own terminal.
type shell struct {
	t      *testing.T
	dir    string // its working directory
	master *os.File
	pid    int // of the shell

	columns int // as resize has set them

	mu     sync.Mutex
	output strings.Builder
	read   int // how much of the output was checked
}

func newShell(t *testing.T) *shell {
	s := newTerminal(t, "bash", "--norc", "-i")
	s.expect("READY> ")
	return s
}

// openTerminal makes a terminal: input to the master is read from the slave.
func openTerminal(t *testing.T) (master, slave *os.File) {
	ptmx, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(ptmx, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(ptmx, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(ptmx), "/dev/ptmx") // closing it ends a read
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// newTerminal starts a program as the first process on a terminal.
func newTerminal(t *testing.T, program string, args ...string) *shell {
	master, slave := openTerminal(t)
	bash := exec.Command(program, args...)
	bash.Dir = t.TempDir()
	bash.Env = append(os.Environ(), "HOLDFAST_STORE="+storeIn(bash.Dir), "PS1=READY> ", "TERM=dumb")
	bash.Stdin, bash.Stdout, bash.Stderr = slave, slave, slave
	bash.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	s := &shell{t: t, dir: bash.Dir, master: master, pid: bash.Process.Pid}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.output.Write(b[:n])
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		bash.Process.Kill()
		bash.Wait()
		master.Close()
		killMarked("HOLDFAST_STORE=" + storeIn(bash.Dir))
		<-done
		if t.Failed() {
			t.Logf("on the terminal:\n%s", s.output.String())
		}
	})
	return s
}

// types writes to the terminal, as a user does.
func (s *shell) types(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits for the text in what the terminal has shown since the last match. To
// wait for output, and not for the echo of the input, the commands here print words
// that are typed differently: o”ne.
func (s *shell) expect(text string) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		rest := s.output.String()[s.read:]
		i := strings.Index(rest, text)
		if i >= 0 {
			s.read += i + len(text)
		}
		s.mu.Unlock()
		if i >= 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the terminal does not show %q but %q", text, rest)
		}
	}
}

func storeIn(dir string) string { return "file:" + dir + "/.locks" }

// until waits until the store lists an entry in the state.
func (s *shell) until(state string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !s.shows(state); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("nothing is %s", state)
		}
	}
}

func (s *shell) shows(state string) bool {
	s.t.Helper()
	out, err := exec.Command("holdfast", "ls", "--store", storeIn(s.dir)).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Contains(string(out), state)
}

// foreground is the process group that has the terminal.
func (s *shell) foreground() (group int) {
	s.t.Helper()
	raw, err := s.master.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return group
}

// job returns the processes of the shell's only job, once they are there.
func (s *shell) job() (front, engine, command int) {
	s.t.Helper()
	childOf := func(parent int) (pid int) {
		s.t.Helper()
		soon(s.t, "the process of the job is there", func() bool {
			pids := childrenOf(parent)
			if len(pids) == 1 {
				pid = pids[0]
			}
			return len(pids) == 1
		})
		return pid
	}
	front = childOf(s.pid)
	engine = childOf(front)
	return front, engine, childOf(engine)
}

// touch makes a file in the shell's directory.
func (s *shell) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// stops stops the job in the foreground, as a user does.
func (s *shell) stops() {
	s.t.Helper()
	s.types(ctrlZ)
	s.expect("Stopped")
	s.expect("READY> ")
}

// ended checks the exit code of the last process that the shell has seen end.
func (s *shell) ended(code int) {
	s.t.Helper()
	s.types("echo c''ode $?\n")
	s.expect(fmt.Sprint("code ", code))
}

// untilOut is a command that runs until touch("out"). It runs in bash, which never
// stops between fork and exec, as dash does, where nothing sees it.
const untilOut = "bash -c 'echo run''ning; until [ -e out ]; do sleep 0.1; done; echo do''ne'"

const ctrlC, ctrlZ = "\x03", "\x1a"

func TestCtrlCReachesTheCommandAlone(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- reacts; echo c''ode $?\n")
	s.expect("running")
	s.types(ctrlC)
	s.expect("code 42")
}

func TestCtrlCEndsTheLoopAroundUs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("for i in 1 2 3; do holdfast run x -- sh -c 'echo run''ning; exec sleep 1000'; echo ne''xt; done; echo no''t\n")
	s.expect("running")
	s.types(ctrlC)
	s.expect("READY> ")
	s.ended(130)
	if out := s.output.String(); strings.Contains(out, "next") || strings.Contains(out, "not\r") {
		t.Error("the loop continued after Ctrl-C")
	}
	s.types("holdfast run x -n -- echo fr''ee\n")
	s.expect("free")
}

func TestCtrlCEndsAScriptAroundUs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("bash -c 'holdfast run x -- sh -c \"echo run\\\"\\\"ning; exec sleep 1000\"; echo wen\"\"ton'\n")
	s.expect("running")
	s.types(ctrlC)
	s.expect("READY> ")
	if strings.Contains(s.output.String(), "wenton") {
		t.Error("the script continued after Ctrl-C")
	}
}

func TestCtrlCWhileWaitingGivesUpThePosition(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- sh -c 'until [ -e out ]; do sleep 0.1; done' &\n")
	s.until("held")
	s.types("holdfast run x -v -- true; echo c''ode $?\n")
	s.until("waiting")
	s.types(ctrlC)
	s.expect("code 130")
	if s.shows("waiting") {
		t.Error("the position is still there")
	}
	s.types("touch out; wait; echo e''nd\n")
	s.expect("end")
}

func TestTheCommandReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- sh -c 'echo run''ning; read line; echo g''ot $line; stty -a >/dev/null && echo s''et'\n")
	s.expect("running")
	s.types("abc\n")
	s.expect("got abc")
	s.expect("set")
	s.types("stty -a >/dev/null && echo our''s\n") // the shell has the terminal back
	s.expect("ours")
}

func TestACommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("true | holdfast run x -- sh -c 'echo run''ning; read line </dev/tty; echo g''ot $line' | cat\n")
	s.expect("running")
	s.types("abc\n")
	s.expect("got abc")
	s.expect("READY> ")
}

func TestTheOthersOfAPipelineKeepTheTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- sh -c 'echo run''ning >&2; until [ -e out ]; do sleep 0.1; done' | sh -c 'read line </dev/tty; echo g''ot $line'\n")
	s.expect("running")
	s.types("abc\n")
	s.expect("got abc")
	s.touch("out")
	s.expect("READY> ")
	s.types("holdfast run x -- sh -c 'echo run''ning; exec sleep 1000' | cat\n")
	s.expect("running")
	s.types(ctrlC)
	s.expect("READY> ")
	s.types("echo ${PIPESTATUS[@]} c''odes\n")
	s.expect("130 130 codes")
	s.types("holdfast run x -n -- echo fr''ee\n")
	s.expect("free")
}

func TestTheTerminalIsRestoredAfterAKilledCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- sh -c 'stty -echo -icrnl; echo run''ning; kill -KILL $$'; stty -a | tr ' ' '\\n' | grep -c -x -e -echo; echo c''ode\n")
	s.expect("running")
	s.expect("0\r\n")
	s.expect("code")
}

// At a terminal the list is drawn over the last one, also after the window's size has changed.
func TestWatchRedrawsAtATerminal(t *testing.T) {
	t.Parallel()
	s := newTerminal(t, "sh", "-c", `trap : INT; TERM=xterm holdfast ls --watch; echo code $?; read stay`)
	s.resize(400) // wide enough for any host name
	s.expect("no lock is in use\x1b[K")
	holder := beginNamed(t, storeIn(s.dir), "nightly", "--note", "ask-for-Anna", "--", "sleep", "1000")
	s.expect("\x1b[H")
	s.expect("ask-for-Anna\x1b[K") // cleared to the end of the line
	s.resize(40)
	s.expect("\x1b[H")
	s.expect("…\x1b[K")
	holder.signal(holder.front(), syscall.SIGTERM)
	s.expect("\x1b[H")
	s.expect("no lock is in use\x1b[K\r\n\x1b[J") // and nothing is left below it
	if n := strings.Count(s.all(), "\x1b[2J"); n != 1 {
		t.Errorf("the screen was emptied %d times, want once: it would flicker", n)
	}
	s.types(ctrlC)
	s.expect("code 130")
}
