package record_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// crowdCosts is the most requests that a lock in a crowd of 100 may cost: begin two sessions, listen, try, join, watch,
// release on an old record, and again, and the reads in between. It was measured as 10 to 14, and it varies by one.
const crowdCosts = 17

// quietCosts is crowdCosts without notifications: each claim polls, some two or three times. It was measured as 9 to 11.
const quietCosts = 13

// A busy server does one request after another, each in crowdTurn, and is crowdTrip away. Time
// passes only while all goroutines wait, so the speed of this machine does not matter.
const (
	crowdTurn = 50 * time.Microsecond
	crowdTrip = time.Millisecond
)

// Many processes claim one name at once. The requests for each do not grow with their
// number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		most := float64(crowdCosts)
		if kind.o.Quiet {
			most = quietCosts
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, turn := recordtest.NewMemory(kind.o), make(chan struct{}, 1)
				counts := &recordtest.Counts{}
				each, unanswered := recordtest.Crowd(t, recordtest.CrowdSize(100), counts, func(t *testing.T) store.Store {
					c := m.Client()
					c.Fates(func(q recordtest.Request) recordtest.Fate {
						if q.Op != recordtest.OpNotify && t.Context().Err() != context.Canceled {
							if q.Op != recordtest.OpSwap {
								counts.Add(string(q.Op))
							}
							time.Sleep(crowdTrip / 2)
							turn <- struct{}{}
							time.Sleep(crowdTurn)
							<-turn
							time.Sleep(crowdTrip / 2)
						}
						return recordtest.Answered
					})
					backend := record.Backend(reported{c, counts})
					if kind.o.Halves {
						backend = peeking{reported{c, counts}, c.Peeking().(record.Peeker)}
					}
					return watching(record.New(backend), kind.o)
				})
				if each > most || unanswered > 0 {
					t.Errorf("%.1f requests a lock, %d calls were not answered; want at most %v, and none", each, unanswered, most)
				}
			})
		})
	}
}

type peeking struct {
	reported
	record.Peeker
}

// A reported client counts the swaps by outcome.
type reported struct {
	*recordtest.Client
	counts *recordtest.Counts
}

func (c reported) Swap(ctx context.Context, w *record.Swap) (record.Outcome, error) {
	o, err := c.Client.Swap(ctx, w)
	switch {
	case o.Done && len(w.Old.Inbox) > 0:
		c.counts.Add("swap takes in")
	case o.Done:
		c.counts.Add("swap done")
	case o.Joined && w.Lost:
	case o.Joined:
		c.counts.Add("swap joins")
	case w.Join != nil:
		c.counts.Add("swap refused, not joined")
	default:
		c.counts.Add("swap refused")
	}
	return o, err
}
