package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
)

// An underway is a `holdfast run` of a test, seen from outside.
type underway struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string // its working directory
	mark   string // a setting in the environment of all processes below it
	exited chan struct{}
}

// begin starts `holdfast run x` with the arguments. Processes that it leaves behind
// are killed at the end of the test.
func begin(t *testing.T, store string, args ...string) *underway {
	t.Helper()
	return beginWith(t, store, nil, args...)
}

func beginWith(t *testing.T, store string, how func(*exec.Cmd), args ...string) *underway {
	t.Helper()
	return beginCommand(t, store, how, append([]string{"run", "x"}, args...)...)
}

// beginNamed is begin with another name.
func beginNamed(t *testing.T, store, name string, args ...string) *underway {
	t.Helper()
	return beginCommand(t, store, nil, append([]string{"run", name}, args...)...)
}

// beginCommand starts holdfast with the arguments.
func beginCommand(t *testing.T, store string, how func(*exec.Cmd), args ...string) *underway {
	t.Helper()
	s := &underway{t: t, dir: t.TempDir(), exited: make(chan struct{})}
	s.mark = "HOLDFAST_TEST=" + s.dir
	s.cmd = exec.Command("holdfast", args...)
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), s.mark, "HOLDFAST_STORE="+store)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := os.Create(filepath.Join(s.dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	s.cmd.Stderr = stderr
	if how != nil {
		how(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		killMarked(s.mark)
		<-s.exited
		if t.Failed() {
			t.Logf("stderr: %s", s.text("stderr"))
		}
	})
	return s
}

// front is the pid of the process that was started, engine that of its child.
func (s *underway) front() int { return s.cmd.Process.Pid }

func (s *underway) engine() int {
	s.t.Helper()
	pids := childrenOf(s.front())
	if len(pids) != 1 {
		s.t.Fatalf("the front has the children %v, want one", pids)
	}
	return pids[0]
}

func childrenOf(pid int) (pids []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s *underway) signal(pid int, sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.t.Fatalf("send %v to %d: %v", sig, pid, err)
	}
}

// stop stops the process, and returns when each of its threads is stopped or dead:
// until the first has received the signal, the others run on.
func (s *underway) stop(pid int) {
	s.t.Helper()
	s.signal(pid, syscall.SIGSTOP)
	soon(s.t, "the process is stopped", func() bool { return testserver.AllThreads(pid, "TZ") })
}

// kill kills the process and returns when all its threads are dead, so that its
// files are closed. Its parent may be stopped, and reap it later.
func (s *underway) kill(pid int) {
	s.t.Helper()
	s.signal(pid, syscall.SIGKILL)
	soon(s.t, "the process is dead", func() bool { return testserver.AllThreads(pid, "Z") })
}

// inHand waits until the engine has finished the start of the command: then the
// kernel and the front know it. The command runs before that. The last step is that the
// engine closes the files that it read and wrote, which were not open for both.
func (s *underway) inHand() {
	s.t.Helper()
	soon(s.t, "the engine has started the command", func() bool {
		info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/1", s.engine()))
		_, flags, _ := strings.Cut(string(info), "flags:\t")
		flags, _, _ = strings.Cut(flags, "\n")
		n, err := strconv.ParseInt(flags, 8, 64)
		return err == nil && n&syscall.O_ACCMODE == syscall.O_RDWR
	})
}

// over reports whether the front has exited.
func (s *underway) over() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// code waits for the exit code of the front.
func (s *underway) code() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatal("the process does not exit")
	}
	return s.cmd.ProcessState.ExitCode()
}

// exits checks the exit code.
func (s *underway) exits(want int) {
	s.t.Helper()
	if got := s.code(); got != want {
		s.t.Errorf("exit code %d, want %d", got, want)
	}
}

// text is the content of the file in its directory; empty if there is none.
func (s *underway) text(name string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *underway) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// alive are its processes that still run.
func (s *underway) alive() []int { return marked(s.mark) }

// nothingLeft checks that neither the command nor a descendant runs any more.
func (s *underway) nothingLeft() {
	s.t.Helper()
	for _, pid := range s.alive() {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		s.t.Errorf("process %d is left: %q", pid, line)
	}
}

// soon waits for what must happen.
var soon = testwait.Until

// runState is the state of the process as /proc has it: R, S, T, Z …
func runState(pid int) string { return testserver.State("/proc/" + strconv.Itoa(pid) + "/stat") }

// marked are the live processes that have the setting in their environment.
func marked(setting string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), setting) {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// killMarked kills the processes that a test has left behind.
func killMarked(setting string) {
	for _, pid := range marked(setting) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// stores are a new store of each kind.
var stores = map[string]func(t *testing.T) (url string){
	"file":  fileStore,
	"redis": func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr },
}

func fileStore(t *testing.T) string { return "file:" + t.TempDir() }

// onEach runs the test on each kind of store.
func onEach(t *testing.T, test func(t *testing.T, store string)) {
	for kind, store := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, store(t))
		})
	}
}

// refusedInTime is the exit code of a process that waits.
func refusedInTime(t *testing.T, store string) (code int) {
	t.Helper()
	return withSeconds(func(seconds string) int { return obtained(t, store, "-w", seconds) })
}

// obtained is the exit code of a process that tries to take the lock.
func obtained(t *testing.T, store string, args ...string) int {
	t.Helper()
	return begin(t, store, append(args, "--", "true")...).code()
}
