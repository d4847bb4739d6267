package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/open"
	_ "github.com/holdfast-go/holdfast/open/all"
	"github.com/holdfast-go/holdfast/store"
)

// withheld is what the command below `run` finds in HOLDFAST_STORE in place of
// a URL with a password. No store is named by it.
const withheld = "withheld:"

// systemStore is the file that names the store of a host; where requireStore is,
// nothing is locked in a store of the host alone. They are variables so that tests
// have their own, set in the test or by the linker. Nothing that a user can set
// moves them.
var (
	systemStore  = "/etc/holdfast/store"
	requireStore = "/etc/holdfast/require-store"
)

// A choice is the store that was named, and how.
type choice struct {
	url string // empty: the file store of this host
	by  string // what named it, for people
	own bool   // named to this process alone: the command would not find it by itself
}

// storeURL is the value of --store. A script that has lost its URL on the way must
// not lock elsewhere.
type storeURL string

func (u *storeURL) String() string { return string(*u) }
func (u *storeURL) Type() string   { return "string" }

func (u *storeURL) Set(url string) error {
	if blank(url) { //mutant:run-empty-store-flag
		return errors.New("it is empty: write the URL of a store, or leave the flag out")
	}
	*u = storeURL(url)
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// choose finds out which store is meant; flag is what --store says. A variable that
// is set and empty is a mistake: what it was to have has got lost.
func choose(flag storeURL) (choice, error) {
	env, hasEnv := os.LookupEnv("HOLDFAST_STORE")
	file, hasFile := os.LookupEnv("HOLDFAST_STORE_FILE")
	switch {
	case flag != "":
		return choice{string(flag), "--store", true}, nil
	case hasEnv && blank(env): //mutant:run-empty-store-variable
		return choice{}, fmt.Errorf("%w: HOLDFAST_STORE is set, and empty: set it to the URL of a store, or unset it", holdfast.ErrInvalid)
	case hasEnv:
		return choice{env, "HOLDFAST_STORE", true}, nil
	case hasFile && blank(file): //mutant:run-empty-store-file
		return choice{}, fmt.Errorf("%w: HOLDFAST_STORE_FILE is set, and empty: set it to a file with the URL of a store in one line, or unset it", holdfast.ErrInvalid)
	case hasFile:
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
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" { //mutant:run-pod-needs-store
		return choice{}, fmt.Errorf("%w: no store is named, and the files of a Kubernetes pod are its own: name one that the pods share, with --store, HOLDFAST_STORE or HOLDFAST_STORE_FILE", holdfast.ErrInvalid)
	}
	return choice{"", "the default of this host", false}, nil
}

// shared reports whether other hosts can have the store as well. An address of this
// host counts: a proxy or a tunnel may be there.
func (c choice) shared() bool {
	u, err := url.Parse(c.url)
	switch {
	case c.url == "":
		return false
	case err != nil: // with several hosts it may not be readable in this way: a server's it is
		return true
	case u.Scheme == "file":
		trust := u.Query()["trust-fs"]
		return len(trust) > 0 && trust[len(trust)-1] == "1" // the last counts, as in package open
	}
	return true
}

// require is the error if the store is one of this host alone, and is not to be:
// because of --require-store, which flag is, or of the host's file.
func (c choice) require(flag bool) error {
	if c.shared() { //mutant:run-store-shared
		return nil
	}
	by := "--require-store"
	if !flag {
		by = requireStore
		switch _, err := os.Lstat(by); { //mutant:run-require-store-file
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("%w: whether this host requires a shared store cannot be told: %w", holdfast.ErrInvalid, err)
		}
	}
	return fmt.Errorf("%w: %s asks for a store that other hosts share, and %s is none: name one like redis://host:6379 with --store, HOLDFAST_STORE or HOLDFAST_STORE_FILE, or in %s",
		holdfast.ErrInvalid, by, c.name(), systemStore)
}

// name is the store for an error, without what may be secret: of a file: URL, as
// no other is told of.
func (c choice) name() string {
	if c.url == "" {
		return c.by
	}
	return "the directory in " + c.by
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
	if open.Secret(c.url) { //mutant:run-password-withheld
		return setenv(env, "HOLDFAST_STORE", withheld)
	}
	return setenv(env, "HOLDFAST_STORE", c.url)
}
