package setnx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/prove"
)

// mine is how the prover reaches the lock. Its workers are this test's binary, started again. SETNX_NAIVE selects one
// of the two locks for them, too.
var mine = &prove.Own{Name: "SET NX on Redis", Locks: func(url string, ttl time.Duration, dial prove.Dial) (*prove.Locks, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o.Dialer, o.ContextTimeoutEnabled = dial, true
	l := &Locker{Redis: redis.NewClient(o), TTL: ttl, Naive: os.Getenv("SETNX_NAIVE") != ""}
	return &prove.Locks{Close: l.Redis.Close, Lock: func(ctx context.Context, name string, try bool) (*prove.Lease, error) {
		lock := l.Lock
		if try {
			lock = l.Try
		}
		x, err := lock(ctx, name)
		if errors.Is(err, ErrTaken) {
			return nil, fmt.Errorf("%w: %w", holdfast.ErrHeld, err)
		} else if err != nil {
			return nil, err
		}
		return &prove.Lease{Deadline: x.Until, Lost: x.Lost(), Release: func() error {
			err := x.Release(context.Background())
			if errors.Is(err, ErrGone) {
				err = fmt.Errorf("%w: %w", holdfast.ErrLost, err)
			}
			return err
		}}, nil
	}}, nil
}}

func TestMain(m *testing.M) {
	mine.Worker()
	os.Exit(m.Run())
}

func run(t *testing.T, o *prove.Options) *prove.Report {
	t.Helper()
	o.URL, o.Own, o.Processes, o.Seed = os.Getenv("SETNX_REDIS"), mine, 4, 1
	r, err := prove.Prove(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	r.Print(&text)
	t.Log("\n" + text.String())
	return r
}

// A defect that too short a run on a busy machine does not show, a longer run does.
func TestTheLockIsProved(t *testing.T) {
	for length := 3 * time.Second; ; length *= 2 {
		v := run(t, &prove.Options{For: length, TTL: time.Second}).Verdict
		if v.Proved {
			return
		}
		if len(v.Violations) > 0 || length > time.Minute {
			t.Fatal("not proved")
		}
	}
}

func TestTheBugOfTheNaiveLockIsFound(t *testing.T) {
	t.Setenv("SETNX_NAIVE", "1")
	began := time.Now()
	r := run(t, &prove.Options{For: 2 * time.Minute, TTL: time.Second, Stop: true, Faults: []prove.Fault{"stop>ttl"}})
	for _, w := range r.Verdict.Violations {
		if w.Check == 1 && strings.Contains(w.Cause, "released a lock that it had lost before") {
			t.Logf("found after %v: %s", time.Since(began).Round(time.Second), w.Cause)
			return
		}
	}
	t.Error("the release of another's lock was not found")
}
