package storetest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A trial in which the store has waited in vain for its server is repeated. One that fails at once, or with another error, is judged.
func TestATrialIsRepeatedOnlyIfTheServerDidNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err    error
			after  time.Duration
			judged bool
		}{
			{store.ErrUnavailable, slow, false},
			{store.ErrUnavailable, slow - 1, true},
			{store.ErrLost, slow, true},
			{errors.New("a server that does not answer"), slow, true},
		} {
			judged := inTime(func() {
				t := &trial{T: t}
				before := store.Now()
				time.Sleep(c.after)
				t.judge.answered(before, c.err)
				if t.judge.late() {
					t.Fatalf("the failure is reported: %v", c.err)
				}
			})
			if judged != c.judged {
				t.Errorf("%v after %v: got judged %v, want %v", c.err, c.after, judged, c.judged)
			}
		}
	})
}

// In a bubble nothing is slow: trials that never give a result end there, too.
func TestInconclusiveTrialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trials := 0
		never := func(t *trial) { t.soonEnough(false) }
		if anyTold(never, func(int) *trial { trials++; return &trial{T: t} }) {
			t.Error("the trials gave a result")
		}
		if trials < 10 || trials > 20+int(patience/time.Second) { // up to a second between two
			t.Errorf("%d trials in %v", trials, patience)
		}
	})
}
