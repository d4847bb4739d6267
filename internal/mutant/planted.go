package mutant

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plants returns why the mutant could not be tried: its mark has gone, what is to be done
// cannot be done to what is there, or there is no such test.
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
