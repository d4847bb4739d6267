package record_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// crowdTrip is how long a request to a server takes that many ask at once.
const crowdTrip = 2 * time.Millisecond

// Many processes come at once for one name. What each costs the server does not grow with how many
// they are.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			if kind.o.Quiet {
				t.Skip("who waits polls")
			}
			m := recordtest.NewMemory(slow(kind.o))
			counts := &recordtest.Counts{}
			recordtest.Crowd(t, recordtest.CrowdSize(100), counts, func(t *testing.T) store.Store {
				c := m.Client()
				c.Fates(func(q recordtest.Request) recordtest.Fate {
					if q.Op != recordtest.OpNotify {
						counts.Add(string(q.Op))
						time.Sleep(crowdTrip)
					}
					return recordtest.Answered
				})
				return record.WatchStore{Store: record.New(c)}
			})
		})
	}
}
