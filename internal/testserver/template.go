package testserver

import (
	"os"
	"path/filepath"
	"sync"
)

// templates are the empty databases of this test binary, and of the test binaries that it
// starts, by kind. Making one takes seconds; copying one does not.
var templates struct {
	sync.Mutex
	on   bool // under Main, which removes them
	dir  string
	lent bool // by the test binary that started this one, which removes them
}

// templatesEnv is the variable with the directory that a test binary lends to those that it
// starts.
const templatesEnv = "HOLDFAST_TEST_TEMPLATES"

// copyOf fills a directory that does not exist yet with what fill would write to it.
func (a *account) copyOf(kind, data string, fill func(data string) error) error {
	templates.Lock()
	if !templates.on {
		templates.Unlock()
		return fill(data)
	}
	template, err := a.template(kind, fill)
	templates.Unlock()
	if err != nil {
		return err
	}
	return a.run("cp", "-Rp", template, data)
}

// template returns the template of the kind, and makes it if there is none.
func (a *account) template(kind string, fill func(data string) error) (data string, err error) {
	if templates.dir == "" {
		if templates.dir = os.Getenv(templatesEnv); templates.dir != "" {
			templates.lent = true
		} else {
			if templates.dir, err = os.MkdirTemp("", "holdfast-test-"); err != nil {
				return "", err
			}
			os.Setenv(templatesEnv, templates.dir)
		}
	}
	dir := filepath.Join(templates.dir, kind)
	data = filepath.Join(dir, "data")
	if exists(dir) {
		return data, nil
	}
	// The template gets its name when it is complete: another process may look for it.
	made, err := os.MkdirTemp(templates.dir, kind+"-")
	if err != nil {
		return "", err
	}
	if err = a.own(made); err == nil {
		err = fill(filepath.Join(made, "data"))
	}
	if err == nil {
		if err = os.Rename(made, dir); err != nil && exists(dir) {
			err = nil // another process was faster
		}
	}
	os.RemoveAll(made)
	return data, err
}

func removeTemplates() {
	templates.Lock()
	defer templates.Unlock()
	if !templates.lent {
		os.RemoveAll(templates.dir)
	}
	templates.on = false
}
