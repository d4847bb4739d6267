package holdfast

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// crowd lets so many claims wait for a name that another process holds, each with a link of its own, in order.
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

// A crowd of polling waiters is cheap: a waiter polls less often the more are ahead of it.
func TestAWaiterBehindManyPollsSeldom(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		o := other(t, mem, "a", time.Hour)
		links, all := crowd(t, mem, 10, 0)
		time.Sleep(10 * time.Second)
		first, last := len(links[0].made("poll")), len(links[9].made("poll"))
		if first < 15 || last > first/2 {
			t.Errorf("the first polled %d times, and the last %d times; want at least 15, and at most half of that", first, last)
		}
		o.release()
		all.Wait()
	})
}

// A waiter for a name that changes hands quickly polls often, however long it has waited.
func TestPollsKeepPaceWithTheQueue(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var all sync.WaitGroup
		var locked atomic.Int64
		for range 8 {
			m := locker(t, withPolls{linkTo(t, mem)}, nil).Mutex("a")
			all.Go(func() {
				for {
					lease, err := m.Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
					locked.Add(1)
					lease.Release()
				}
			})
		}
		if all.Wait(); locked.Load() < 1000 {
			t.Errorf("8 claims that hold the name for 20 ms each had it %d times in a minute, want at least 1000", locked.Load())
		}
	})
}

// A withSession is a store whose polls report that a session keeps the position.
type withSession struct{ withPolls }

func (s withSession) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	from := store.Now()
	a, err := s.withPolls.Poll(ctx, c)
	if a.From = from; a.Granted {
		a.TTL = c.TTL
	}
	return a, err
}

// A poll that finds the claim granted replaces an ask, unless the token of a minimum hold must be shown.
func TestAPollThatFindsTheGrantIsTheGrant(t *testing.T) { // rule 5
	for minHold, want := range map[time.Duration]int{0: 1, time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			o := other(t, s.mem, "a", time.Hour)
			w := waits(t, locker(t, withSession{withPolls{s}}, &Options{MinHold: minHold}).Mutex("a").Lock)
			time.Sleep(2 * time.Second)
			o.release()
			l := w.got()
			if asks := len(s.made("ask")); asks != want {
				t.Errorf("with a MinHold of %v: got %d asks, want %d", minHold, asks, want)
			}
			release(t, l)
		})
	}
}

// If a poll reports since when the position counts, the waiter need not ask to keep it.
func TestAPollThatConfirmsThePositionSparesTheAsk(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withSession{withPolls{s}}, nil).Mutex("a").Lock)
		time.Sleep(9 * time.Second) // in memory a position has its own expiry
		if asks, polls := len(s.made("ask")), len(s.made("poll")); asks != 1 || polls < 10 {
			t.Errorf("got %d asks and %d polls, want one ask and at least 10 polls", asks, polls)
		}
		o.release()
		w.got()
	})
}

// The claims in the local queue learn from their process's polls who holds.
func TestAPollReportsTheHolderToTheLocalQueue(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		first := other(t, s.mem, "a", time.Hour)
		second := other(t, s.mem, "a", time.Hour) // waits
		m := locker(t, withSession{withPolls{s}}, nil).Mutex("a")
		inside := waits(t, m.Lock)
		inLine := waits(t, func(ctx context.Context) (*Lease, error) {
			ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
			defer cancel()
			return m.Lock(ctx)
		})
		time.Sleep(2 * time.Second)
		first.release()
		second.ask()
		inLine.wait()
		same(t, "id of the holder", heldBy(t, inLine.err).ID, second.c.ID.String())
		second.release()
		inside.got()
	})
}
