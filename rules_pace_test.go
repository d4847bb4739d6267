package holdfast

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

// crowd has that many wait for a name that somebody else holds, each with a link of its own, in order.
func crowd(t *testing.T, mem *memstore.Store, many int, hold time.Duration) (links []*link, all *sync.WaitGroup) {
	t.Helper()
	all = &sync.WaitGroup{}
	for range many {
		l := linkTo(t, mem)
		m := locker(t, withPolls{l}, nil).Mutex("a")
		all.Go(func() {
			lease, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(hold)
			lease.Release()
		})
		links = append(links, l)
		time.Sleep(50 * time.Millisecond)
	}
	return links, all
}

// A crowd of those that poll is cheap: who is behind others polls as much less often.
func TestRule5_WhoWaitsBehindManyPollsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		o := other(t, mem, "a", time.Hour)
		links, all := crowd(t, mem, 10, 0)
		time.Sleep(10 * time.Second)
		first, last := len(links[0].made("poll")), len(links[9].made("poll"))
		if first < 15 || last > first/2 {
			t.Errorf("the first has polled %d times, and the last %d times", first, last)
		}
		o.release()
		all.Wait()
	})
}

// When a long hold has ended those behind it follow each other soon, though their pauses had grown.
func TestRule5_PollsKeepPaceWithTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		o := other(t, mem, "a", time.Hour)
		_, all := crowd(t, mem, 20, 20*time.Millisecond)
		time.Sleep(30 * time.Second)
		o.release()
		freed := time.Now()
		all.Wait()
		took := time.Since(freed)
		if t.Logf("%v", took); took > 6*time.Second {
			t.Errorf("20 holds of 20 ms took %v", took)
		}
	})
}
