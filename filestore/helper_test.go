//go:build linux || darwin

package filestore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
)

// The tests start this test binary again as another process. Its first argument is
// the role, the second the directory, the third the name.
const roleEnv = "HOLDFAST_FILESTORE_ROLE"

var roles = map[string]func(s *Store, name string) error{
	"hold":           hold,
	"hold briefly":   holdBriefly,
	"hold and stop":  stopInside,
	"hold and fork":  holdAndFork,
	"tell the clock": func(s *Store, _ string) error { _, err := fmt.Println(s.now().Clock); return err },
	"sleep":          func(*Store, string) error { time.Sleep(3 * patience); return nil }, // it is killed before
	"change":         changeForEver,
	"change badly":   func(s *Store, name string) error { writeSlot = truncateAndWrite; return changeForEver(s, name) },
	"hand over":      handOver,
	"detach":         detach,
	"read":           read,
}

func TestMain(m *testing.M) {
	role := roles[os.Getenv(roleEnv)]
	if role == nil {
		os.Exit(m.Run())
	}
	go func() { // so that it does not outlive a failed test; a helper in a PID namespace sees no parent, and ends with its stdin
		for parent := os.Getppid(); os.Getppid() == parent || os.Getenv(roleEnv) == "sleep"; {
			time.Sleep(time.Second)
		}
		os.Exit(1)
	}()
	err := enterNamespaces()
	var s *Store
	if err == nil {
		s, err = Open(os.Args[1], trusting)
	}
	if err == nil {
		err = role(s, os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(1)
	}
	s.Close()
	os.Exit(0)
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// A helper is another process.
type helper struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// start starts a helper, which is killed at the end of the test if it still runs.
func start(t testing.TB, role, dir, name string) *helper {
	t.Helper()
	return startAs(t, helperCommand(t, role, dir, name))
}

// helperCommand is what start starts.
func helperCommand(t testing.TB, role, dir, name string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, dir, name)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// startAs starts a helper by a command that the test has changed.
func startAs(t testing.TB, cmd *exec.Cmd) *helper {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{t: t, cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	t.Cleanup(h.kill)
	return h
}

// says waits for a line from the helper.
func (h *helper) says(want string) (rest string) {
	h.t.Helper()
	defer time.AfterFunc(patience, func() { h.cmd.Process.Kill() }).Stop()
	line, err := h.out.ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), want)
	if !ok {
		h.t.Fatalf("the helper printed %q, %v, want %q", line, err, want)
	}
	return strings.TrimSpace(rest)
}

func (h *helper) signal(sig syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(sig); err != nil {
		h.t.Fatal(err)
	}
}

// kill kills the helper, if it still runs, and waits for its end.
func (h *helper) kill() {
	h.cmd.Process.Kill()
	h.cmd.Wait()
}

// end lets the helper end by itself.
func (h *helper) end() {
	h.t.Helper()
	h.stdin.Close()
	if err := h.cmd.Wait(); err != nil {
		h.t.Fatalf("helper: %v", err)
	}
}

func untilStdinEnds() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// lockOf is a claim of the whole name that does not expire during a test, waiting or
// granted.
func lockOf(p store.Process, name string) store.Claim {
	return store.Claim{Name: name, ID: p.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: time.Hour, PositionTTL: time.Hour,
		Owner: store.Owner{Host: "web-3", PID: os.Getpid(), Program: "backup.sh"}.Stored()}
}

// A waiter is a process with a Store that waits only for notifications.
type waiter struct {
	s             *Store
	p             store.Process
	notifications chan store.Notification
}

func newWaiter(s *Store) (*waiter, error) {
	w := &waiter{s: s, p: store.NewProcess(), notifications: make(chan store.Notification, 1)}
	return w, s.Watch(context.Background(), w.p, func(h store.Notification) {
		select {
		case w.notifications <- h:
		default: // there is already one
		}
	})
}

// lock waits for the claim by notifications alone. It calls waiting when it has a
// position.
func (w *waiter) lock(ctx context.Context, c store.Claim, waiting func()) (store.Hold, error) {
	for first := true; ; first = false {
		a, err := w.s.Ask(ctx, c)
		if err != nil {
			return store.Hold{}, err
		}
		if a.Granted {
			return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}, nil
		}
		if first && waiting != nil {
			waiting()
		}
		select {
		case <-w.notifications:
		case <-ctx.Done():
			return store.Hold{}, ctx.Err()
		}
	}
}

