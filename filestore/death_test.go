//go:build linux || darwin

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// lockSoon waits for the name by notifications alone, no longer than a test may.
func lockSoon(t *testing.T, s *Store, name string) store.Hold {
	t.Helper()
	w, err := newWaiter(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	h, err := w.lock(ctx, lockOf(w.p, name), nil)
	if err != nil {
		t.Fatalf("the waiter was not notified: %v", err)
	}
	return h
}

// free reports whether a try is granted, and releases it.
func free(t *testing.T, s *Store, name string) bool {
	t.Helper()
	c := lockOf(store.NewProcess(), name)
	c.Try = true
	a, err := s.Ask(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if a.Granted {
		if err := s.Release(t.Context(), store.Hold{Name: name, ID: c.ID, Token: a.Token}); err != nil {
			t.Fatal(err)
		}
	}
	return a.Granted
}

// soon waits for what must happen.
var soon = testwait.Until

// waiting waits until n entries of the name wait.
func waiting(t *testing.T, s *Store, name string, n int) {
	t.Helper()
	soon(t, strconv.Itoa(n)+" entries wait", func() bool {
		q, err := s.peek(t.Context(), "read", name)
		if err != nil {
			t.Fatal(err)
		}
		have := 0
		for i := range q.Entries {
			if !q.Entries[i].Granted {
				have++
			}
		}
		return have == n
	})
}

// The holds of these tests last for an hour.
func TestAKilledHolderFreesTheNameAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	t.Run("for a try", func(t *testing.T) {
		h := start(t, "hold", dir, "tried")
		h.says("holding")
		if free(t, s, "tried") {
			t.Fatal("granted while the holder lives")
		}
		look := func() bool {
			a, err := s.Poll(t.Context(), lockOf(store.NewProcess(), "tried"))
			if err != nil {
				t.Fatal(err)
			}
			return a.Granted
		}
		if look() {
			t.Fatal("a poll would be granted while the holder lives")
		}
		h.kill()
		if !look() {
			t.Fatal("the entry of a dead holder blocks a poll")
		}
		if !free(t, s, "tried") {
			t.Fatal("refused because of a dead holder")
		}
	})
	t.Run("for a waiter", func(t *testing.T) {
		h := start(t, "hold", dir, "awaited")
		h.says("holding")
		killed := make(chan bool)
		go func() {
			defer close(killed)
			for q, err := s.peek(t.Context(), "read", "awaited"); err == nil && len(q.Entries) < 2; {
				time.Sleep(time.Millisecond)
				q, err = s.peek(t.Context(), "read", "awaited")
			}
			h.cmd.Process.Kill()
		}()
		lockSoon(t, s, "awaited")
		<-killed
	})
	t.Run("in a list", func(t *testing.T) {
		h := start(t, "hold", dir, "listed")
		h.says("holding")
		listed := func() (n int) {
			for st, err := range s.List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if st.Name == "listed" {
					n = len(st.Entries)
				}
			}
			return n
		}
		if listed() != 1 {
			t.Fatal("a living holder is not listed")
		}
		h.kill()
		if listed() != 0 {
			t.Fatal("a dead holder is listed")
		}
	})
}

func TestAKilledWaiterFreesItsPositionAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	first := start(t, "hold", dir, "name")
	first.says("holding")
	second := start(t, "hold", dir, "name")
	second.says("waiting")
	third := start(t, "hold", dir, "name")
	third.says("waiting")
	waiting(t, s, "name", 2)
	// The third watches the second, and drops its position.
	second.kill()
	waiting(t, s, "name", 1)
	first.end()
	third.says("holding")
}

// A release grants the name to a dead waiter, and no other process is there to see
// that.
func TestADeadWaiterIsNotGranted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	h := lockSoon(t, s, "name")
	dead := start(t, "hold", dir, "name")
	dead.says("waiting")
	dead.kill()
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	q, err := s.peek(t.Context(), "read", "name")
	if err != nil || len(q.Entries) != 0 {
		t.Fatalf("got entries %+v, %v, want none", q.Entries, err)
	}
}

func TestIfHolderAndFirstWaiterDieTheSecondIsGranted(t *testing.T) {
	dir := t.TempDir()
	var hs []*helper
	for i, word := range []string{"holding", "waiting", "waiting"} {
		hs = append(hs, start(t, "hold", dir, "name"))
		hs[i].says(word)
	}
	hs[0].signal(syscall.SIGKILL)
	hs[1].signal(syscall.SIGKILL)
	hs[2].says("holding")
}

// A stopped process is alive: its hold ends at its TTL, not before.
func TestAStoppedHolderLosesAtItsTTL(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	long, short := start(t, "hold", dir, "long"), start(t, "hold briefly", dir, "short")
	long.says("holding")
	short.says("holding")
	long.signal(syscall.SIGSTOP)
	short.signal(syscall.SIGSTOP)
	soon(t, "the short hold has expired", func() bool { return free(t, s, "short") })
	if free(t, s, "long") {
		t.Error("a stopped holder lost the name before its TTL")
	}
	short.signal(syscall.SIGCONT)
	short.says("lost")
}

