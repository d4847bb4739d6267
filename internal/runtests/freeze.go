package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The shortest and the longest time for which all processes are frozen.
const shortest, longest = 8 * time.Second, 14 * time.Second

// A freezer freezes all processes of the tests now and then, including servers, as on a machine that stalls.
type freezer struct {
	group   *testserver.Cgroup
	pause   time.Duration        // between two freezes, on average
	still   func() time.Duration // returns how long the next freeze lasts
	after   func(time.Duration) <-chan time.Time
	out     io.Writer
	stopped time.Duration // in total
	times   int
}

func newFreezer(pause time.Duration, out io.Writer) (*freezer, error) {
	group, err := testserver.NewCgroup(2)
	if err != nil {
		return nil, err
	}
	still := func() time.Duration { return shortest + rand.N(longest-shortest) }
	return &freezer{group: group, pause: pause, still: still, after: time.After, out: out}, nil
}

// run runs the command and freezes it now and then. A signal that ends this process also ends the command, after
// thawing it.
func (f *freezer) run(cmd *exec.Cmd) error {
	if err := f.group.Take(0); err != nil { // so that the command is in the group from its first instruction
		return err
	}
	err := cmd.Start()
	if left := f.group.Leave(); err == nil {
		err = left
	}
	if err != nil {
		return err
	}
	ended, over := make(chan struct{}), make(chan struct{})
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(told)
	wait := func(d time.Duration) (on bool) {
		select {
		case <-f.after(d):
			return true
		case <-ended:
		case sig := <-told:
			defer cmd.Process.Signal(sig)
		}
		if err := f.group.Thaw(); err != nil {
			fmt.Fprintln(f.out, "runtests:", err)
		}
		return false
	}
	go func() {
		defer close(over)
		for wait(time.Duration(rand.ExpFloat64() * float64(f.pause))) {
			still := f.still()
			if err := f.group.Freeze(); err != nil {
				fmt.Fprintln(f.out, "runtests:", err)
				return
			}
			f.times, f.stopped = f.times+1, f.stopped+still
			if !wait(still) {
				return
			}
			if err := f.group.Thaw(); err != nil {
				fmt.Fprintln(f.out, "runtests:", err)
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-over
	return err
}

// close removes the group, and reports how often it was frozen.
func (f *freezer) close() {
	fmt.Fprintf(f.out, "frozen %d times, for %v in total\n", f.times, f.stopped.Round(time.Second))
	if err := f.group.Remove(); err != nil {
		fmt.Fprintln(f.out, "runtests: processes of the tests are left:", err)
	}
}
