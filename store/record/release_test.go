package record_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// The caller does not repeat the release; its process does, as the owner sent it. So there is no lock delay as after a crash.
func TestAnUnansweredReleaseKeepsTheMinimumHold(t *testing.T) {
	t.Parallel()
	const keep, delay = 5 * time.Second, time.Minute
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim(func(c *store.Claim) { c.MinHold, c.LockDelay = keep, delay }))
		p.once(recordtest.OpSwap, 1, recordtest.Lost)
		if err := p.Release(t.Context(), h); err == nil {
			t.Fatal("the release succeeded, although its request was lost")
		}
		time.Sleep(time.Second)
		a := q.ask(q.claim(try))
		if a.Granted {
			t.Fatal("granted before the minimum hold has ended")
		}
		if e := a.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends > keep {
			t.Fatalf("blocked by %+v, want the released hold, for at most %v", e, keep)
		}
		time.Sleep(keep)
		q.takes(q.claim(try))
	})
}
