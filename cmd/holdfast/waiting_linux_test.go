package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// holds holds a name until the test ends, or until the returned function is
// called.
func (s *shell) holds(name string, args ...string) (release func()) {
	s.t.Helper()
	out := filepath.Join(s.t.TempDir(), "out")
	args = append(append([]string{"run", name, "--store", storeIn(s.dir)}, args...), "-c", "until [ -e "+out+" ]; do sleep 0.1; done")
	cmd := exec.Command("holdfast", args...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		if err := os.WriteFile(out, nil, 0o600); err != nil {
			s.t.Error(err)
		}
		cmd.Wait()
	}
	s.t.Cleanup(release)
	s.until(name)
	return release
}

// waits starts a process that waits for the name.
func (s *shell) waits(name string) {
	s.t.Helper()
	cmd := exec.Command("holdfast", "run", name, "--store", storeIn(s.dir), "--", "true")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
}

// queued waits until so many claims wait.
func (s *shell) queued(n int) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command("holdfast", "ls", "--json", "--store", storeIn(s.dir)).Output()
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.Count(string(out), `"state":"waiting"`) == n {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("not %d wait:\n%s", n, out)
		}
	}
}

const rows = 25

// resize gives the terminal so many columns.
func (s *shell) resize(columns int) {
	s.t.Helper()
	size := &unix.Winsize{Row: rows, Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, size); err != nil {
		s.t.Fatal(err)
	}
	s.columns = columns
}

// all is the output that the terminal has got so far.
func (s *shell) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// sinceTyped is the output since the first prompt at which something was typed.
func (s *shell) sinceTyped() string {
	all := s.all()
	return all[max(0, strings.Index(all, "READY> TERM")):]
}

