package storetest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Killable is a store on a server that other processes can reach.
type Killable struct {
	// At makes a backing and returns where it is, on one line. It is called only in the
	// test process.
	At func(t *testing.T) string

	// Open opens one more store object there, which Killed closes. It is called in the test process, and in the
	// processes that are killed.
	Open func(t *testing.T, at string) store.Store

	// TTL is that of the holds. Zero: three seconds, or the least TTL of the store if that is
	// longer.
	TTL time.Duration
}

// killedEnv says what a process does until it is killed (it holds or waits), on which name,
// and where.
const killedEnv = "HOLDFAST_TEST_KILLED"

// Killed kills processes. The next claim must be granted within the TTL of a killed holder, plus a second,
// whether it waited already or comes later. A killed waiter must block those behind it for no longer than a
// position is kept, plus a second, however long the TTL is. Call it first in a test of its own: to hold the
// name, or to wait for it, a new process of the test program runs that test.
//
// The machine may stall during the measurement: one success in three tries is enough, or in as many as the
// patience of tests allows.
func Killed(t *testing.T, c Killable) {
	t.Helper()
	if says := strings.SplitN(os.Getenv(killedEnv), " ", 3); len(says) == 3 {
		c.killed(t, says[0] == holds, says[1], says[2])
		return
	}
	at, test := c.At(t), t.Name()
	t.Run("killed", func(t *testing.T) { // so that Killed returns only after all subtests
		for _, one := range []struct {
			what string
			ttl  time.Duration
			once func(*killing) (took time.Duration, conclusive bool)
		}{
			{"a waiter is granted", c.TTL, func(k *killing) (time.Duration, bool) { return k.once(true) }},
			{"a later claim is granted", c.TTL, func(k *killing) (time.Duration, bool) { return k.once(false) }},
			{"a waiter behind a waiter is granted", 3 * store.MaxPositionTTL, (*killing).behind},
		} {
			t.Run(one.what, func(t *testing.T) {
				t.Parallel()
				k := &killing{T: t, test: test, at: at}
				k.first, _ = c.locker(t, at, one.ttl)
				k.near, k.ttl = c.locker(t, at, one.ttl)
				k.eyes, _ = c.locker(t, at, one.ttl)
				for again, began := 0, time.Now(); again < 3 || time.Since(began) < patience; again++ {
					took, conclusive := one.once(k)
					t.Logf("granted after %v; conclusive: %v; the TTL is %v", took.Round(time.Millisecond), conclusive, k.ttl)
					if conclusive && took <= k.bound {
						return
					}
				}
				t.Errorf("each time later than %v", k.bound)
			})
		}
	})
}

// What a process does until it is killed.
const (
	holds = "holds"
	waits = "waits"
)

// killed runs in the process that is killed.
func (c *Killable) killed(t *testing.T, holds bool, name, at string) {
	t.Helper()
	ttl := c.TTL
	if !holds {
		ttl = 3 * store.MaxPositionTTL
		fmt.Println(killedEnv)
	}
	l, _ := c.locker(t, at, ttl)
	if _, err := lock(t.Context(), l, name); err != nil {
		t.Fatal(err)
	}
	if holds {
		fmt.Println(killedEnv)
	}
	io.Copy(io.Discard, os.Stdin) // stdin ends with the test process
}

// locker returns the Locker of one process, closed with the test, and the TTL of its holds: ttl, or three seconds if it
// is zero, and at least the MinTTL of the store.
func (c *Killable) locker(t *testing.T, at string, ttl time.Duration) (*holdfast.Locker, time.Duration) {
	t.Helper()
	s := c.Open(t, at)
	ttl = max(cmp.Or(ttl, 3*time.Second), s.Describe().MinTTL)
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, ttl
}

// lock takes a name, however often the server does not answer in time.
func lock(ctx context.Context, l *holdfast.Locker, name string) (*holdfast.Lease, error) {
	for {
		lease, err := l.Mutex(name).Lock(ctx)
		if !errors.Is(err, holdfast.ErrUnavailable) || ctx.Err() != nil {
			return lease, err
		}
	}
}

