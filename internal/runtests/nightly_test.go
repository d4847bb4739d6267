package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A night is a repository with the script of make nightly, and parts that write
// their names into a file.
type night struct {
	t   *testing.T
	dir string
}

func newNight(t *testing.T) *night {
	t.Helper()
	n := &night{t, t.TempDir()}
	script, err := os.ReadFile("../../scripts/nightly")
	if err != nil {
		t.Fatal(err)
	}
	n.write("scripts/nightly", string(script))
	n.write("scripts/nightly-parts", `# a comment, and an empty line

one	echo one $NIGHTLY_COMMIT >>ran
two	echo two >>ran; test ! -e fails
three	echo "three" >>ran # with a blank
`)
	n.write(".gitignore", "/.nightly\n/ran\n/fails\n")
	n.git("init", "-q")
	n.commit("first")
	return n
}

func (n *night) write(name, text string) {
	n.t.Helper()
	file := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		n.t.Fatal(err)
	}
}

func (n *night) git(args ...string) string {
	n.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = n.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (n *night) commit(message string) {
	n.t.Helper()
	n.git("add", "-A")
	n.git("commit", "-q", "--allow-empty", "-m", message)
}

// want calls the script, and checks its exit status, which parts it ran, and
// what it says.
func (n *night) want(exit int, ran, says string, args ...string) {
	n.t.Helper()
	os.Remove(filepath.Join(n.dir, "ran"))
	cmd := exec.Command(filepath.Join(n.dir, "scripts/nightly"), args...)
	cmd.Dir = n.t.TempDir()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	have, _ := os.ReadFile(filepath.Join(n.dir, "ran"))
	if got := cmd.ProcessState.ExitCode(); got != exit || strings.Join(strings.Fields(string(have)), " ") != ran || !strings.Contains(string(out), says) {
		n.t.Errorf("nightly %v: got exit status %d, ran %q; want %d, %q and %q:\n%s", args, got, have, exit, ran, says, out)
	}
}

func TestNightlyGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	first := n.git("rev-parse", "HEAD")
	n.write("fails", "")
	n.want(1, "one "+first+" two three", "nightly: failed: two\n")
	n.want(1, "two", "nightly: one: done for this commit")
	os.Remove(filepath.Join(n.dir, "fails"))
	n.want(0, "two", "nightly: all done: one two three\n")
	n.want(0, "", "nightly: all done: one two three\n")

	n.commit("second")
	second := n.git("rev-parse", "HEAD")
	n.want(0, "two", "nightly: all done: two\n", "two")
	n.want(0, "", "one\tto do\techo one", "-l")
	n.want(0, "", "two\tdone\t", "-l")
	n.want(0, "one "+second+" three", "nightly: two: done for this commit")

	n.git("checkout", "-q", first)
	n.want(0, "", "nightly: all done")
}

func TestNightlyNotesNothingOfUncommittedChanges(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.want(0, "three", "all done", "three")
	n.write("changed", "")
	for range 2 {
		n.want(0, "three", "there are uncommitted changes", "three")
	}
	os.Remove(filepath.Join(n.dir, "changed"))
	n.want(0, "", "nightly: three: done for this commit", "three")
}

func TestNightlyRefusesAnUnknownPart(t *testing.T) {
	t.Parallel()
	newNight(t).want(2, "", "there is no part four; there are: one two three", "one", "four")
}
