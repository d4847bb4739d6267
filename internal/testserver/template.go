package testserver

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// templates are the empty databases of this test binary, by their kind. To make
// one takes seconds, and to copy it does not.
var templates struct {
	sync.Mutex
	on  bool // under Main, which removes them
	dir string
}

// copyOf fills a directory that is not there with what fill would fill it with.
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

// template makes the template of the kind if there is none.
func (a *account) template(kind string, fill func(data string) error) (data string, err error) {
	if templates.dir == "" {
		if templates.dir, err = os.MkdirTemp("", "holdfast-test-"); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(templates.dir, kind)
	data = filepath.Join(dir, "data")
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, os.ErrExist):
		return data, nil
	case err != nil:
		return "", err
	}
	if err = a.own(dir); err == nil {
		err = fill(data)
	}
	if err != nil {
		os.RemoveAll(dir) // the next one tries again
	}
	return data, err
}

func removeTemplates() {
	templates.Lock()
	defer templates.Unlock()
	os.RemoveAll(templates.dir)
	templates.on = false
}
