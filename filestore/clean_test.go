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
	"github.com/holdfast-go/holdfast/store/queue"
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
		t.Errorf("files left: %q, %v", in, err)
	}
	if in, err := filepath.Glob(filepath.Join(dir, newPrefix+"*")); err != nil || len(in) != 1 {
		t.Errorf("files left: %q, %v, want the new one alone", in, err)
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
		t.Fatalf("files left: %q, want %q", left, want)
	}
	// A Store that has the file open finds that it has gone, and creates another.
	if !free(t, other, "idle") {
		t.Fatal("the name whose file was removed cannot be acquired")
	}
}

// The FIFO of a dead process proves its death. It is removed once no entry
// needs that proof: without it the name would stay taken until its TTL.
func TestACleanUpRemovesOnlyLeftoversOfDeadProcesses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	living, dead := start(t, "hold", dir, "a"), start(t, "hold", dir, "b")
	living.says("holding")
	dead.says("holding")
	dead.kill()
	leaves := func(want int, unused time.Duration, why string) {
		t.Helper()
		ageAll(t, dir, unused)
		s.clean()
		if left := fifos(t, dir); len(left) != want {
			t.Fatalf("got %q left, want %d: %s", left, want, why)
		}
	}
	isFree := func(name string) bool {
		t.Helper()
		other := open(t, dir)
		defer other.Close() // with its FIFOs
		return free(t, other, name)
	}
	const aDay = store.TokenRetention + time.Minute
	leaves(4, time.Hour, "only an hour old")
	leaves(3, aDay, "two of the living process, and the proof that the holder of b is dead")
	if isFree("a") {
		t.Fatal("the living holder lost its name")
	}
	if !isFree("b") {
		t.Fatal("a clean-up removed the proof that the holder is dead")
	}
	leaves(2, aDay, "those of the living process")

	// An expired entry needs no proof.
	dead = start(t, "hold", dir, "b")
	dead.says("holding")
	dead.kill()
	leaves(3, aDay, "two of the living process, and the proof that the holder of b is dead")
	now := s.now
	s.now = func() queue.Time {
		later := now()
		later.Clock += (2 * time.Hour).Microseconds()
		return later
	}
	leaves(2, aDay, "those of the living process: the hold of b has expired")
}

// A process that cannot read a state file does not know which processes it names.
func TestACleanUpKeepsProofsOfDeathIfAFileIsUnreadable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	h := start(t, "hold", dir, "name")
	h.says("holding")
	h.kill()
	record, err := os.ReadFile(s.path("name"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(s.path("name"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("what is this"))
	ageAll(t, dir, 2*store.TokenRetention)
	s.clean()
	write(record)
	if !free(t, s, "name") {
		t.Fatal("a clean-up removed the proof that the holder is dead")
	}
}

// fifos are the names of the FIFOs of all processes.
func fifos(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, procsDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// ageAll makes all FIFOs look unused for so long.
func ageAll(t *testing.T, dir string, unused time.Duration) {
	t.Helper()
	for _, name := range fifos(t, dir) {
		age(t, filepath.Join(dir, procsDir, name), unused)
	}
}

// A Store in which new names are used again and again cleans up by itself.
func TestAStoreCleansUpByItself(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	if err := s.Release(t.Context(), lockSoon(t, s, "idle")); err != nil {
		t.Fatal(err)
	}
	age(t, s.path("idle"), 2*store.TokenRetention)
	p := s.anyProcess() // as a new name sometimes begins a clean-up, too
	n, removed := 0, false
	for ; !removed && n < 100*cleanPerNames; n++ { // a count, not a time: chance begins a clean-up, however slow this machine is
		if _, err := s.Ask(t.Context(), lockOf(p, strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
		_, err := os.Lstat(s.path("idle"))
		removed = err != nil
	}
	if !removed {
		t.Fatalf("the file of the idle name is left after %d names", n)
	}
	t.Logf("removed after %d names", n)
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
		t.Fatalf("%d files are open, and %d descriptors; too many", len(s.files), len(fds))
	}
}
