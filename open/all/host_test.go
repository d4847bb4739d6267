package all_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/open/all"
	"github.com/holdfast-go/holdfast/store"
)

// schemes are all schemes of the table.
func schemes(t *testing.T) []string {
	t.Helper()
	_, err := open.URL("no-such-scheme:")
	if err == nil {
		t.Fatal("an unknown scheme is no error")
	}
	_, list, ok := strings.Cut(err.Error(), "there are: ")
	all := strings.Split(list, ", ")
	if !ok || len(all) < 10 || !slices.Contains(all, "redis") {
		t.Fatalf("no list of schemes in %q", err)
	}
	return all
}

// A server URL without a host is a mistake. If it meant this host, each host would have a lock of its own. It is
// refused for each scheme, even with all settings that would give a driver a host.
func TestAURLWithoutAHostIsRefused(t *testing.T) {
	for key, value := range map[string]string{"PGHOST": "127.0.0.1", "PGHOSTADDR": "127.0.0.1", "NATS_URL": "nats://127.0.0.1"} {
		t.Setenv(key, value)
	}
	for _, scheme := range schemes(t) {
		if scheme == "file" || scheme == "mem" || all.LeftOut(scheme+":") {
			continue
		}
		forms := []string{
			"S:host:6379", "S:host", "S:/host:6379", "S:", "S:/", "S://", "S:///", "S:///db", "S:///db/more", "S://:6379", "S://:6379/db",
			"S://u:secret@", "S://u:secret@/db", "S://u:secret@:6379/db", "S://:secret@:6379/db",
			"S://,/db", "S://a,/db", "S://,b/db", "S://a:1,,b:2/db", "S://a:1,:2/db", "S://u:secret@a:1,:2/db", "S://u:secret@,b/db",
		}
		if scheme == "redlock" { // its members are URLs
			forms = []string{"S:"}
			for _, member := range []string{"redis:host:6379", "redis://", "redis:///0", "redis://:6379", "redis://:secret@", "rediss://:secret@:6379", "redis:/h", "host:6379", ""} {
				forms = append(forms, "S:redis://a,redis://b,"+member, "S:"+member+",redis://b,redis://c", "S:redis://a,"+member+",redis://c?timeout=1s")
			}
		}
		for _, form := range forms {
			url := strings.Replace(form, "S", scheme, 1)
			s, err := open.URL(url)
			if err == nil {
				t.Errorf("%q opens %s, want an error", url, s.Describe().Store)
				s.Close()
				continue
			}
			if !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", url, err)
			}
			if slices.Contains([]string{"S:host:6379", "S:host", "S://", "S://:6379", "S://u:secret@"}, form) && !strings.Contains(err.Error(), "://host:port") &&
				!strings.Contains(err.Error(), "@host:port") {
				t.Errorf("%q: the error does not say what to write: %v", url, err)
			}
		}
	}
}

// The socket directory of PostgreSQL is a host that is named, in the syntax of libpq.
func TestURL_AHostOfPostgresMayBeAParameter(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u@/locks?host=/var/run/postgresql":   "PostgreSQL at /var/run/postgresql, port 5432, database locks",
		"postgres:///locks?user=u&host=db":               "PostgreSQL at db, port 5432, database locks",
		"postgres+session://u@/locks?host=/run/postgres": "PostgreSQL at /run/postgres, port 5432, database locks, a session",
	} {
		s, err := open.URL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := s.Describe().Store; got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
		s.Close()
	}
}

// A relative path names different directories for processes with different working directories, so it is refused.
func TestARelativeDirectoryIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"file:locks", "file:./locks", "file:../locks", "file:~/locks", "file:locks?trust-fs=1", "FILE:locks", "file:%2e/locks"} {
		s, err := open.URL(url)
		if err == nil {
			t.Errorf("%q opens %s, want an error", url, s.Describe().Store)
			s.Close()
			continue
		}
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "file:/") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if made, _ := filepath.Glob("*"); len(made) > 0 {
		t.Errorf("%q were created", made)
	}
}

// Each URL in the manual for operators is valid.
func TestEachURLOfTheManualOpens(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?m)^\\| `([a-z0-9+]+:[^`]+)` \\|").FindAllStringSubmatch(string(text), -1)
	if len(found) < 13 {
		t.Errorf("found %d URLs, not the whole table", len(found))
	}
	for _, f := range found {
		if all.LeftOut(f[1]) {
			continue
		}
		url := strings.NewReplacer("user:password@", "", "/var/lib/locks", t.TempDir()).Replace(f[1]) // some need the server to log in
		s, err := open.URL(url)
		if err != nil {
			t.Errorf("%s: %v", f[1], err)
			continue
		}
		s.Close()
	}
}
