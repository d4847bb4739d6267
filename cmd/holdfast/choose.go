package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/open"
	_ "github.com/holdfast-go/holdfast/open/all"
	"github.com/holdfast-go/holdfast/store"
)

// withheld replaces a URL that has a password in the HOLDFAST_STORE of the command under `run`.
// It names no store.
const withheld = "withheld:"

// systemStore is the file that names the store of a host. If the file requireStore exists, stores
// that only this host can use are refused. They are variables so that tests can set them, in the
// test or by the linker; no setting of the user changes them.
var (
	systemStore  = "/etc/holdfast/store"
	requireStore = "/etc/holdfast/require-store"
)

// A choice is a store and what named it.
type choice struct {
	url string // empty: the file store of this host
	by  string // what named it, for messages
	own bool   // named by --store or HOLDFAST_STORE: environment passes it to the command
}

// storeURL is the value of --store. It must not be empty: a script that has lost its URL must not
// lock elsewhere.
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

// mistake returns an error that is the caller's fault.
func mistake(format string, args ...any) error {
	return &message{fmt.Sprintf(format, args...), holdfast.ErrInvalid}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// choose finds the store to use; flag is the value of --store. A variable that is set but empty
// is a mistake: its value was lost.
func choose(flag storeURL) (choice, error) {
	env, hasEnv := os.LookupEnv("HOLDFAST_STORE")
	file, hasFile := os.LookupEnv("HOLDFAST_STORE_FILE")
	switch {
	case flag != "":
		return choice{string(flag), "--store", true}, nil
	case hasEnv && blank(env): //mutant:run-empty-store-variable
		return choice{}, mistake("HOLDFAST_STORE is set, and empty: set it to the URL of a store, or unset it")
	case hasEnv:
		return choice{env, "HOLDFAST_STORE", true}, nil
	case hasFile && blank(file): //mutant:run-empty-store-file
		return choice{}, mistake("HOLDFAST_STORE_FILE is set, and empty: set it to a file with the URL of a store in one line, or unset it")
	case hasFile:
		url, err := oneLine(file)
		if err != nil {
			return choice{}, mistake("HOLDFAST_STORE_FILE: %v", err)
		}
		return choice{url, "HOLDFAST_STORE_FILE", false}, nil
	}
	url, err := oneLine(systemStore)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		// Do not fall back to the host's file store: two jobs would use two stores.
		return choice{}, mistake("%v: fix it, or name a store with --store", err)
	default:
		return choice{url, systemStore, false}, nil
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" { //mutant:run-pod-needs-store
		return choice{}, mistake("no store is named, and the files of a Kubernetes pod are its own: name one with --store, HOLDFAST_STORE or HOLDFAST_STORE_FILE")
	}
	return choice{"", "the default of this host", false}, nil
}

// shared reports whether other hosts can use the store too. An address of this host counts as
// shared: it may be a proxy or a tunnel.
func (c choice) shared() bool {
	u, err := url.Parse(c.url)
	switch {
	case c.url == "":
		return false
	case err != nil: // a URL with several hosts may not parse; it names servers
		return true
	case u.Scheme == "file":
		trust := u.Query()["trust-fs"]
		return len(trust) > 0 && trust[len(trust)-1] == "1" // the last counts, as in package open
	}
	return true
}

// require returns an error if only this host can use the store and a shared one is required: by
// --require-store, which is flag, or by the host's file.
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
			return mistake("cannot find out whether this host requires a shared store: %v", err)
		}
	}
	return mistake("%s asks for a store that other hosts share, and %s is not one: use one such as redis://host:6379", by, c.by)
}

// oneLine reads a file that holds one line and nothing else.
func oneLine(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(b))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s must have one line, the URL of a store", file) // never print its content
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
		return nil, mistake("%s: the URL has a password, so the holdfast above kept it: put it in a file, and name that in HOLDFAST_STORE_FILE", c.by)
	case "mem:", "memory:":
		return nil, mistake("%s: mem: is the memory of this process alone and excludes nobody", c.by)
	}
	if advice := adviceOnURL(c.url); advice != "" {
		return nil, mistake("%s: %s", c.by, advice)
	}
	s, err := open.URL(c.url)
	if err != nil {
		return nil, &message{c.by + ": " + rest(err.Error(), "", "invalid") + optionMeant(scheme, err), err}
	}
	return s, nil
}

// named returns what the store calls itself; its errors begin with that.
func (c choice) named() string {
	s, err := c.openWithin(500*time.Millisecond, time.Now())
	if err != nil {
		return c.kind()
	}
	defer closeSoon(s)
	return s.Describe().Store
}

// kind describes a store that could not be opened, by its scheme.
func (c choice) kind() string {
	scheme, _, _ := strings.Cut(c.url, ":")
	return "the store of " + c.by + ", " + scheme
}

// openDefault opens the file store of this host. If there is no directory for one, the store has
// not failed: the user has named none.
func openDefault(dir string, err error) (store.Store, error) {
	if err == nil {
		var s *filestore.Store
		if s, err = filestore.Open(dir, nil); err == nil {
			return s, nil
		}
		if _, missing := os.Stat(dir); missing == nil {
			return nil, err // the directory exists but is unusable: err says why
		}
	}
	// Whatever err matches, this is a mistake of the caller.
	return nil, mistake("no store is named, and this user has no place for files (%v): name one with --store or HOLDFAST_STORE_FILE", err)
}

// environment returns env with the same store for the command, or with withheld in place of a URL
// that has a password.
func (c choice) environment(env []string) []string {
	if !c.own {
		return env
	}
	if open.Secret(c.url) { //mutant:run-password-withheld
		return setenv(env, "HOLDFAST_STORE", withheld)
	}
	return setenv(env, "HOLDFAST_STORE", c.url)
}
