package main

import (
	"testing"
	"time"
)

// After a message that the store does not answer, its first answer is reported at once.
func TestAWaitIsReportedAtOnceWhenTheStoreAnswers(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	in, out, away := &queue{known: true, placed: true}, &queue{known: true}, &queue{}
	w := new(watch)
	for _, step := range []struct {
		after time.Duration
		q     *queue
		told  bool
	}{
		{0, out, false}, // the lock may be free at once
		{time.Second, away, true},
		{2 * time.Second, away, false},
		{3 * time.Second, out, false},
		{4 * time.Second, in, true}, // not a minute later
		{5 * time.Second, in, false},
		{6 * time.Second, away, false}, // occasional slowness is not reported
		{7 * time.Second, in, false},
		{64 * time.Second, in, true},
		{125 * time.Second, away, true},
		{126 * time.Second, in, true},
	} {
		now := start.Add(step.after)
		if got := w.due(step.q, now); got != step.told {
			t.Fatalf("after %v: %v, want %v", step.after, got, step.told)
		}
		if step.told {
			w.told, w.known = now, step.q.known
		}
	}
}
