package main

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
)

// A script holds a lock through an open descriptor. We lock one byte of the file through the
// script's open file description. The byte is far out and random, so that others with the same
// file open do not block us. A background process waits for that byte through a description of
// its own: the kernel grants it when the last process has closed the script's.

// heldEnv passes the byte's offset and the caller's pid to the background process.
const heldEnv = "HOLDFAST_HELD_BY"

// The descriptors of the background process.
const (
	watchFD = 3 + iota // the script's file, opened again
	linkFD             // to the process that the script called
)

// holdForFD makes a background process hold the lock for the descriptor, and returns when it
// does.
func (j *job) holdForFD(cmd *cobra.Command, fd int) error {
	if by, ok := os.LookupEnv(heldEnv); ok {
		os.Unsetenv(heldEnv)
		return j.holdBehind(cmd, by)
	}
	at, watch, err := markFD(fd)
	if err != nil {
		return mistake("--fd %d: %v", fd, err)
	}
	ours, theirs, err := pipePair()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	behind := exec.Command(self, os.Args[1:]...)
	behind.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%d", heldEnv, at, os.Getppid()))
	behind.Stderr, behind.ExtraFiles = os.Stderr, []*os.File{watch, theirs}
	behind.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	keepNone()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if err := behind.Start(); err != nil {
		return err
	}
	theirs.Close()
	watch.Close()
	waits := make(chan struct{})
	defer close(waits)
	got := make(chan os.Signal, 1)
	go func() {
		select {
		case sig := <-signals:
			_ = behind.Process.Signal(sig)
			got <- sig
		case <-waits:
		}
	}()
	line, err := bufio.NewReader(ours).ReadBytes('\n')
	select {
	case sig := <-got: // even if it came too late to end the wait
		return &exitError{code: codeOfSignal(sig)}
	default:
	}
	if err == nil {
		if j.json {
			_, err = os.Stdout.Write(line)
		}
		return err
	}
	// The background process has ended, and has printed why.
	ended := (*exec.ExitError)(nil)
	if err := behind.Wait(); err != nil && !errors.As(err, &ended) {
		return err
	}
	code := behind.ProcessState.ExitCode()
	if status, ok := behind.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = codeOfSignal(status.Signal())
	}
	if code == 0 { // 0 would let the script continue
		code = exitInternal
	}
	return &exitError{code: code}
}

// markFD locks a byte through the script's open file description, and opens the file again.
func markFD(fd int) (at int64, watch *os.File, err error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	own := 0 // exec closes what this process has opened itself, but did not close what it was started with
	if err == nil {
		own, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	}
	switch {
	case err != nil || own&unix.FD_CLOEXEC != 0: //mutant:hold-own-descriptor
		return 0, nil, errors.New("it is not open: write exec 9>/dev/null first, and --fd 9")
	case flags&unix.O_ACCMODE == unix.O_RDONLY:
		return 0, nil, errors.New("it is not open for writing: write exec 9>/dev/null first, and --fd 9")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFCHR {
		return 0, nil, errors.New("it is not a file: write exec 9>/dev/null first, and --fd 9")
	}
	var random [8]byte
	_, _ = rand.Read(random[:])
	at = int64(binary.LittleEndian.Uint64(random[:])>>2) + 1<<40
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, byteAt(at)); err != nil {
		return 0, nil, fmt.Errorf("it cannot be watched: %w", err)
	}
	watch, err = os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_WRONLY, 0)
	return at, watch, err
}

func byteAt(at int64) *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
}

// pipePair returns a pair of sockets: each end sees when the other is closed.
func pipePair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(pair[0]), "link"), os.NewFile(uintptr(pair[1]), "link"), nil
}

// keepNone stops the processes that we start from inheriting the caller's descriptors.
func keepNone() {
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		if n, err := strconv.Atoi(f.Name()); err == nil && n > 2 {
			unix.CloseOnExec(n) //mutant:hold-inherits-nothing
		}
	}
}

// holdBehind runs the background process.
func (j *job) holdBehind(cmd *cobra.Command, by string) error {
	c := &script{link: os.NewFile(linkFD, "link"), ended: make(chan struct{})}
	var at int64
	if n, err := fmt.Sscanf(by, "%d:%d", &at, &c.pid); n != 2 || err != nil {
		return fmt.Errorf("%s=%s is not of the process that started us", heldEnv, by)
	}
	go c.watch(at)
	return j.holdHere(cmd, c)
}

// A script is the caller of hold --fd.
type script struct {
	pid   int
	link  *os.File
	told  atomic.Bool
	ended chan struct{}
}

// watch closes ended when no process has the script's descriptor any more, or when the process
// that the script called ends before we hold the lock.
func (c *script) watch(at int64) {
	unix.CloseOnExec(watchFD)
	closed := make(chan struct{}, 2)
	go func() {
		for unix.FcntlFlock(watchFD, unix.F_OFD_SETLKW, byteAt(at)) == unix.EINTR {
		}
		closed <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, c.link) // until the other end is closed
		if !c.told.Load() {
			closed <- struct{}{}
		}
	}()
	<-closed
	close(c.ended)
}

func (c *script) gone() <-chan struct{} { return c.ended }

// owner returns the script, so that the lock is shown as held by it.
func (c *script) owner() holdfast.Owner {
	o := holdfast.ThisProcess()
	o.PID, o.Program = c.pid, programOf(c.pid)
	return o
}

// held makes the process that the script called return.
func (c *script) held(line []byte) {
	c.told.Store(true)
	_, _ = c.link.Write(line)
}

// stop sends TERM to the script and all its descendants, unless it has ended.
func (c *script) stop() {
	select {
	case <-c.ended:
		return
	default:
	}
	if c.pid <= 1 { // it died before we started, and another process has the descriptor
		return
	}
	for _, pid := range below(c.pid, []int{c.pid}) {
		_ = unix.Kill(pid, unix.SIGTERM) //mutant:hold-stops-the-script
	}
}

// below returns found and all descendants of pid.
func below(pid int, found []int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil && !slices.Contains(found, child) {
				found = below(child, append(found, child))
			}
		}
	}
	return found
}
