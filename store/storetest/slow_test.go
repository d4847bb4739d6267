package storetest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A trial in which the store has waited in vain for its server is made again; one that fails at once, or says more than that, is judged.
func TestATrialIsMadeAgainOnlyIfTheStoreWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err    error
			after  time.Duration
			judged bool
		}{
			{store.ErrUnavailable, slow, false},
			{store.ErrUnavailable, slow - 1, true},
			{store.ErrLost, slow, true},
			{errors.New("no store says so"), slow, true},
		} {
			judged := inTime(&trial{T: t}, func(*trial) {
				before := store.Now()
				time.Sleep(c.after)
				inTimeAfter(before, c.err)
			})
			if judged != c.judged {
				t.Errorf("%v after %v: judged %v, want %v", c.err, c.after, judged, c.judged)
			}
		}
	})
}
