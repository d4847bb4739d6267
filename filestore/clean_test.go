//go:build linux || darwin

package filestore

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// age makes a file look unused for so long.
func age(t *testing.T, path string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestACleanUpRemovesNamesUnusedForADayAndNoOthers(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	defer other.Close()
	const day = store.TokenRetention
	use := func(name string, held bool, unused time.Duration) {
		h := lockSoon(t, other, name)
		if !held {
			if err := other.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		age(t, s.path(name), unused)
	}
	use("idle", false, day+time.Minute)
	use("idle of late", false, day-time.Minute)
	use("held", true, day+time.Minute)
	write := func(name, text string) {
		path := filepath.Join(dir, namesDir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		age(t, path, 9*day)
	}
	write("foreign", "what is this")
	write("foreign and empty", "")
	write(fileName("garbage"), "what is this")
	write(fileName("never used"), "")
	write(newPrefix+"left behind", "")
	for path, unused := range map[string]time.Duration{
		filepath.Join(dir, procsDir, newPrefix+"left behind"): 9 * day,
		filepath.Join(dir, newPrefix+"left behind"):           9 * day,
		filepath.Join(dir, newPrefix+"being made"):            day - time.Minute,
	} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		age(t, path, unused)
	}
	s.clean()
	if in, err := filepath.Glob(filepath.Join(dir, "*", newPrefix+"*")); err != nil || len(in) > 0 {
		t.Errorf("left: %q, %v", in, err)
	}
	if in, err := filepath.Glob(filepath.Join(dir, newPrefix+"*")); err != nil || len(in) != 1 {
		t.Errorf("left: %q, %v, want one that is being made", in, err)
	}
	var left []string
	files, err := os.ReadDir(filepath.Join(dir, namesDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		left = append(left, f.Name())
	}
	want := []string{fileName("idle of late"), fileName("held"), fileName("garbage"), "foreign", "foreign and empty"}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Fatalf("left: %q, want %q", left, want)
	}
	// Whoever has the file open finds that it is gone, and makes another.
	if !free(t, other, "idle") {
		t.Fatal("a name that was removed cannot be taken")
	}
}

func TestACleanUpRemovesWhatDeadProcessesLeftAndNothingOfTheLiving(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	living, dead := start(t, "hold", dir, "a"), start(t, "hold", dir, "b")
	living.says("holding")
	dead.says("holding")
	dead.kill()
	procs := filepath.Join(dir, procsDir)
	count := func(unused time.Duration) int {
		t.Helper()
		files, err := os.ReadDir(procs)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			age(t, filepath.Join(procs, f.Name()), unused)
		}
		s.clean()
		if files, err = os.ReadDir(procs); err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if n := count(time.Hour); n != 4 {
		t.Fatalf("%d FIFOs left after an hour, want 4", n)
	}
	if n := count(store.TokenRetention + time.Minute); n != 2 {
		t.Fatalf("%d FIFOs left after a day, want the 2 of the living", n)
	}
	if free(t, s, "a") {
		t.Fatal("the living holder lost its name")
	}
}

// A Store that names are made in again and again cleans up by itself.
func TestAStoreCleansUpByItself(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	if err := s.Release(t.Context(), lockSoon(t, s, "idle")); err != nil {
		t.Fatal(err)
	}
	age(t, s.path("idle"), 2*store.TokenRetention)
	p := s.anyProcess() // for a new one begins a clean-up too, now and then
	n := 0
	soon(t, "the idle name is removed", func() bool {
		for range 50 {
			n++
			if _, err := s.Ask(t.Context(), lockOf(p, strconv.Itoa(n))); err != nil {
				t.Fatal(err)
			}
		}
		_, err := os.Lstat(s.path("idle"))
		return err != nil
	})
	t.Logf("after %d names", n)
}

func TestManyNamesDoNotKeepManyFilesOpen(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	p := store.NewProcess()
	var holds []store.Hold
	for i := range 3 * maxOpen {
		c := lockOf(p, "name"+string(rune('a'+i%26))+time.Duration(i).String())
		a, err := s.Ask(t.Context(), c)
		if err != nil || !a.Granted {
			t.Fatalf("%+v, %v", a, err)
		}
		holds = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL})
	}
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Fatalf("renewal %d: %v", i, r.Err)
		}
	}
	fds, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skipf("open files cannot be counted here: %v", err)
	}
	if len(s.files) > maxOpen || len(fds) > maxOpen+50 {
		t.Fatalf("%d files are open, and %d descriptors", len(s.files), len(fds))
	}
}
