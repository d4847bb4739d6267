package filestore

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestTheOffsetOfATimeNamespace(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"monotonic           0         0\nboottime            0         0\n":     0,
		"monotonic           5         0\nboottime       100000       250\n":     100000*time.Second + 250,
		"monotonic           0         0\nboottime           -8 500000000\n":     -8*time.Second + 500*time.Millisecond,
		"monotonic 1 2\nboottime 3 4\n":                                          3*time.Second + 4,
		"1 1 2\n7 3 4\n":                                                         3*time.Second + 4,
		"something else 9 9\nboottime            6         0\nmonotonic 7 7\n\n": 6 * time.Second,
	} {
		if got, err := bootOffset([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "monotonic 0 0\n", "boottime\n", "boottime x y\n"} {
		if got, err := bootOffset([]byte(text)); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// A holder in another time namespace has the same clock as this process.
func TestAnotherTimeNamespaceHasTheSameClock(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	namespace := []string{"--time", "--boottime", "100000", "--fork"}
	if os.Geteuid() != 0 {
		namespace = append(namespace, "--user", "--map-root-user")
	}
	inside := func(arg ...string) ([]byte, error) {
		cmd := exec.Command("unshare", append(namespace, arg...)...)
		cmd.Env = append(os.Environ(), roleEnv+"=tell the clock")
		return cmd.Output()
	}
	if _, err := inside("true"); err != nil {
		t.Skipf("no time namespace can be made here: %v", err)
	}
	s := open(t, t.TempDir())
	defer s.Close()
	before := s.now().Clock
	out, err := inside(exe, s.dir, "name")
	after := s.now().Clock
	if err != nil {
		t.Fatal(err)
	}
	there, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil || there < before || there > after {
		t.Fatalf("the clock there is %d, %v, want %d to %d", there, err, before, after)
	}
}
