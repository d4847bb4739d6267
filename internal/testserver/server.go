// Package testserver starts the real servers that the tests of the stores need. Each has a
// loopback port and a directory of its own, and is stopped by its pid when the test ends. No
// server of another test gets its port, even while this one is stopped. A server that is not
// installed is a failure that says what to do ("make servers"), never a skip.
package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait in this package. It is long because a loaded machine is not a
// failure.
const patience = 2 * time.Minute

// A Server is a running server. Its methods end the test that started it if they fail. They are
// not safe for concurrent use.
type Server struct {
	Addr string // host:port, the same after a Restart
	PID  int    // of the running process; changes with a Restart

	Monitor string // host:port of its HTTP monitoring, for NATS only

	tb      fataler
	program string // of a Redis or Valkey server, to start others of the same program
	command func() *exec.Cmd
	user    *account  // that it runs as; nil: our own user
	stop    os.Signal // ends it without waiting for its clients; nil: terminate
	ready   func(addr string) error
	dir     string
	hasten  string // the command that makes a calm Redis or Sentinel notice soon that a server has ended
	clock   string // the file from which it reads its clock; empty: the real clock

	minder *minder // while it is frozen and has children
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended and was waited for
}

// fataler is the part of testing.TB that a Server needs. A server shared by the whole test
// binary has no test, and panics.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

type panicker struct{}

func (panicker) Helper()                           {}
func (panicker) Cleanup(func())                    {} // what it has ends with the process
func (panicker) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// starts receives the commands to be started from one thread, which lives until the tests have
// ended: a server dies with the thread that started it.
var starts = sync.OnceValue(func() chan func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range c {
			start()
		}
	}()
	return c
})

func begin(cmd *exec.Cmd) error {
	result := make(chan error)
	starts() <- func() { result <- cmd.Start() }
	return <-result
}

// start runs the command and waits until ready returns nil. If the server never listens, the
// error says why, from the server's log.
func (s *Server) start() error {
	s.cmd = s.command()
	s.cmd.Dir = s.dir
	s.cmd.SysProcAttr = dieWithParent()
	s.user.lend(s.cmd)
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := begin(s.cmd); err != nil {
		return err
	}
	s.PID = s.cmd.Process.Pid
	exited := make(chan struct{})
	s.exited = exited
	go func(cmd *exec.Cmd) {
		cmd.Wait() // how it ended is in its log
		close(exited)
	}(s.cmd)

	until := time.Now().Add(patience)
	for {
		err := s.ready(s.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended at its start: %s", s.cmd.Path, s.logTail())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(until) {
			s.cmd.Process.Kill()
			<-s.exited
			return fmt.Errorf("%s did not answer on %s within %v: %w: %s", s.cmd.Path, s.Addr, patience, err, s.logTail())
		}
	}
}

// Stop asks the server to end (SIGTERM, or the signal of its kind) and waits until it has. It
// leaves a server that has ended alone.
func (s *Server) Stop() {
	s.tb.Helper()
	defer s.minder.dismiss()
	if s.ended() {
		return
	}
	s.send(resume) // a frozen server would not react
	if s.stop == nil {
		s.stop = terminate
	}
	s.cmd.Process.Signal(s.stop)
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.Kill()
	}
}

// Kill ends the server and its children at once (SIGKILL) and waits until they are gone.
func (s *Server) Kill() {
	s.tb.Helper()
	defer s.minder.dismiss()
	if s.ended() {
		return
	}
	s.send(freeze)
	all := children(s.PID)
	for _, pid := range all {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Fatalf("kill server %d: %v", s.PID, err)
	}
	<-s.exited
	for _, pid := range all { // the next server would find what they share still in use
		s.until("the child of the server has ended", func() bool { return gone(pid) })
	}
}

// Freeze stops the server and its children (SIGSTOP) with its connections open, and returns
// when all of them have stopped.
func (s *Server) Freeze() {
	s.tb.Helper()
	s.signal(freeze)
	for _, pid := range append(children(s.PID), s.PID) {
		s.until("process "+strconv.Itoa(pid)+" is stopped", func() bool { return still(pid) })
	}
	if err := s.mind(); err != nil {
		s.tb.Fatalf("freeze server %d: %v", s.PID, err)
	}
}

