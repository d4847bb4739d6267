package redisstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A hold that was released while the clock was behind its grant stays until the clock has passed
// the grant. If it is freed meanwhile, it stays as long, for its owner to learn the reason: so the
// rule says (queue.Entry).
func TestAFreedHoldStaysUntilTheRuleEndsIt(t *testing.T) {
	t.Parallel()
	for _, shape := range []shape{{2, 1}, usual} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			granted := time.Now().UnixMicro()
			at := func(d time.Duration) { now.Store(granted + d.Microseconds()) }
			s, err := newStore(clientOf(t, testserver.Redis(t).Addr), nil, now.Load, shape)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			at(0)
			h := storetest.MustHold(t, s, storetest.Mutex(store.NewProcess(), "a"))
			at(-70 * time.Millisecond)
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			at(-140 * time.Millisecond)
			if err := s.BreakHold(t.Context(), store.Break{Name: "a", ID: h.ID, Token: h.Token, Now: true, Reason: "why"}); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				at    time.Duration
				stays int
			}{{-60 * time.Millisecond, 1}, {time.Millisecond, 0}} {
				at(step.at)
				if _, err := s.Ask(t.Context(), storetest.Mutex(store.NewProcess(), "a")); err != nil { // each ask settles the queue
					t.Fatal(err)
				}
				freed := 0
				q, _ := stored(t, s, "a", shape)
				for i := range q.Entries {
					if q.Entries[i].Freed() {
						freed++
					}
				}
				if freed != step.stays {
					t.Errorf("%v after the grant %d freed holds are stored, want %d", step.at, freed, step.stays)
				}
			}
		})
	}
}