// hold takes the name, waits if needed, and holds it until stdin ends.
func hold(s *Store, name string) error { return holdWhile(s, name, untilStdinEnds) }

func holdWhile(s *Store, name string, do func() error) error {
	w, err := newWaiter(s)
	if err != nil {
		return err
	}
	h, err := w.lock(context.Background(), lockOf(w.p, name), func() { fmt.Println("waiting") })
	if err != nil {
		return err
	}
	fmt.Println("holding", h.Token)
	if err := do(); err != nil {
		return err
	}
	return s.Release(context.Background(), h)
}

// detach takes the name, detaches the hold and waits to be killed.
func detach(s *Store, name string) error {
	return holdWhile(s, name, func() error {
		c := lockOf(store.Process{}, name)
		for st, err := range s.List(context.Background(), name) {
			if err != nil {
				return err
			}
			e := st.Entries[0]
			h := store.Hold{Name: name, ID: e.ID, Token: e.Token, TTL: c.TTL, NewID: c.ID}
			if r := s.Renew(context.Background(), []store.Hold{h})[0]; r.Err != nil {
				return r.Err
			}
			fmt.Println("detached", c.ID)
		}
		return untilStdinEnds()
	})
}

// read takes the name to read, and waits to be killed.
func read(s *Store, name string) error {
	c := lockOf(store.NewProcess(), name)
	c.Weight = 1
	a, err := s.Ask(context.Background(), c)
	if err != nil || !a.Granted {
		return fmt.Errorf("%+v, %w", a, err)
	}
	fmt.Println("reading")
	return untilStdinEnds()
}

// stopInside stops its own process inside the section of the name.
func stopInside(s *Store, name string) error {
	inside = func() {
		inside = nil
		went := make(chan os.Signal, 1)
		signal.Notify(went, syscall.SIGCONT)
		fmt.Println("inside")
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-went // the other threads may be stopped first
	}
	return hold(s, name)
}

// holdAndFork holds the name and has two children: one started as usual, and one
// that inherits the presence of the process.
func holdAndFork(s *Store, name string) error {
	return holdWhile(s, name, func() error {
		var p store.Process
		s.mu.Lock()
		for p = range s.procs {
		}
		s.mu.Unlock()
		alive, err := s.Presence(p)
		if err != nil {
			return err
		}
		for _, extra := range [][]*os.File{nil, {alive}} {
			child := exec.Command(os.Args[0], os.Args[1:]...)
			child.Env = append(os.Environ(), roleEnv+"=sleep")
			child.ExtraFiles = extra
			if err := child.Start(); err != nil {
				return err
			}
			fmt.Println("child", child.Process.Pid)
		}
		return untilStdinEnds()
	})
}

// changeForEver takes a position and gives it up again, as fast as it can, and
// prints after each change which record it has written.
func changeForEver(s *Store, name string) error {
	p := store.NewProcess()
	for {
		c := lockOf(p, name)
		a, err := s.Ask(context.Background(), c)
		if err == nil && a.Granted {
			err = errors.New("the name was free")
		}
		if err == nil {
			err = s.Release(context.Background(), store.Hold{Name: name, ID: c.ID})
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		fl := s.files[name]
		s.mu.Unlock()
		var seen [8]byte
		binary.LittleEndian.PutUint64(seen[:], fl.seq)
		if _, err := os.Stdout.Write(seen[:]); err != nil {
			return nil // the reader has gone
		}
	}
}

// truncateAndWrite is what os.WriteFile does.
func truncateAndWrite(f *os.File, record []byte, at int64) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(record, at)
	return err
}

// set gives a variable another value until the end of the test.
func set[T any](t testing.TB, v *T, to T) {
	was := *v
	*v = to
	t.Cleanup(func() { *v = was })
}