// killing has the processes that are not killed: first holds the name before, near takes it after the kill,
// and eyes watches.
type killing struct {
	*testing.T
	test, at          string
	ttl, bound        time.Duration
	first, near, eyes *holdfast.Locker
}

// taken is the result of taking a name, and when it came.
type taken struct {
	lease *holdfast.Lease
	err   error
	when  time.Time
}

// once returns how long after the kill of its holder a name was taken. conclusive is false if the machine stalled for
// so long that the holder had lost the name before.
func (k *killing) once(waits bool) (took time.Duration, conclusive bool) {
	k.Helper()
	k.bound = k.ttl + time.Second
	name := "killed/" + random()
	kill := k.starts(holds, name)
	got, cancel := make(chan taken, 1), context.CancelFunc(nil)
	waiting := 0
	if waits {
		cancel = k.take(name, got)
		waiting = 1
	}
	stalled := k.sees(name, waiting, got)
	killed := time.Now()
	kill()
	if !waits {
		cancel = k.take(name, got)
	}
	defer cancel()
	when := k.in(got, cancel, killed)
	return when.Sub(killed), !stalled && !when.Before(killed)
}

// behind returns how long after the kill of a waiter the one behind it had the name, which its holder releases
// right after the kill.
func (k *killing) behind() (took time.Duration, conclusive bool) {
	k.Helper()
	k.bound = min(k.ttl, store.MaxPositionTTL) + time.Second
	name := "killed/" + random()
	lease, err := lock(k.Context(), k.first, name)
	if err != nil {
		k.Fatal(err)
	}
	kill := k.starts(waits, name)
	got := make(chan taken, 1)
	stalled := k.sees(name, 1, got)
	cancel := k.take(name, got)
	defer cancel()
	stalled = stalled || k.sees(name, 2, got)
	killed := time.Now()
	kill()
	k.gives(lease)
	when := k.in(got, cancel, killed)
	return when.Sub(killed), !stalled && !when.Before(killed)
}

// take makes the near process take a name, until cancel is called.
func (k *killing) take(name string, got chan<- taken) (cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(k.Context())
	go func() {
		lease, err := lock(ctx, k.near, name)
		got <- taken{lease, err, time.Now()}
	}()
	return cancel
}

// sees waits until a name is held and that many wait for it. stalled: the name is no longer held.
func (k *killing) sees(name string, waiting int, got <-chan taken) (stalled bool) {
	k.Helper()
	for begun := time.Now(); len(got) == 0; time.Sleep(5 * time.Millisecond) {
		lease, err := k.eyes.Mutex(name).TryLock(k.Context())
		if err == nil {
			k.gives(lease)
			return true
		}
		if held := (*holdfast.HeldError)(nil); errors.As(err, &held) && held.Waiting >= waiting {
			return false
		}
		if time.Since(begun) > patience {
			k.Fatalf("after %v still not: the name is held, and %d wait for it: %v", patience, waiting, err)
		}
	}
	return false
}

// in returns when the near process got the name, and releases it.
func (k *killing) in(got <-chan taken, cancel context.CancelFunc, killed time.Time) time.Time {
	k.Helper()
	end := time.AfterFunc(k.bound+patience, cancel) // this is far too late
	defer end.Stop()
	one := <-got
	if one.err != nil {
		k.Fatalf("not granted within %v after another process was killed: %v", time.Since(killed).Round(time.Second), one.err)
	}
	k.gives(one.lease)
	return one.when
}

func (k *killing) gives(l *holdfast.Lease) {
	k.Helper()
	if err := l.Release(); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
		k.Fatal(err)
	}
}

// starts starts a process that holds a name, or waits for it, and returns a function that kills it. The end of the test
// kills it at the latest.
func (k *killing) starts(what, name string) (kill func()) {
	k.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+k.test+"$")
	cmd.Env = append(os.Environ(), killedEnv+"="+what+" "+name+" "+k.at)
	cmd.Stderr = k.Output()
	_, err := cmd.StdinPipe()
	if err != nil {
		k.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	k.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == killedEnv {
			return kill
		}
		k.Log(lines.Text())
	}
	k.Fatal("the process to be killed has ended")
	return nil
}
