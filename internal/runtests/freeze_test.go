package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a command has started stands still with it, and goes on with it. It is not parallel: a command that another test
// starts while this process is in the group would be in the group too.
func TestFreezeStopsACommandAndWhatItHasStarted(t *testing.T) {
	f, err := newFreezer(time.Hour, io.Discard)
	if err != nil {
		t.Skip(err)
	}
	beats := filepath.Join(t.TempDir(), "beats")
	count := func() int64 {
		info, err := os.Stat(beats)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	stop := filepath.Join(t.TempDir(), "stop")
	f.still = func() time.Duration { return time.Minute }
	waits := 0
	f.after = func(time.Duration) <-chan time.Time {
		if waits++; waits == 5 {
			if err := os.WriteFile(stop, nil, 0o600); err != nil {
				t.Error(err)
			}
			return nil
		}
		before := count()
		if waits%2 == 1 {
			until(t, "the command runs", func() bool { return count() > before })
		} else {
			until(t, "all its processes are frozen", func() bool {
				text, err := os.ReadFile(filepath.Join(f.group.Dir, "cgroup.events"))
				return err == nil && strings.Contains(string(text), "frozen 1")
			})
			before = count()
			time.Sleep(50 * time.Millisecond) // ten beats of what runs
			if n := count(); n != before {
				t.Errorf("the command is frozen, but made %d more steps", n-before)
			}
		}
		over := make(chan time.Time, 1)
		over <- time.Time{}
		return over
	}
	cmd := exec.Command("sh", "-c", `sh -c 'until [ -e "$1" ]; do echo >>"$0"; sleep 0.005; done' "$0" "$1" & wait`, beats, stop)
	if err := f.run(cmd); err != nil {
		t.Error(err)
	}
	if f.times != 2 || f.stopped != 2*time.Minute {
		t.Errorf("frozen %d times for %v, want twice for two minutes", f.times, f.stopped)
	}
	if err := f.group.Remove(); err != nil {
		t.Error(err)
	}
}

// until is testwait.Until for a goroutine that is not the test's, and so cannot end the test.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for begun := time.Now(); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Errorf("after a minute still not: %s", what)
			return
		}
	}
}
