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
	// At makes a backing and says where it is, on one line. It is called in the test alone.
	At func(t *testing.T) string

	// Open opens one more store object there, which Killed has closed. It is called in the test, and in the processes
	// that are killed.
	Open func(t *testing.T, at string) store.Store

	// TTL is that of the holds; three seconds, or the least that the store keeps, if it is zero.
	TTL time.Duration
}

// killedEnv has the name that a process holds until it is killed, and where.
const killedEnv = "HOLDFAST_TEST_KILLED"

// Killed kills processes that hold a name: within the TTL and a second the next is in, both one that waits already and
// one that comes then. It is called in a test of its own, at its top: to hold the name, a new process of the
// test program runs that test.
//
// A machine may stall while that is timed: one time of three will do, or of as many as there is patience for.
func Killed(t *testing.T, c Killable) {
	t.Helper()
	if name, at, holds := strings.Cut(os.Getenv(killedEnv), " "); holds {
		l, _ := c.locker(t, at)
		if _, err := lock(t.Context(), l, name); err != nil {
			t.Fatal(err)
		}
		fmt.Println(killedEnv)
		io.Copy(io.Discard, os.Stdin) // it ends with the process that was to kill this one
		return
	}
	at, test := c.At(t), t.Name()
	t.Run("killed", func(t *testing.T) { // so that Killed returns when both have ended
		for what, waits := range map[string]bool{"who waits is in": true, "who comes is in": false} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				k := &killing{T: t, test: test, at: at}
				k.near, k.ttl = c.locker(t, at)
				k.eyes, _ = c.locker(t, at)
				for again, began := 0, time.Now(); again < 3 || time.Since(began) < patience; again++ {
					took, told := k.once(waits)
					t.Logf("in after %v: %v; the TTL is %v", took.Round(time.Millisecond), told, k.ttl)
					if told && took <= k.ttl+time.Second {
						return
					}
				}
				t.Error("each time it was later than that")
			})
		}
	})
}

// locker is the locks of one process, closed with the test, and for how long its holds last.
func (c *Killable) locker(t *testing.T, at string) (*holdfast.Locker, time.Duration) {
	t.Helper()
	s := c.Open(t, at)
	ttl := max(cmp.Or(c.TTL, 3*time.Second), s.Describe().MinTTL)
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

// killing is two processes that live: one takes what was held, the other looks.
type killing struct {
	*testing.T
	test, at   string
	ttl        time.Duration
	near, eyes *holdfast.Locker
}

// taken is what came of taking a name, and when.
type taken struct {
	lease *holdfast.Lease
	err   error
	when  time.Time
}

// once returns how long after the end of its holder a name was taken. told is false if the machine stalled for so long
// that the holder had lost it before.
func (k *killing) once(waits bool) (took time.Duration, told bool) {
	k.Helper()
	name := "killed/" + random()
	kill := k.holder(name)
	ctx, cancel := context.WithCancel(k.Context())
	defer cancel()
	got := make(chan taken, 1)
	take := func() {
		go func() {
			lease, err := lock(ctx, k.near, name)
			got <- taken{lease, err, time.Now()}
		}()
	}
	if waits {
		take()
	}
	stalled := false
	for begun := time.Now(); len(got) == 0; time.Sleep(5 * time.Millisecond) {
		lease, err := k.eyes.Mutex(name).TryLock(k.Context())
		if stalled = err == nil; stalled {
			k.gives(lease)
			break
		}
		if held := (*holdfast.HeldError)(nil); errors.As(err, &held) && (held.Waiting > 0 || !waits) {
			break
		}
		if time.Since(begun) > patience {
			k.Fatalf("after %v still not seen: the name is held, and waited for: %v: %v", patience, waits, err)
		}
	}
	killed := time.Now()
	kill()
	if !waits {
		take()
	}
	end := time.AfterFunc(k.ttl+time.Second+patience, cancel) // it is far too late
	defer end.Stop()
	one := <-got
	if one.err != nil {
		k.Fatalf("not in %v after the holder was killed: %v", time.Since(killed).Round(time.Second), one.err)
	}
	k.gives(one.lease)
	return one.when.Sub(killed), !stalled && !one.when.Before(killed)
}

func (k *killing) gives(l *holdfast.Lease) {
	k.Helper()
	if err := l.Release(); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
		k.Fatal(err)
	}
}

// holder starts a process that holds a name, and returns what kills it, which the end of the test does at the latest.
func (k *killing) holder(name string) (kill func()) {
	k.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+k.test+"$")
	cmd.Env = append(os.Environ(), killedEnv+"="+name+" "+k.at)
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
	k.Fatal("the process that was to hold the name has ended")
	return nil
}