// visible is what a terminal of so many columns shows after the output, without the empty
// ends of lines and of the screen.
func visible(output string, columns int) string {
	terminal := vt.NewEmulator(columns, rows)
	var answers sync.WaitGroup
	answers.Go(func() { io.Copy(io.Discard, terminal) }) // to queries of the program: it got none
	io.WriteString(terminal, output)
	shown := terminal.String()
	terminal.InputPipe().(io.Closer).Close() // Close of the emulator itself would race with the Read
	answers.Wait()
	lines := strings.Split(shown, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

var statusLine = regexp.MustCompile("\r\x1b\\[J(holdfast: waiting for [^\r]*)\r")

// statusLines are all status lines that were shown.
func (s *shell) statusLines() (lines []string) {
	for _, m := range statusLine.FindAllStringSubmatch(s.all(), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

func TestAWaiterAtATerminalSeesTheHolderAndNoTraceStays(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.resize(200)
	release := s.holds("x", "--note", "ask Anna")
	s.types("TERM=xterm holdfast run x -w 1h -- echo g''ot\n")
	s.expect("waiting for x, next in line, 59m")
	s.expect("s left: held by host ")
	s.expect(`), "ask Anna", since `)
	s.expect("next in line, 59m") // kept up to date
	release()
	s.expect("got\r\n")
	s.expect("READY> ")
	if len(s.statusLines()) < 2 {
		t.Error("the line was not kept up to date")
	}
	want := "READY> TERM=xterm holdfast run x -w 1h -- echo g''ot\ngot\nREADY>\n"
	if got := visible(s.sinceTyped(), 200); got != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
}

func TestThoseAheadAreCounted(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	release := s.holds("x")
	s.waits("x")
	s.queued(1)
	s.waits("x")
	s.queued(2)
	s.types("TERM=xterm holdfast run x -- true\n")
	s.expect("waiting for x, 2 ahead: held by")
	s.waits("x")
	s.queued(4)
	s.expect("waiting for x, 2 ahead: held by")
	s.expect("waiting for x, 2 ahead: held by")
	release()
	s.expect("READY> ")
}

func TestTheStatusLineIsErasedWhenAWaitEnds(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.resize(300)
	s.holds("x")
	s.types("TERM=xterm holdfast run x -w 15 -- true; echo c''ode $?\n")
	s.expect("waiting for x, next in line, ")
	s.expect("code 75")
	s.expect("READY> ")
	s.types("TERM=xterm holdfast run x -- true; echo c''ode $?\n")
	s.expect("waiting for x, next in line: ")
	s.types(ctrlC)
	s.expect("code 130")
	s.expect("READY> ")
	got := regexp.MustCompile("(?m)^holdfast: x: not obtained.*$").ReplaceAllString(visible(s.sinceTyped(), 300), "REFUSED")
	want := "READY> TERM=xterm holdfast run x -w 15 -- true; echo c''ode $?\nREFUSED\ncode 75\n" +
		"READY> TERM=xterm holdfast run x -- true; echo c''ode $?\n"
	if !strings.HasPrefix(got, want) || strings.Contains(got, "waiting for") {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
}

func TestTheStatusLineFitsTheTerminalAfterAResize(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.resize(60)
	release := s.holds("x", "--note", "日本語の長いメモ, and a very long remark that does not fit")
	s.types("TERM=xterm holdfast run x -- echo g''ot\n")
	shown := func(columns int) {
		t.Helper()
		fits := func(line string) bool {
			return utf8.RuneCountInString(line) < columns && strings.HasSuffix(line, "…")
		}
		// Lines from before the resize may be under way: after the first one that fits, all must.
		lines, before := []string(nil), len(s.statusLines())
		soon(t, fmt.Sprintf("a line fits into %d columns", columns), func() bool {
			lines = s.statusLines()[before:]
			first := slices.IndexFunc(lines, fits)
			lines = lines[max(0, first):]
			return first >= 0 && len(lines) > 1
		})
		for _, line := range lines {
			if !fits(line) {
				t.Errorf("in %d columns: %q", columns, line)
			}
		}
	}
	shown(60)
	s.resize(41)
	shown(41)
	s.resize(100)
	shown(100)
	s.resize(10) // too narrow for any line
	n, end := -1, time.Now().Add(patience)
	for now := len(s.statusLines()); n < now; now = len(s.statusLines()) { // some may have been under way
		if n = now; time.Now().After(end) {
			t.Fatal("lines are printed although there is no room")
		}
		time.Sleep(3 * time.Second) // one comes each second
	}
	release()
	s.expect("got")
}

func TestABackgroundJobDoesNotScribble(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.holds("x")
	release := s.holds("y")
	s.types("TERM=xterm holdfast run x -- echo g''ot &\n")
	s.queued(1)
	s.types("TERM=xterm holdfast run y -- echo g''ot\n")
	for range 4 {
		s.expect("waiting for y")
	}
	release()
	s.expect("got")
	if all := s.all(); strings.Contains(all, "waiting for x") {
		t.Error("a job in the background has written")
	}
	s.expect("READY> ")
	s.types("fg\n")
	s.expect("waiting for x")
	s.types(ctrlC)
	s.expect("READY> ")
}

func TestTheStatusLineSaysThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	url := "redis://" + server.Addr
	s := newShell(t)
	s.resize(300)
	in := filepath.Join(t.TempDir(), "in")
	holder := exec.Command("holdfast", "run", "x", "--ttl", "1h", "--store", url, "--", "sh", "-c", "touch "+in+"; exec sleep 1000")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		holder.Process.Signal(os.Interrupt)
		holder.Wait()
	})
	soon(t, "the holder has it", func() bool { _, err := os.Stat(in); return err == nil })
	s.types("TERM=xterm holdfast run x --store " + url + "/?read_timeout=1s -- true\n")
	s.expect("\x1b[Jholdfast: waiting for x")
	server.Freeze()
	s.expect("waiting for x: the store does not answer\r")
	s.expect("\r\x1b[Jholdfast: x: Redis at ") // and then that the wait was given up
	server.Thaw()
	s.expect("READY> ")
	if got := visible(s.sinceTyped(), 300); strings.Contains(got, "waiting for") {
		t.Errorf("the terminal shows\n%s", got)
	}
}

func TestATextIsCutToColumns(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"},
		{"日本", 4, "日本"}, {"日本", 3, "日…"}, {"日本語", 4, "日…"}, {"a日本", 4, "a日…"}, {"", 3, ""},
	} {
		if got := fit(c.text, c.columns); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.text, c.columns, got, c.want)
		}
	}
	for _, r := range "日本語한글😀ﷺ…" {
		if width(r) != 2 {
			t.Errorf("%q is taken for narrow", r)
		}
	}
	if fmt.Sprint(width('é'), width('я'), width('ا')) != "1 1 1" {
		t.Error("letters are taken for wide")
	}
}
