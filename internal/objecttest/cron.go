package objecttest

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Cron has cron start a job again and again, each time in a new process, after a holder has died. The job gets the
// name because the server's time shows that the lease has expired. On a server without time it gets the name by
// watching.
func Cron(t *testing.T, s Subject) {
	t.Helper()
	if s.Linked == nil {
		t.Skip("there is no link to this server")
	}
	t.Run("with times", func(t *testing.T) {
		t.Parallel()
		s.cron(t, s.Place(t))
	})
	t.Run("without times", func(t *testing.T) {
		t.Parallel()
		s.cron(t, s.withoutTime(t))
	})
}

const (
	// period is how often the job is started.
	period = time.Second
	// cronTTL is the TTL of the job's lock. The lock is lost only if the machine stalls for
	// most of it.
	cronTTL = 2 * object.MinTTL
)

func (s *Subject) cron(t *testing.T, place string) {
	linked, link := s.Linked(t, place)
	first := s.job(t, linked)
	if first == nil {
		t.Fatal("the first claim was refused")
	}
	for second := s.job(t, place); second != nil; second = s.job(t, place) {
		if first.Valid() {
			t.Fatal("two processes hold the name")
		}
		t.Log("the machine stood still, and the first lease had ended; trying once more")
		if err := second.Release(); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		until(t, "the name is free", func() bool { // the second job may have lost it too
			first = s.job(t, linked)
			return first != nil
		})
	}
	link.Cut() // nothing is received from it any more
	began, refused := time.Now(), 0
	until(t, "a try is granted", func() bool {
		if s.job(t, place) != nil {
			return true
		}
		refused++
		time.Sleep(period - time.Since(began)%period)
		return false
	})
	// The longest time is tested in package object, where no stall of the machine matters.
	t.Logf("granted %v after the last answer, after %d refusals", time.Since(began), refused)
}

// job runs one job, like holdfast run -n. It holds the name until the test ends, or returns nil if it was refused. It
// retries if the server does not answer in time.
func (s *Subject) job(t *testing.T, place string) *holdfast.Lease {
	t.Helper()
	locks, err := holdfast.New(s.start(t, place), &holdfast.Options{TTL: cronTTL, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	for {
		lease, err := locks.Mutex("nightly").TryLock(t.Context())
		switch {
		case err == nil || errors.Is(err, holdfast.ErrHeld):
			return lease
		case !errors.Is(err, holdfast.ErrUnavailable) || t.Context().Err() != nil:
			t.Fatal(err)
		}
	}
}

// WithoutTime tests which claims are refused on a server without time.
func WithoutTime(t *testing.T, s Subject) {
	t.Helper()
	p := s.open(t, s.withoutTime(t))
	for what, with := range map[string]func(*store.Claim){"minimum hold": func(c *store.Claim) { c.MinHold = time.Minute }, "lock delay": func(c *store.Claim) { c.LockDelay = time.Minute }} {
		c := storetest.Mutex(store.NewProcess(), "a")
		with(&c)
		if _, err := storetest.AskUntilAnswered(t, p, c); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("a %s: got %v, want ErrUnsupported", what, err)
		}
	}
}
