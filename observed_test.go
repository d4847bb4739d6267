package holdfast

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// withNames is a link that also notifies the observers of a name.
type withNames struct {
	withList
	unsupported bool
	watching    *int // how many are
}

func (s withNames) WatchName(ctx context.Context, name string, changed func()) (stop func(), err error) {
	err = s.do(ctx, &call{op: "watch name", name: name}, nil, func(fate) error {
		if s.unsupported {
			return store.ErrUnsupported
		}
		end, err := s.mem.WatchName(ctx, name, changed)
		*s.watching++
		stop = func() {
			end()
			*s.watching--
		}
		return err
	})
	return stop, err
}

// named is such a link to a memory store.
func named(t testing.TB, mem *memstore.Store) withNames {
	return withNames{withList: listed(t, mem), watching: new(int)}
}

// observes follows the leader of an election through the store until the test ends.
func observes(t *testing.T, s store.Store) (news <-chan Leader) {
	seen := make(chan Leader, 100)
	e := locker(t, s, nil).Election("leader")
	go func() {
		for leader, err := range e.Observe(t.Context()) {
			if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			seen <- leader
		}
	}()
	synctest.Wait()
	return seen
}

func TestObserve_IsNotifiedIfTheStoreCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := named(t, mem)
		news := observes(t, s)
		same(t, "at first", (<-news).Nobody(), true)
		same(t, "calls", s.ops(), "list watch name list")
		one := candidate(t, mem, "one").Election("leader")
		for range 3 {
			time.Sleep(time.Minute)
			before := time.Now()
			term := waits(t, one.Campaign).got()
			same(t, "leader", (<-news).Note, "one")
			same(t, "after", time.Since(before), 0)
			time.Sleep(time.Minute)
			before = time.Now()
			release(t, term)
			same(t, "leader", (<-news).Note, "")
			same(t, "after", time.Since(before), 0)
		}
		if n := strings.Count(s.ops(), "list"); n > 120 { // six minutes, a poll each ten seconds and one for each renewal
			t.Errorf("%d reads in 6 minutes, want at most 120", n)
		}
	})
}

func TestObserve_NothingIsMissedAsItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := named(t, mem)
		s.on(func(c *call) fate {
			if c.op == "watch name" {
				return fate{there: time.Second}
			}
			return fate{}
		})
		news := observes(t, s)
		same(t, "at first", (<-news).Nobody(), true)
		waits(t, candidate(t, mem, "one").Election("leader").Campaign).got() // before it is watched
		before := time.Now()
		same(t, "leader", (<-news).Note, "one")
		same(t, "after", time.Since(before), time.Second)
	})
}

// An observer that was notified but could not read reads again soon: no second notification comes.
func TestObserve_AFailedReadIsRepeatedSoonDespiteNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := named(t, mem)
		news := observes(t, s)
		same(t, "at first", (<-news).Nobody(), true)
		s.on(func(c *call) fate {
			if c.op == "list" {
				return fate{fail: errLink}
			}
			return fate{}
		})
		waits(t, candidate(t, mem, "one").Election("leader").Campaign).got()
		same(t, "no leader after the failure", (<-news).Nobody(), true)
		time.Sleep(2 * time.Second)
		s.on(nil)
		before := time.Now()
		same(t, "leader", (<-news).Note, "one")
		if late := time.Since(before); late > time.Second {
			t.Errorf("the change was seen %v after the store could be read, want at most 1s", late)
		}
		n := len(s.made("list"))
		time.Sleep(time.Minute)
		if more := len(s.made("list")) - n; more > 20 { // a poll each ten seconds and one for each renewal
			t.Errorf("%d reads in the next minute, want at most 20", more)
		}
	})
}

// A store that fails to notify, or cannot, is polled; the subscription is tried again later.
func TestObserve_WithoutNotificationsItPolls(t *testing.T) {
	for _, unsupported := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			s := named(t, mem)
			s.unsupported = unsupported
			var fails atomic.Bool
			fails.Store(true)
			s.on(func(c *call) fate {
				if c.op == "watch name" && fails.Load() && !unsupported {
					return fate{fail: errLink}
				}
				return fate{}
			})
			news := observes(t, s)
			same(t, "at first", (<-news).Nobody(), true)
			time.Sleep(2 * time.Second)
			term := waits(t, candidate(t, mem, "one").Election("leader").Campaign).got()
			before := time.Now()
			same(t, "leader", (<-news).Note, "one")
			if late := time.Since(before); late > time.Second {
				t.Errorf("the change was seen after %v, want at most 1s", late)
			}
			tries := len(s.made("watch name"))
			same(t, "tries", tries, 1)
			fails.Store(false)
			time.Sleep(9 * time.Second)
			if now := len(s.made("watch name")); (now > tries) == unsupported {
				t.Errorf("%d subscriptions tried after ten seconds, unsupported: %v", now, unsupported)
			}
			release(t, term)
		})
	}
}

func TestObserve_ItsWatchEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := named(t, mem)
		e := locker(t, s, nil).Election("leader")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			for range e.Observe(ctx) {
			}
			close(done)
		}()
		synctest.Wait()
		same(t, "watched", *s.watching, 1)
		cancel()
		<-done
		same(t, "watched", *s.watching, 0)
	})
}