// holdBriefly holds the name for two seconds. After it was stopped and continued, it
// checks whether it still holds.
func holdBriefly(s *Store, name string) error {
	went := make(chan os.Signal, 1)
	signal.Notify(went, syscall.SIGCONT)
	w, err := newWaiter(s)
	if err != nil {
		return err
	}
	c := lockOf(w.p, name)
	c.TTL = 2 * time.Second
	h, err := w.lock(context.Background(), c, nil)
	if err != nil {
		return err
	}
	fmt.Println("holding")
	<-went
	if err := s.Renew(context.Background(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		return fmt.Errorf("renewal after the TTL: %v", err)
	}
	fmt.Println("lost")
	return nil
}

// A process lives on in its child only on purpose.
func TestLifeDoesNotLeakToChildren(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	h := start(t, "hold and fork", dir, "name")
	h.says("holding")
	child := func() *os.Process {
		pid, err := strconv.Atoi(h.says("child"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Kill() })
		return p
	}
	plain, heir := child(), child()
	if err := plain.Signal(syscall.Signal(0)); err != nil {
		t.Fatal(err)
	}
	h.cmd.Process.Kill()
	h.cmd.Process.Wait()
	if free(t, s, "name") {
		t.Fatal("the name is free, although a child has the holder's FIFO open")
	}
	heir.Kill()
	soon(t, "the name is free", func() bool { return free(t, s, "name") })
}

// Closing a Store frees its holds, as its death would.
func TestAClosedStoreFreesWhatItHeld(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer other.Close()
	lockSoon(t, s, "name")
	if free(t, other, "name") {
		t.Fatal("two processes hold the name")
	}
	s.Close()
	if !free(t, other, "name") {
		t.Fatal("the name is not free, although its Store was closed")
	}
}

// An expired position is lost for its owner, also if the holder has died meanwhile
// and the name is free: one id never gets a second entry.
func TestALapsedPositionIsLostEvenIfTheHolderIsDead(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	lockSoon(t, other, "name")
	c := lockOf(store.NewProcess(), "name")
	c.PositionTTL = time.Minute
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	other.Close()
	now := s.now
	s.now = func() queue.Time {
		later := now()
		later.Clock += (2 * time.Minute).Microseconds()
		return later
	}
	if a, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrLost) {
		t.Fatalf("got %+v, %v, want ErrLost", a, err)
	}
	if !free(t, s, "name") {
		t.Fatal("the name is not free")
	}
}

// No process watches for the death of a dead holder, although its hold blocks for
// the lock delay: the notification of its death would come again and again.
func TestTheLockDelayOfADeadHolderIsWaitedForQuietly(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	c := lockOf(store.NewProcess(), "name")
	c.LockDelay = time.Hour
	if a, err := other.Ask(t.Context(), c); err != nil || !a.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	w, err := newWaiter(s)
	if err != nil {
		t.Fatal(err)
	}
	waits := lockOf(w.p, "name")
	if _, err := s.Ask(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	other.Close()
	soon(t, "the waiter is notified of the death", func() bool { return len(w.notifications) > 0 })
	a, err := s.Ask(t.Context(), waits)
	if err != nil || a.Granted || a.Until < 50*time.Minute {
		t.Fatalf("got %+v, %v, want refused until the LockDelay has passed", a, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watches) > 0 {
		t.Fatal("the dead holder is still watched")
	}
}

// Deleting the FIFOs of living processes leaves their holds to the TTL.
func TestTidyingUpFIFOsBreaksNoLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	h := start(t, "hold", dir, "name")
	h.says("holding")
	if err := os.RemoveAll(dir + "/" + procsDir); err != nil {
		t.Fatal(err)
	}
	if free(t, s, "name") {
		t.Fatal("the name of a living holder is free")
	}
	h.end()
	if !free(t, s, "name") {
		t.Fatal("the name is not free after its release")
	}
}

// A closed Store leaves no useless file in p.
func TestAStoreThatHoldsNothingLeavesNoFIFO(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Release(t.Context(), lockSoon(t, s, "name")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if left, err := os.ReadDir(dir + "/" + procsDir); err != nil || len(left) != 0 {
		t.Fatalf("files left: %v, %v", left, err)
	}
}

// beside starts two processes in a directory: the second holds a name, and the first
// waits for it.
func beside(t *testing.T) (s, other *Store, w *waiter) {
	t.Helper()
	dir := t.TempDir()
	s, other = open(t, dir), open(t, dir)
	t.Cleanup(func() {
		other.Close()
		s.Close()
	})
	lockSoon(t, other, "name")
	w, err := newWaiter(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, other, w
}

// A watch ends when no ask has needed it for a while, and with its Store.
func TestAnUnusedWatchEnds(t *testing.T) {
	set(t, &watchIdle, 50*time.Millisecond)
	s, other, w := beside(t)
	c := lockOf(w.p, "name")
	if _, err := s.Ask(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.lookOut(w.p, []store.Process{other.anyProcess()}) // an existing one is only kept for longer
	watched := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.watches)
	}
	soon(t, "the watch has ended", func() bool { return watched() == 0 })
}

// A waiter that comes just after a watch was given up gets a new one: otherwise no
// watch would notice the death.
func TestAnAbandonedWatchServesNoWaiter(t *testing.T) {
	s, other, w := beside(t)
	p := other.anyProcess()
	idle := &watch{used: time.Now().Add(-2 * watchIdle)}
	s.mu.Lock()
	s.watches[p] = idle
	s.mu.Unlock()
	if s.wanted(p, idle) {
		t.Fatal("an idle watch is kept")
	}
	s.lookOut(w.p, []store.Process{p})
	s.mu.Lock()
	defer s.mu.Unlock()
	if has := s.watches[p]; has == nil || has == idle {
		t.Errorf("the waiter has no watch, or the abandoned one: %v", has == idle)
	}
}
