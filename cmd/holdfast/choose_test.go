package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// atHost simulates a host with the given line, if any, in its systemStore, and with
// no store in the environment. No file requires a shared store.
func atHost(t *testing.T, line string) {
	was, required := systemStore, requireStore
	t.Cleanup(func() { systemStore, requireStore = was, required })
	dir := t.TempDir()
	systemStore, requireStore = filepath.Join(dir, "store"), filepath.Join(dir, "require-store")
	if line != "" {
		if err := os.WriteFile(systemStore, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"HOLDFAST_STORE", "HOLDFAST_STORE_FILE", "KUBERNETES_SERVICE_HOST"} {
		t.Setenv(key, "") // restored at the end
		os.Unsetenv(key)
	}
}

func TestTheStoreOfTheHostIsUsedWhereNoneIsNamed(t *testing.T) {
	atHost(t, "redis://:secret@locks:6379\n")
	c, err := choose("")
	if err != nil || c.url != "redis://:secret@locks:6379" {
		t.Fatalf("chose %q, %v", c.url, err)
	}
	// The command finds the store by itself, and a holdfast below it must do so, too.
	if env := c.environment([]string{"A=b"}); !slices.Equal(env, []string{"A=b"}) {
		t.Errorf("got the environment %q for the command, want A=b alone", env)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	if c, err := choose(""); err != nil || c.url == "" {
		t.Errorf("in a pod: chose %q, %v", c.url, err)
	}
	t.Setenv("HOLDFAST_STORE", "file:/x")
	if c, err := choose(""); err != nil || c.url != "file:/x" {
		t.Errorf("with HOLDFAST_STORE: chose %q, %v", c.url, err)
	}
}

func TestABrokenStoreFileOfTheHostIsAnError(t *testing.T) {
	atHost(t, "file:/a\nfile:/b\n")
	if c, err := choose(""); codeOf(err) != 64 || !strings.Contains(err.Error(), systemStore) {
		t.Errorf("a file of two lines: %+v, %v, want exit code 64", c, err)
	}
	systemStore = t.TempDir() // cannot be read
	if c, err := choose(""); codeOf(err) != 64 {
		t.Errorf("a directory: %+v, %v, want exit code 64", c, err)
	}
}

func TestAUserWithNoDirectoryIsAdvisedToNameAStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir string
		err error
	}{
		{"", errors.New("no home")},
		{filepath.Join(file, "state", "holdfast"), nil}, // cannot be made
	} {
		s, err := openDefault(c.dir, c.err)
		if s != nil || codeOf(err) != 64 || !strings.Contains(err.Error(), "--store") {
			t.Errorf("%q: got %v, %v, want exit code 64 and --store in the message", c.dir, s, err)
		}
	}
}

func TestTheCommandFindsTheSameStoreButNoPassword(t *testing.T) {
	atHost(t, "")
	for url, want := range map[string]string{
		"redis://host:6379/2":         "redis://host:6379/2",
		"redis://:secret@host:6379":   withheld,
		"redis://user:secret@host":    withheld,
		"redis://secret@host":         withheld, // a user name, or a password in the wrong place
		"redis://u:sec%ret@host":      withheld, // cannot be read
		"file:/var/lib/locks":         "file:/var/lib/locks",
		"file:/locks?trust-fs=1":      "file:/locks?trust-fs=1",
		"rediss://:secret@host/1?a=b": withheld,
	} {
		c, err := choose(storeURL(url))
		if err != nil {
			t.Fatal(err)
		}
		env := c.environment([]string{"HOLDFAST_STORE=before", "A=b"})
		if !slices.Equal(env, []string{"A=b", "HOLDFAST_STORE=" + want}) {
			t.Errorf("%s: got the environment %q for the command", url, env)
		}
	}
}

func TestWithheldNamesTheWayOut(t *testing.T) {
	atHost(t, "")
	t.Setenv("HOLDFAST_STORE", withheld)
	c, err := choose("")
	if err == nil {
		_, err = c.open()
	}
	if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "HOLDFAST_STORE_FILE") {
		t.Errorf("%v", err)
	}
}

// An empty variable does not select another store.
func TestAnEmptyStoreIsRefused(t *testing.T) {
	for _, key := range []string{"HOLDFAST_STORE", "HOLDFAST_STORE_FILE"} {
		for _, value := range []string{"", " ", "\n"} {
			atHost(t, "redis://locks")
			t.Setenv(key, value)
			if c, err := choose(""); codeOf(err) != exitUsage || !strings.Contains(err.Error(), key+" is set, and empty") {
				t.Errorf("%s=%q: %+v, %v, want exit code 64", key, value, c, err)
			}
			if c, err := choose("redis://other"); err != nil || c.url != "redis://other" { // --store takes precedence
				t.Errorf("%s=%q, with --store: chose %+v, %v", key, value, c, err)
			}
		}
	}
}

func TestRequiredAStoreOfThisHostAloneIsRefused(t *testing.T) {
	for url, shared := range map[string]bool{
		"": false, "file:/locks": false, "FILE:/locks": false, "file:///locks": false, "file:/locks?trust-fs=0": false, "file:/locks?trust-fs=1&trust-fs=0": false,
		"file:/locks?trust-fs=1": true, "redis://locks": true, "redlock:redis://a,redis://b,redis://c": true, "zk://a:1,b:2": true, "nats://a,b:x": true,
		"redis://localhost": true, // a proxy may be there
	} {
		atHost(t, "")
		for _, by := range []string{"", "--require-store", requireStore} {
			if by == requireStore {
				if err := os.WriteFile(by, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := &program{store: storeURL(url), shares: by == "--require-store"}
			_, err := p.choose()
			if refused := err != nil; refused != (by != "" && !shared) {
				t.Errorf("%q, required by %q: %v, want it refused if it is of this host alone", url, by, err)
			} else if refused && (codeOf(err) != exitUsage || !strings.Contains(err.Error(), by) || !strings.Contains(err.Error(), "redis://host")) {
				t.Errorf("%q, required by %q: got message: %v", url, by, err)
			}
		}
	}
	if runtime.GOOS == "windows" {
		return // there a path below a file counts as one that does not exist
	}
	atHost(t, "")
	requireStore = filepath.Join(requireStore, "no-directory", "file") // like a file that cannot be read
	if err := os.WriteFile(filepath.Dir(filepath.Dir(requireStore)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&program{}).choose(); codeOf(err) != exitUsage {
		t.Errorf("a file that cannot be read: %v, want exit code 64", err)
	}
}
