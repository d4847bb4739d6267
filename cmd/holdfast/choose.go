package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
)

// withheld is what the command below `run` finds in HOLDFAST_STORE in place of
// a URL with a password. No store is named by it.
const withheld = "withheld:"

// systemStore is the file that names the store of a host. A variable so that
// tests have their own.
var systemStore = "/etc/holdfast/store"

// A choice is the store that was named, and how.
type choice struct {
	url string // empty: the file store of this host
	by  string // what named it, for people
	own bool   // named to this process alone: the command would not find it by itself
}

// choose finds out which store is meant; flag is what --store says.
func choose(flag string) (choice, error) {
	switch env, file := os.Getenv("HOLDFAST_STORE"), os.Getenv("HOLDFAST_STORE_FILE"); {
	case flag != "":
		return choice{flag, "--store", true}, nil
	case env != "":
		return choice{env, "HOLDFAST_STORE", true}, nil
	case file != "":
		url, err := oneLine(file)
		if err != nil {
			return choice{}, fmt.Errorf("%w: HOLDFAST_STORE_FILE: %w", holdfast.ErrInvalid, err)
		}
		return choice{url, "HOLDFAST_STORE_FILE", false}, nil
	}
	url, err := oneLine(systemStore)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		// Not the host's file store instead: two jobs would be on two stores.
		return choice{}, fmt.Errorf("%w: %w: mend it, or name a store with --store", holdfast.ErrInvalid, err)
	default:
		return choice{url, systemStore, false}, nil
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return choice{}, fmt.Errorf("%w: no store is named, and the files of a Kubernetes pod are its own: name one that the pods share, with --store, HOLDFAST_STORE or HOLDFAST_STORE_FILE", holdfast.ErrInvalid)
	}
	return choice{"", "the default of this host", false}, nil
}

// oneLine reads a file that holds one line and nothing else.
func oneLine(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(b))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s must have one line, the URL of a store", file) // never what it has
	}
	return line, nil
}

// open opens the store.
func (c choice) open() (store.Store, error) {
	if c.url == "" {
		return openDefault(filestore.DefaultDir())
	}
	scheme, _, _ := strings.Cut(c.url, ":")
	switch strings.ToLower(scheme) + ":" {
	case withheld:
		return nil, fmt.Errorf("%w: %s: the holdfast above this command withheld its store, because the URL has a password: "+
			"write the URL to a file that this user can read, and name the file in HOLDFAST_STORE_FILE in place of HOLDFAST_STORE", holdfast.ErrInvalid, c.by)
	case "mem:":
		return nil, fmt.Errorf("%w: %s: mem: is the memory of this process alone and excludes nobody", holdfast.ErrInvalid, c.by)
	}
	s, err := open.URL(c.url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.by, err)
	}
	return s, nil
}

// openDefault opens the file store of this host. That there is no place for one
// is not the store's failure: nobody has named one.
func openDefault(dir string, err error) (store.Store, error) {
	if err == nil {
		var s *filestore.Store
		if s, err = filestore.Open(dir, nil); err == nil {
			return s, nil
		}
		if _, missing := os.Stat(dir); missing == nil {
			return nil, err // it is there but cannot be used: that says why
		}
	}
	// %v: whatever err matches, this is a mistake of the caller.
	return nil, fmt.Errorf("%w: no store is named, and this user has no place for the file store of this host (%v): "+
		"name a store with --store, HOLDFAST_STORE or HOLDFAST_STORE_FILE", holdfast.ErrInvalid, err)
}

// environment is env for a command below: it finds the same store, or is told
// that its URL is withheld.
func (c choice) environment(env []string) []string {
	if !c.own {
		return env
	}
	url := c.url
	if open.Secret(url) {
		url = withheld
	} else if dir, ok := strings.CutPrefix(url, "file:"); ok && !strings.HasPrefix(dir, "/") {
		if wd, err := os.Getwd(); err == nil { // the command may change its own
			url = "file:" + filepath.ToSlash(wd) + "/" + dir
		}
	}
	return setenv(env, "HOLDFAST_STORE", url)
}
