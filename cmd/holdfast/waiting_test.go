package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
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
			t.Fatalf("after %v: got due %v, want %v", step.after, got, step.told)
		}
		if step.told {
			w.told, w.known = now, step.q.known
		}
	}
}

// -w counts from the start of the program. Opening the store takes some of its time.
func TestTheTimeLeftIsThatOfTheLimit(t *testing.T) {
	was := stderr
	defer func() { stderr = was }()
	synctest.Test(t, func(t *testing.T) {
		mem, start := memstore.New(), time.Now()
		held, err := opened(t, mem, nil).Mutex("a").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Release()
		j := &job{names: []string{"a"}, json: true, waits: true, wait: duration(time.Minute), begun: start, conflict: exitHeld}
		var told bytes.Buffer
		stderr = &voice{to: &told, journal: newJournal(j)}
		time.Sleep(20 * time.Second)
		forget := j.watch(mem, holdfast.ThisProcess())
		_, err = j.acquire(opened(t, mem, nil), nil)
		forget()
		if took := time.Since(start); err == nil || took != time.Minute {
			t.Errorf("%v after %v, want the refusal after 1m", err, took)
		}
		if first, _, _ := strings.Cut(told.String(), "\n"); !strings.Contains(first, "waiting for a, next in line, 40s left: held by ") {
			t.Errorf("20s after the start of 1m it says\n%s", first)
		}
	})
}
