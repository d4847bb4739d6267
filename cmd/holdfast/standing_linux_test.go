package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// recipe is the first block of that language in docs/operate.md that contains the text.
func recipe(t *testing.T, language, text string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "\n```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```\n")
		if strings.Contains(block, text) {
			return block + "\n"
		}
	}
	t.Fatalf("docs/operate.md has no %s with %q", language, text)
	return ""
}

// The recipe for Python, as on the page: it holds, has its token, notices a loss even
// while holdfast is stopped and prints nothing, releases, and is refused.
func TestTheRecipeForPythonHoldsALock(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("this test needs python3, which is not installed")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"holdfast.py": recipe(t, "python", "class Lock"),
		"work.py": `import os, signal, subprocess, sys
from holdfast import Lock, NotObtained
run = lambda *a: subprocess.run(["holdfast", *a], capture_output=True, text=True)
with Lock("demo", "-n", "--ttl", "30") as lock:
    assert lock.token > 0 and not lock.lost.is_set()
    assert run("run", "demo", "-n", "--", "true").returncode == 75
    try:
        with Lock("demo", "-n"):
            sys.exit("held twice")
    except NotObtained as refused:
        assert "held by host" in str(refused), refused
assert run("run", "demo", "-n", "--", "true").returncode == 0
with Lock("demo") as lock:
    broken = run("break", "demo", "--id", lock.id, "--token", str(lock.token), "--reason", "a test", "--now")
    assert broken.returncode == 0, broken
    assert lock.lost.wait(100)
with Lock("stopped", "--ttl", "3") as lock:
    os.kill(lock.holdfast.pid, signal.SIGSTOP)
    assert lock.lost.wait(100), "nobody says that it is over"
print("done")
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "work.py")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+fileStore(t))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("the recipe for Python: %v: %s", err, out)
	}
}

// The two recipes for the shell, as on the page.
func TestTheRecipesForTheShellHoldALock(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), fileStore(t)
	check := "holdfast run nightly -n -- true 2>/dev/null && echo free\necho worked $1\n"
	for name, script := range map[string]string{
		"rest.sh":  recipe(t, "sh", "holdfast hold nightly --fd 9"),
		"again.sh": recipe(t, "sh", `exec holdfast run nightly -n --skip-ok -- "$0" "$@"`),
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(script+check), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(file, "hard")
		cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+store)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "worked hard\n" {
			t.Errorf("%s: %v: got %q", name, err, out)
		}
		soon(t, "the lock is free again", func() bool { return obtainedNamed(t, store, "nightly") == 0 })
	}
}

func obtainedNamed(t *testing.T, store, name string) int {
	t.Helper()
	return beginNamed(t, store, name, "-n", "--", "true").code()
}

// A person at a terminal names only the lock, and is asked for the rest.
func TestBreakAsksAtATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	held := beginNamed(t, storeIn(s.dir), "demo", "--", "sleep", "1000")
	soon(t, "the lock is held", func() bool { return obtainedNamed(t, storeIn(s.dir), "demo") == exitHeld })
	s.types("holdfast break demo\n")
	s.expect("demo is held by host ")
	s.expect("Why? ")
	s.types("it hangs\n")
	s.expect("Break it? ")
	s.types("y\n") // it wants the whole word
	s.expect("demo: not broken")
	if held.over() {
		t.Fatal("the lock was broken without a yes")
	}
	s.expect("READY> ")
	s.types("holdfast break demo\n")
	s.expect("Why? ")
	s.types("\n")
	s.expect("holdfast: demo: not broken: the reason is empty: tell the holder why")
	s.expect("READY> ")
	s.types("holdfast break demo --reason 'it hangs'\n")
	s.expect("has expired, within its TTL. Break it? ")
	s.types("yes\n")
	s.expect("demo: broken; ")
	held.exits(exitLost)
	if said := held.text("stderr"); !regexp.MustCompile(`^holdfast: demo: broken by an operator: \S+@\S+: it hangs\n$`).MatchString(said) {
		t.Errorf("got stderr %q of the holder", said)
	}
	s.types("holdfast break dmo\n")
	s.expect("dmo: nobody holds it")
}

// With --foreground a command in a pipeline has the terminal, and so gets Ctrl-C. Without
// it the other processes of the pipeline keep the terminal until the command reads from it.
func TestForegroundGivesTheTerminalInAPipeline(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	// sh must have no child when the Ctrl-C comes: it continues if a child at that time ends with success.
	s.types("echo list | holdfast run demo --foreground -- sh -c 'echo $$ >pid; : >in; exec sleep 1000' | cat\n")
	soon(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(s.dir, "in")); return err == nil })
	pid, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if command, _ := strconv.Atoi(strings.TrimSpace(string(pid))); s.foreground() != command {
		t.Errorf("the terminal belongs to group %d, want the command's, %d", s.foreground(), command)
	}
	s.types("\x03")
	s.expect("READY> ")
}
