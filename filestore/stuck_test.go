//go:build linux || darwin

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The one case that outlives a TTL.
func TestAProcessStoppedInsideTheSectionIsIndeterminateAndNamed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	other := lockSoon(t, s, "other")
	stuck := lockSoon(t, s, "name")

	h := start(t, "hold and stop", dir, "name")
	h.says("inside")
	isIndeterminate := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
			t.Fatalf("%s: got %v, want it indeterminate", what, err)
		}
		if pid := fmt.Sprintf("process %d (", h.cmd.Process.Pid); runtime.GOOS == "linux" && (!strings.Contains(err.Error(), pid) || !strings.Contains(err.Error(), "which is stopped")) {
			t.Fatalf("%s: %q does not name %q as stopped", what, err, pid)
		}
	}
	soon(t, "the error names the stopped process", func() bool {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer stop()
		_, err := s.Ask(ctx, lockOf(store.NewProcess(), "name"))
		return err != nil && (runtime.GOOS != "linux" || strings.Contains(err.Error(), "stopped"))
	})
	// givesUp runs an operation that is given up after a while but has begun by then, however slow this machine is.
	givesUp := func(f func(context.Context) error) (err error) {
		soon(t, "the operation has begun", func() bool {
			ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			err = f(ctx)
			return err == nil || !strings.Contains(err.Error(), "not begun")
		})
		return err
	}
	isIndeterminate("ask", givesUp(func(ctx context.Context) error {
		_, err := s.Ask(ctx, lockOf(store.NewProcess(), "name"))
		return err
	}))
	isIndeterminate("release", givesUp(func(ctx context.Context) error { return s.Release(ctx, stuck) }))

	// It does not block other names, not even in one batch.
	other.TTL *= 2
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan []store.Renewal)
	go func() { done <- s.Renew(ctx, []store.Hold{stuck, other, stuck}) }()
	soon(t, "the other name is renewed", func() bool {
		for st, err := range s.List(t.Context(), "other") {
			if err != nil {
				t.Fatal(err)
			}
			return st.Entries[0].Expires > other.TTL*3/4
		}
		return false
	})
	stop()
	out := <-done
	isIndeterminate("renew", out[0].Err)
	isIndeterminate("renew", out[2].Err)
	if out[1].Err != nil {
		t.Fatalf("renewal of another name: %v", out[1].Err)
	}

	// The others can also be released.
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	released := make(chan []error)
	go func() { released <- s.ReleaseAll(ctx, []store.Hold{stuck, other, stuck}) }()
	soon(t, "the other name is released", func() bool {
		for _, err := range s.List(t.Context(), "other") {
			if err != nil {
				t.Fatal(err)
			}
			return false
		}
		return true
	})
	stop()
	errs := <-released
	isIndeterminate("release all", errs[0])
	isIndeterminate("release all", errs[2])
	if errs[1] != nil {
		t.Fatalf("release of another name: %v", errs[1])
	}

	// If it continues or dies, all names work again.
	h.signal(syscall.SIGCONT)
	h.says("waiting")
	if err := s.Release(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	h.says("holding")
	h.end()

	h = start(t, "hold and stop", dir, "name")
	h.says("inside")
	h.kill()
	if !free(t, s, "name") {
		t.Fatal("the name is not free, although the process in the section was killed")
	}
}

// Who does not get in for all the others that do goes on: nothing is stuck. Who is inside for as long is named.
func TestACrowdAtANameIsNoOutage(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	defer other.Close()
	lockSoon(t, s, "name")
	file, err := os.OpenFile(s.path("name"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if ok, err := tryLock(file.Fd()); !ok || err != nil {
		t.Fatal("cannot lock the file:", err)
	}
	ask := func(within time.Duration) error {
		ctx, stop := context.WithTimeout(t.Context(), within)
		defer stop()
		_, err := s.Ask(ctx, lockOf(store.NewProcess(), "name"))
		return err
	}
	// Another goes in and out, as far as can be seen without the lock.
	goesIn := func() {
		fl, err := other.open("name", false)
		if err != nil {
			t.Fatal(err)
		}
		defer fl.done()
		if _, err := other.read(fl); err != nil {
			t.Fatal(err)
		}
		if err := other.write(fl, false); err != nil {
			t.Fatal(err)
		}
	}
	within := 50 * time.Millisecond
	soon(t, "a waiter behind others gets ErrContended", func() bool {
		within *= 2 // it may not have begun to wait
		out := make(chan error)
		go func() { out <- ask(within) }()
		for {
			select {
			case err := <-out:
				if err == nil || store.Definite(err) {
					t.Fatalf("got %v, want it indeterminate", err)
				}
				return errors.Is(err, store.ErrContended) && errors.Is(err, context.DeadlineExceeded)
			case <-time.After(time.Millisecond):
				goesIn()
			}
		}
	})
	if err := ask(within); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrContended) {
		t.Errorf("while one process stays in the section: got %v, want ErrUnavailable without ErrContended", err)
	}
}

func TestAnEndedContextIsReported(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := s.Ask(ctx, lockOf(store.NewProcess(), "name"))
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want ErrUnavailable and the error of the context", err)
	}
}

// The holds of one name are renewed and released in order, although its file comes
// free in the middle of the batch.
func TestABatchKeepsTheOrderOfOneName(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	first, other := lockSoon(t, s, "name"), lockSoon(t, s, "other")
	last := first
	first.TTL, last.TTL = 2*time.Hour, 3*time.Hour
	file, err := os.OpenFile(s.path("name"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lockUntilOther := func() {
		t.Helper()
		if ok, err := tryLock(file.Fd()); !ok || err != nil {
			t.Fatal("cannot lock the file:", err)
		}
		set(t, &inside, func() {
			inside = nil
			unlock(file.Fd())
		})
	}
	lockUntilOther()
	batch := []store.Hold{first, other, last}
	for i, r := range s.Renew(t.Context(), batch) {
		if r.Err != nil {
			t.Fatalf("renewal %d: %v", i, r.Err)
		}
	}
	for st, err := range s.List(t.Context(), "name") {
		if err != nil {
			t.Fatal(err)
		}
		if left := st.Entries[0].Expires; left <= first.TTL {
			t.Fatalf("the last renewal left %v of the TTL, want %v", left, last.TTL)
		}
	}
	lockUntilOther()
	errs := s.ReleaseAll(t.Context(), batch)
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], store.ErrLost) {
		t.Fatalf("got %v, want only the last to be lost", errs)
	}
}