// Thaw resumes a frozen server (SIGCONT).
func (s *Server) Thaw() {
	s.tb.Helper()
	s.signal(resume)
	s.minder.dismiss()
}

// Restart ends the server if it runs, and starts it at the same address and in the same
// directory: what it wrote to disk is still there.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		s.tb.Fatalf("restart server on %s: %v", s.Addr, err)
	}
}

func (s *Server) ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

func (s *Server) signal(sig os.Signal) {
	s.tb.Helper()
	if s.ended() {
		return
	}
	if err := s.send(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Fatalf("send %v to server %d: %v", sig, s.PID, err)
	}
}

// send signals the server, and then its children: a frozen or killed server cannot start more
// of them.
func (s *Server) send(sig os.Signal) error {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == freeze { // until it has stopped it may be starting another child
		s.until("the server is stopped", func() bool { return still(s.PID) })
	}
	for _, pid := range children(s.PID) {
		if p, err := os.FindProcess(pid); err == nil {
			p.Signal(sig) // a child that has just ended does not matter
		}
	}
	return nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// logTail returns the end of the server's log.
func (s *Server) logTail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-2000):])
}

// find returns the path of a server's program. Programs for root are not in the PATH of a plain
// user.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	if path := "/usr/sbin/" + program; exists(path) {
		return path, nil
	}
	return "", fmt.Errorf("%s is needed by this test and is not installed: run \"make servers\" (%w)", program, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// startOnPort starts a server on a free port, which is reserved for it until the test ends. It
// tries again on another port if a foreign program took that one meanwhile.
func startOnPort(tb fataler, start func(port int) (*Server, error)) (*Server, error) {
	for try := 1; ; try++ {
		port, err := freePort(tb)
		if err != nil {
			return nil, err
		}
		s, err := start(port)
		if err == nil {
			return s, nil
		}
		if try == 5 || !strings.Contains(err.Error(), "in use") {
			return nil, err
		}
	}
}

// until waits until f is true, for a change that the server must make.
func (s *Server) until(what string, f func() bool) {
	s.tb.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.tb.Fatalf("after %v still not: %s: %s", patience, what, s.logTail())
		}
	}
}

// Main runs the tests of a package and then stops the servers that they share:
//
//	func TestMain(m *testing.M) { os.Exit(testserver.Main{M: m}.Run()) }
//
// It also fits goleak.VerifyTestMain.
type Main struct{ M *testing.M }

var shared struct {
	sync.Mutex
	running bool // under Main
	dir     string
	servers map[string]*Server
}

// Run runs the tests, stops what was shared, and returns the exit code.
func (m Main) Run() int {
	shared.Lock()
	shared.running = true
	shared.Unlock()
	templates.Lock()
	templates.on = true
	templates.Unlock()
	defer removeTemplates()
	defer stopShared()
	return m.M.Run()
}

func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	for _, s := range shared.servers {
		s.Stop()
	}
	shared.servers = nil
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	close(starts())
}

// sharing reports whether Main is running.
func sharing() bool {
	shared.Lock()
	defer shared.Unlock()
	return shared.running
}

// share returns the address of this test binary's one server of this kind, and starts it for
// the first caller. A kind that is slow to start is also shared with the test binaries that
// this one starts: those of the mutants, each of which would start its own.
func share(t fataler, kind string, start func(tb fataler, dir string) (*Server, error)) (addr string) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		t.Fatalf("a shared server needs a TestMain that calls testserver.Main, which stops it")
	}
	if s := shared.servers[kind]; s != nil {
		return s.Addr
	}
	told := "HOLDFAST_TEST_SHARED_" + strings.ToUpper(kind)
	slow := kind == "postgres" || kind == "mariadb" || kind == "mysql9" || kind == "zookeeper" || kind == "nats" || kind == "kubernetes"
	if addr := os.Getenv(told); slow && addr != "" {
		return addr
	}
	if shared.dir == "" {
		dir, err := os.MkdirTemp("", "holdfast-test-")
		if err != nil {
			t.Fatalf("%v", err)
		}
		shared.dir = dir
	}
	dir := filepath.Join(shared.dir, kind)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatalf("%v", err)
	}
	s, err := start(panicker{}, dir)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if shared.servers == nil {
		shared.servers = map[string]*Server{}
	}
	shared.servers[kind] = s
	if slow {
		os.Setenv(told, s.Addr)
	}
	return s.Addr
}
