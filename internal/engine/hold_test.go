package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A hold that has been seen as ended is not revived by a renewal that was answered
// in time but is read only later.
func TestALeaseSeenAsExpiredIsNotRevived(t *testing.T) { // rule 2
	var now clock.Instant
	s := &settings{Options: Options{TTL: 3 * time.Second, RenewEvery: time.Second}}
	h := &hold{e: &engine{now: func() clock.Instant { return now }}, s: s}
	h.ends(clock.Instant(3 * time.Second))
	answer := store.Renewal{TTL: 3 * time.Second}

	now = clock.Instant(2 * time.Second)
	if why := h.renewed(answer, now, now, now); why != nil || h.left() < 2*time.Second {
		t.Fatalf("a renewal in time: got %v, with %v left", why, h.left())
	}
	answered := now.Add(time.Second)
	now = now.Add(4 * time.Second)
	if left := h.left(); left > 0 {
		t.Fatalf("%v left, want none", left)
	}
	if why := h.renewed(answer, answered, answered, answered); !errors.Is(why, store.ErrLost) {
		t.Errorf("a renewal that is read late: got %v, want ErrLost", why)
	}
	if left := h.left(); left > 0 {
		t.Errorf("the lease is valid again: %v left", left)
	}
}

// Holds that were due together are due together again, although one call was sent later than another. The
// deadline counts from the sending.
func TestTheNextRenewalCountsFromWhenThisOneWasDue(t *testing.T) { // rule 4
	var now clock.Instant
	e := &engine{now: func() clock.Instant { return now }}
	s := &settings{Options: Options{TTL: 3 * time.Second, RenewEvery: time.Second}}
	cut := clock.Instant(2 * time.Second)
	for _, late := range []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond} {
		h := &hold{e: e, s: s}
		h.ends(clock.Instant(3 * time.Second))
		sent := cut.Add(late)
		now = sent
		if why := h.renewed(store.Renewal{TTL: 3 * time.Second}, cut, sent, now); why != nil {
			t.Fatal(why)
		}
		if next := h.renewAt.Sub(cut); next != time.Second {
			t.Errorf("sent %v late: renewed %v after it was due", late, next)
		}
		if want := e.deadlineOf(sent, 3*time.Second); h.deadline != want {
			t.Errorf("sent %v late: the deadline is %v, want %v", late, h.deadline, want)
		}
	}
}
