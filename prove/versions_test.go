//go:build linux || darwin

package prove

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// older is the version that docs/stability.md promises to work beside: the newest release before this one, or, until
// there is one, the commit that the page names.
func older(t *testing.T) string {
	t.Helper()
	tags, err := git("tag", "--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-v:refname")
	if err != nil {
		t.Fatal(err)
	}
	of, _, _ := strings.Cut(tags, "\n")
	if of == "" {
		page, err := os.ReadFile("../docs/stability.md")
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("It is proved beside `([0-9a-f]+)`").FindSubmatch(page)
		if named == nil {
			t.Fatal("docs/stability.md does not name the commit that it is proved beside")
		}
		of = string(named[1])
	}
	commit, err := git("rev-parse", "--verify", "--quiet", of+"^{commit}")
	if err != nil {
		t.Skipf("the history of this clone does not have %s: git fetch --unshallow --tags", of)
	}
	return commit
}

// git runs git at the root of the repository.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// buildOlder builds the command of a commit.
func buildOlder(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	archive, extract := exec.Command("git", "-C", "..", "archive", "--format=tar", commit), exec.Command("tar", "-x", "-C", dir)
	var err error
	if extract.Stdin, err = archive.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(archive.Start(), extract.Run(), archive.Wait()); err != nil {
		t.Fatalf("the files of %s: %v", commit, err)
	}
	bin := filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-ldflags=-w", "-tags="+tags, "-o", bin, "./cmd/holdfast")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", commit, err, out)
	}
	return bin
}

// Programs of two versions use one store. Neither grants what the other makes wait, in any mode and under any fault,
// and tokens grow over both.
func TestTwoVersionsOnOneStoreExcludeEachOther(t *testing.T) {
	testserver.AtNight(t)
	bin := buildOlder(t, older(t))
	for _, s := range provable {
		if s.name == "memory" { // it has a single process
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			o := options(s.url(t), 1)
			o.Out = t.TempDir()
			ours := o.Command
			var m sync.Mutex
			started := 0
			o.Command = func() *exec.Cmd { // a killed process is replaced by one of either version
				m.Lock()
				defer m.Unlock()
				if started++; started%2 == 0 {
					return exec.Command(bin, "prove-child")
				}
				return ours()
			}
			proved(t, o, func() { started = 0 }) // before the processes start, so that they alternate
			f, err := os.Open(filepath.Join(o.Out, "history.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			h, err := Read(f)
			if err != nil {
				t.Fatal(err)
			}
			grants := map[string]*[2]int{} // by name: of ours and of the older version
			for _, e := range h.Events {
				if e.Do == got && e.Life == 0 {
					if grants[e.Name] == nil {
						grants[e.Name] = &[2]int{}
					}
					grants[e.Name][(e.Proc+1)%2]++
				}
			}
			both := 0
			for _, n := range grants {
				both += min(n[0], n[1])
			}
			if both == 0 {
				t.Errorf("no name was held by both versions: got %v", grants)
			}
		})
	}
}
