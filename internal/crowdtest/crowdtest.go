// Package crowdtest has many processes want one name all the time, on a store that they share, and sees that one holds it at a time and that
// tokens grow. They are the test's own binary.
package crowdtest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

const env = "HOLDFAST_TEST_CROWD_AT"

// At is where the store of a process of the crowd is; empty: this is the test. TestMain asks, and calls Work in a process of the crowd.
func At() string { return os.Getenv(env) }

// A stay is what one process saw of a hold: from when to when it was sure to have it.
type stay struct{ token, from, to int64 }

// Work takes one name again and again until the test has seen enough, and prints its stays.
func Work(s store.Store) error {
	ttl := s.Describe().MinTTL
	if os.Getpid()%2 == 0 { // on a busy machine the shortest expires for all before any of them is served
		ttl *= 5
	}
	locks, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	for ctx.Err() == nil {
		lease, err := locks.Mutex("one").Lock(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
				return err
			}
			continue
		}
		// The deadline is read at once: that of an expired lease is the instant at which it is read.
		from, deadline := time.Now(), lease.Deadline()
		had := lease.Valid()
		time.Sleep(time.Millisecond)
		to := time.Now()
		if !lease.Valid() && deadline.Before(to) {
			to = deadline
		}
		lease.Release()
		if had && to.After(from) {
			fmt.Println(lease.Token(), from.UnixNano(), to.UnixNano())
		}
	}
	return nil
}

// Run has ten processes want one name of the store at that place, about half of them with the shortest TTL there is, for three seconds and
// until they have had it a hundred times. HOLDFAST_TEST_CROWD_FOR is for how long instead; a minute shows more.
func Run(t *testing.T, at string) {
	t.Helper()
	least, err := time.ParseDuration(cmp.Or(os.Getenv("HOLDFAST_TEST_CROWD_FOR"), "3s"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []stay
	var running sync.WaitGroup
	var ends []func() error
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), env+"="+at)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, in.Close)
		running.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var one stay
				if _, err := fmt.Sscan(lines.Text(), &one.token, &one.from, &one.to); err != nil {
					t.Errorf("%q: %v", lines.Text(), err)
				}
				mu.Lock()
				all = append(all, one)
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("a process of the crowd: %v", err)
			}
		})
	}
	time.Sleep(least)
	const enough = 100
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		n := len(all)
		mu.Unlock()
		if n >= enough {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("they have had it %d times, want %d", n, enough)
			break
		}
	}
	for _, end := range ends {
		end()
	}
	running.Wait()
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(all); i++ {
		if before, now := all[i-1], all[i]; now.from < before.to || now.token <= before.token {
			t.Errorf("%+v and then %+v", before, now)
		}
	}
	t.Logf("%d holds", len(all))
}
