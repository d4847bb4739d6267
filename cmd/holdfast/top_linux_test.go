//go:build !holdfast_lean

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// newTopTerminal is the terminal of a shell that runs top. The shell prints the
// terminal's modes before and after, and how top ended.
func newTopTerminal(t *testing.T, columns int) *shell {
	s := newTerminal(t, "sh", "-c", `read go; echo be''fore $(stty -g); TERM=xterm-256color holdfast top; code=$?; echo af''ter $(stty -g); echo code $code; read stay`)
	s.resize(columns)
	s.types("\n")
	s.expect("before ")
	s.onScreen("no lock is in use")
	return s
}

// left checks that top has ended with the code, and has restored the terminal.
func (s *shell) left(code int) {
	s.t.Helper()
	s.expect("code " + fmt.Sprint(code))
	out := s.all()
	word := func(after string) string {
		_, rest, _ := strings.Cut(out, after)
		return strings.Fields(rest)[0]
	}
	if before, after := word("before "), word("after "); before != after {
		s.t.Errorf("the modes were %s and are %s", before, after)
	}
	for _, mode := range []string{"\x1b[?1049", "\x1b[?25", "\x1b[?2004", "\x1b[?1000", "\x1b[?1006", "\x1b[?1"} { // the screen, cursor, paste, mouse, keypad
		on, off := mode+"h", mode+"l"
		if mode == "\x1b[?25" {
			on, off = off, on
		}
		if i := strings.LastIndex(out, on); i >= 0 && strings.LastIndex(out, off) < i {
			s.t.Errorf("%q was sent, and no %q after it", on, off)
		}
	}
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	s := newTopTerminal(t, 60)
	holder := exec.Command("holdfast", "run", "nightly", "--store", storeIn(s.dir), "--ttl", "24", "--note", "ask-for-Anna", "--", "sleep", "1000")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	s.onScreen("nightly")
	s.resize(150)
	s.onScreen("ask-for-Anna") // which does not fit into 60 columns
	s.types("b")
	s.onScreen("Why? The holder gets this reason:")
	s.types("web-3 goes\r")
	s.onScreen("Break nightly? [yes/no]")
	s.types("yes\r")
	s.onScreen("broken; the next")
	err := holder.Wait()
	if end := (*exec.ExitError)(nil); !errors.As(err, &end) || end.ExitCode() != exitLost {
		t.Errorf("the holder ended with %v, want %d", err, exitLost)
	}
	s.types("q")
	s.left(0)
}

func TestTopLeavesTheTerminalAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		keys   string
		code   int
	}{
		"q":      {keys: "q"},
		"Ctrl-C": {keys: ctrlC, code: 128 + 2},
		"typing": {keys: "/abc" + ctrlC, code: 128 + 2},
		"TERM":   {signal: syscall.SIGTERM, code: 128 + 15},
		"INT":    {signal: syscall.SIGINT, code: 128 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTopTerminal(t, 80)
			if c.signal != 0 {
				for _, pid := range childrenOf(s.pid) {
					if err := syscall.Kill(pid, c.signal); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.types(c.keys)
			s.left(c.code)
		})
	}
}

// A panicking store simulates a defect in this program.
type panickingStore struct{}

func (panickingStore) read(context.Context) reading                    { panic("of the test") }
func (panickingStore) breakHold(context.Context, holdfast.Break) error { return nil }

func init() { programs["panics"] = panics }

// panics is a program that shows such a store.
func panics() {
	os.Exit(codeOf(runTop(panickingStore{}, time.Second, os.Stdin, os.Stdout, make(chan os.Signal))))
}

// It runs in a process of its own: after a panic the library closes files from which it
// still reads, which is a data race.
func TestTopLeavesTheTerminalAsItWasAfterAPanic(t *testing.T) {
	t.Parallel()
	s := newTerminal(t, "sh", "-c", `echo be''fore $(stty -g); TERM=xterm-256color panics; code=$?; echo af''ter $(stty -g); echo code $code; read stay`)
	s.expect("of the test")
	s.left(exitInternal)
}

// The lean program of a package executes the whole one: it is the same process, on the same terminal.
func TestTheLeanProgramBecomesTheWholeOneForTop(t *testing.T) {
	t.Parallel()
	dir, err := plainCommand()
	if err != nil {
		t.Fatal(err)
	}
	whole, lean := filepath.Join(dir, "holdfast"), filepath.Join(t.TempDir(), "lean")
	if err := buildCommand("holdfast_lean", lean, "-X=main.whole="+whole); err != nil {
		t.Fatal(err)
	}
	s := newTerminal(t, "sh", "-c", `TERM=xterm-256color "$0" top; echo code $?; read stay`, lean)
	s.resize(80)
	s.onScreen("no lock is in use")
	pids := childrenOf(s.pid)
	if len(pids) != 1 {
		t.Fatalf("the shell has the children %v, want one", pids)
	}
	if runs, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[0])); err != nil || runs != whole {
		t.Errorf("%s (%v) runs, want %s", runs, err, whole)
	}
	s.types("q")
	s.expect("code 0")
}

// Without a terminal top cannot work.
func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("holdfast", "top", "--store", storeIn(t.TempDir()))
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "holdfast ls --watch") {
		t.Errorf("%d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
