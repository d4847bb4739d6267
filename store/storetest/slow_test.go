package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
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

// A lost is a store whose holds are all lost, and which takes that long to grant.
type lost struct {
	store.Store
	takes time.Duration
}

func (l lost) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	time.Sleep(l.takes)
	return l.Store.Ask(context.WithoutCancel(ctx), c) // the caller has waited
}

func (l lost) Renew(_ context.Context, holds []store.Hold) []store.Renewal {
	return slices.Repeat([]store.Renewal{{Err: store.ErrLost}}, len(holds))
}

// A hold was granted, and then the server stood still until the hold was lost, before anything renewed it: that is not
// judged.
func TestALossNextToAFaultIsNotJudgedIfTheServerStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		judged := inTime(func() {
			t := newTrial(t, nil, s.Describe())
			standstill := t.lastsLong()/2 + 1
			end := t.keep(lost{s, 0}, store.NewProcess(), lost{s, standstill}, store.NewProcess())
			synctest.Wait() // for the first renewals
			end()
		})
		if judged {
			t.Error("the trial counts, although its holds were lost while the server stood still")
		}
	})
}
