// Package mutant builds test binaries of this module with faults in it, to check that the tests
// catch them. Nothing is written to the module: the changed files are laid over it with go test
// -overlay.
//
// A test catches a mutant if it fails with it. That means something only if the test passes
// otherwise: each test is also run once without a mutant, under the same conditions except for
// how long it waits for something.
package mutant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// An Edit is a fault at a mark. At returns one.
type Edit struct {
	Mark  string
	Do    Op
	Under string // a directory with a copy of the file; the copy is changed instead
}

// An Overlay has files that replace files of the module, or are added to it, for a build.
type Overlay struct {
	t    testing.TB
	root string            // of the workspace, or of the module without one; a workspace's first module is there
	dir  string            // where the files are
	over map[string]string // path in the module → file

	marks func() (map[string]string, error) // mark → path in the module

	files int // in dir
}

// New returns an Overlay without files. It fails the test if the test is not in a module.
func New(t testing.TB) *Overlay {
	t.Helper()
	root := Root(t)
	find := func() (map[string]string, error) { return marks(root) }
	return &Overlay{t: t, root: root, dir: t.TempDir(), over: map[string]string{}, marks: sync.OnceValues(find)}
}

// Root returns the root of the workspace that contains the test or, without a workspace, of the
// module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"go.work", "go.mod"} {
		for at := dir; ; at = filepath.Dir(at) {
			if _, err := os.Stat(filepath.Join(at, file)); err == nil {
				return at
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	t.Fatal("no go.mod above the test")
	return ""
}

// copy returns an Overlay with the same files. More can be added to the copy.
func (o *Overlay) copy(t testing.TB) *Overlay {
	return &Overlay{t: t, root: o.root, dir: t.TempDir(), over: maps.Clone(o.over), marks: o.marks}
}

// modulePath is the import path of the module.
func (o *Overlay) modulePath() string {
	o.t.Helper()
	text, err := os.ReadFile(filepath.Join(o.root, "go.mod"))
	if err != nil {
		o.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(path)
		}
	}
	o.t.Fatal("go.mod names no module")
	return ""
}

// Text returns the text of a file of the module, or of the file laid over it.
func (o *Overlay) Text(path string) string {
	o.t.Helper()
	text, err := o.edited(path, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

// edited returns the text of a file with the edits for that file applied.
func (o *Overlay) edited(path string, edits []Edit) (text string, err error) {
	file := filepath.Join(o.root, path)
	data, err := os.ReadFile(cmp.Or(o.over[file], file))
	if err != nil {
		return "", err
	}
	text = string(data)
	for _, e := range edits {
		if file, err := o.place(e); err != nil {
			return "", err
		} else if file != path {
			continue
		}
		parsed, err := parse(path, text)
		if err == nil {
			text, err = parsed.edit(e)
		}
		if err != nil {
			return "", err
		}
	}
	return text, nil
}

// Add lays a file with this text over the path in the module.
func (o *Overlay) Add(path, text string) {
	o.t.Helper()
	o.files++
	file := filepath.Join(o.dir, fmt.Sprintf("%d.go", o.files))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.over[filepath.Join(o.root, path)] = file
}

// Edit lays the edited files over the module.
func (o *Overlay) Edit(edits ...Edit) {
	o.t.Helper()
	edits, err := o.inCode(edits)
	if err != nil {
		o.t.Fatal(err)
	}
	done := map[string]bool{}
	for _, e := range edits {
		path, err := o.place(e)
		if err != nil {
			o.t.Fatal(err)
		}
		if done[path] {
			continue
		}
		done[path] = true
		text, err := o.edited(path, edits)
		if err != nil {
			o.t.Fatal(err)
		}
		o.Add(path, text)
	}
}

// Build builds the test binary of a package, named by its path in the module, and returns the
// binary's path.
func (o *Overlay) Build(pkg string) (bin string) {
	o.t.Helper()
	bin, out, err := o.build(pkg)
	if err != nil {
		o.t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return bin
}

func (o *Overlay) build(pkg string) (bin string, out []byte, err error) {
	list := filepath.Join(o.dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": o.over})
	if err == nil {
		err = os.WriteFile(list, text, 0o600)
	}
	if err != nil {
		return "", nil, err
	}
	bin = filepath.Join(o.dir, "mutant.test")
	// Without optimization and debug information, building takes a third less time. -e: all
	// errors, not just the first ten.
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e -N -l -dwarf=false", "-ldflags=-s -w", "-overlay", list, "-o", bin, "./"+pkg)
	cmd.Dir = o.root
	cmd.Env = append(os.Environ(),
		"GOWORK=",       // use the workspace above the directory: the package can be in another module than the test, which may run without it
		"CGO_ENABLED=0") // as make check builds the dependencies of the package
	out, err = cmd.CombinedOutput()
	return bin, out, err
}
