package holdfastterraform

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
)

// Dir keeps states in files below a directory, which is created when it is needed. A state is
// NAME.tfstate there. Only its owner can read it, and it is replaced as a whole.
func Dir(dir string) States { return files(dir) }

type files string

func (f files) open() (*os.Root, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(string(f)) // no name leads out of it
}

func file(name string) string { return name + ".tfstate" }

func (f files) Get(_ context.Context, name string) ([]byte, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	state, err := root.ReadFile(file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return state, err
}

func (f files) Put(ctx context.Context, name string, state []byte) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	next := file(name) + ".new" // there is one writer at a time: it has the lock
	defer root.Remove(next)
	to, err := root.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(state)
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close(), context.Cause(ctx)); err != nil {
		return err
	}
	return root.Rename(next, file(name))
}

func (f files) Delete(_ context.Context, name string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(file(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
