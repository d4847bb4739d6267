package mutant

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// AtNight is called before the mutants are tried. That takes minutes, so it is done only if
// HOLDFAST_NIGHTLY is set. Otherwise AtNight skips the test, or fails it if a mutant could not
// be tried.
func (o *Overlay) AtNight(all []Broken) {
	o.t.Helper()
	if testserver.Nightly() {
		return
	}
	for _, b := range all {
		if err := o.plants(b); err != nil {
			o.t.Errorf("%s: %v", b.Name, err)
		}
	}
	o.t.Skip("the mutants are tried by make mutants and make nightly")
}

// plants returns why the mutant could not be tried: its mark does not exist, the edit does not
// fit the code there, or its test does not exist.
func (o *Overlay) plants(b Broken) error {
	edits, err := o.inCode(b.Edits)
	if err != nil {
		return err
	}
	for _, e := range edits {
		path, err := o.place(e)
		if err != nil {
			return err
		}
		text, err := o.edited(path, edits)
		if err != nil {
			return err
		}
		if _, err := parse(path, text); err != nil {
			return fmt.Errorf("with the mutant in it: %w", err)
		}
	}
	name, _, _ := strings.Cut(b.Test, "/")
	test := []byte("\nfunc " + name + "(")
	files, err := filepath.Glob(filepath.Join(o.root, b.Pkg, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(text, test) {
			return nil
		}
	}
	return fmt.Errorf("there is no %s in the package %s", name, b.Pkg)
}
