//go:build linux || darwin

package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Six Stores take a name, release it and remove its file, at random.
func TestANameWhoseFileIsRemovedIsNeverHeldTwice(t *testing.T) {
	rounds, removed, overlaps, err := churn(t, func(rounds, removed, _ int64) bool { return rounds > 5000 && removed > 500 })
	if overlaps > 0 || err != nil {
		t.Fatalf("the name was held twice %d times in %d rounds with %d removals; %v", overlaps, rounds, removed, err)
	}
}

// Between the opening of a file and the check that it is still in place, the file is
// removed, and another process takes the name in a new one. Without the check the
// name is held twice.
func TestAFileRemovedBeforeItIsLockedIsNotUsed(t *testing.T) {
	look := inPlace
	for what, looks := range map[string]bool{"as it is": true, "without the check": false} {
		dir := t.TempDir()
		s, other := open(t, dir), open(t, dir)
		defer s.Close()
		defer other.Close()
		p := store.NewProcess()
		if err := s.Release(t.Context(), lockSoon(t, s, "name")); err != nil { // the file is there
			t.Fatal(err)
		}
		removed := false
		set(t, &inPlace, func(path string, id fileID) bool {
			if !removed {
				removed = true
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
				lockSoon(t, other, "name")
			}
			return !looks || look(path, id)
		})
		c := lockOf(p, "name")
		c.Try = true
		if a, err := s.Ask(t.Context(), c); err != nil || a.Granted == looks {
			t.Errorf("%s: granted %v (%v) while another holds the name, want granted only without the check", what, a.Granted, err)
		}
	}
}

func churn(t *testing.T, enough func(rounds, removed, overlaps int64) bool) (rounds, removed, overlaps int64, failed error) {
	dir := t.TempDir()
	var inside, nRounds, nRemoved, nOverlaps atomic.Int64
	var err atomic.Value
	var wg sync.WaitGroup
	deadline := time.Now().Add(patience)
	for range 6 {
		s := open(t, dir)
		wg.Go(func() {
			defer s.Close()
			p := store.NewProcess()
			for i := 0; time.Now().Before(deadline) && !enough(nRounds.Load(), nRemoved.Load(), nOverlaps.Load()); i++ {
				c := lockOf(p, "name")
				c.Try = true
				a, e := s.Ask(t.Context(), c)
				if e != nil {
					err.Store(e)
					return
				}
				if a.Granted {
					if inside.Add(1) > 1 {
						nOverlaps.Add(1)
					}
					os.Lstat(s.path("name")) // some time in which another process may come
					inside.Add(-1)
					nRounds.Add(1)
					if e := s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); e != nil {
						err.Store(e)
						return
					}
				}
				if i%8 == 0 && s.cleanName(s.path("name"), time.Now().Add(time.Hour)) {
					nRemoved.Add(1)
				}
			}
		})
	}
	wg.Wait()
	failed, _ = err.Load().(error)
	return nRounds.Load(), nRemoved.Load(), nOverlaps.Load(), failed
}

// If a state file is deleted by hand, the hold is lost, and no two processes hold in one file.
func TestAFileDeletedByHandIsALoss(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	defer other.Close()
	for what, remove := range map[string]func() error{
		"the file removed":      func() error { return os.Remove(s.path("name")) },
		"the directory removed": func() error { return os.RemoveAll(dir) },
		"the directory moved":   func() error { return os.Rename(dir, dir+".away") },
	} {
		h := lockSoon(t, s, "name")
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: renewal: got %v, want ErrLost", what, err)
		}
		next := lockSoon(t, other, "name")
		if next.Token <= h.Token {
			t.Errorf("%s: got token %d after %d, want a larger one", what, next.Token, h.Token)
		}
		if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: release: got %v, want ErrLost", what, err)
		}
		if err := other.Release(t.Context(), next); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestADirectoryThatIsRemovedAgainAndAgainIsMade(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "locks"))
	defer s.Close()
	tries := 0
	err := s.inDir(func() error {
		if tries++; tries <= 5 {
			if err := os.RemoveAll(s.dir); err != nil {
				return err
			}
		}
		_, err := os.Lstat(filepath.Join(s.dir, namesDir))
		return err
	})
	if err != nil || tries != 6 {
		t.Errorf("after %d tries: got %v, want it created at the sixth", tries, err)
	}
}

// Twenty threads take names while their directory is removed again and again. They may
// get a loss, but no other error.
func TestARemovedDirectoryIsNoError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	s := open(t, dir)
	defer s.Close()
	var asked, failed, removed atomic.Int64
	var first sync.Once
	fail := func(what string, err error) {
		failed.Add(1)
		first.Do(func() { t.Errorf("%s: %v", what, err) })
	}
	enough := func() bool { return asked.Load() > 2000 && removed.Load() > 50 }
	deadline := time.Now().Add(10 * patience)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for !enough() && time.Now().Before(deadline) {
				p := store.NewProcess() // whose FIFOs are recreated
				err := s.Watch(t.Context(), p, func(store.Notification) {})
				if err != nil {
					fail("watch", err)
				}
				c := lockOf(p, strconv.Itoa(n%10))
				c.Try = true
				a, err := s.Ask(t.Context(), c)
				asked.Add(1)
				if err != nil {
					fail("ask", err)
				} else if a.Granted {
					if err := s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil && !errors.Is(err, store.ErrLost) {
						fail("release", err)
					}
				}
				s.mu.Lock() // otherwise too many FIFOs would be open
				if pr := s.procs[p]; pr != nil {
					s.end(p, pr)
				}
				s.mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		// No ask meets so many removals that it gives up.
		for seen := int64(0); !enough() && time.Now().Before(deadline); {
			if now := asked.Load(); now < seen+10 {
				runtime.Gosched()
			} else if _, err := os.Lstat(dir); err == nil && os.RemoveAll(dir) == nil {
				removed.Add(1)
				seen = now
			}
		}
	})
	wg.Wait()
	t.Logf("%d errors in %d asks; the directory was removed %d times", failed.Load(), asked.Load(), removed.Load())
	if !enough() {
		t.Errorf("too few events in %v to prove anything", 10*patience)
	}
}
