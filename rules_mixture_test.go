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

// Claims of several weights wait in one process, without notifications.

// A mixture has a number of claims of each kind, which all take the name in turn.
type mixture struct{ upgrades, reads, writes int }

// mixed lets the lockers use one name, each with the mixture, until every claim has
// had the name often enough. It returns how long that took and how many calls
// were made. It fails after bound.
func mixed(t *testing.T, lockers int, each mixture, looks bool, bound time.Duration) (took time.Duration, calls int) {
	const rounds = 15
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		var links []*link
		var all sync.WaitGroup
		var done, want atomic.Int64
		begin := time.Now()
		for range lockers {
			l := linkTo(t, mem)
			slow(l, 2*time.Millisecond)
			links = append(links, l)
			var s store.Store = l
			if looks {
				s = withPolls{l}
			}
			rw := locker(t, s, nil).RWMutex("a")
			work := func(n int, do func() error) {
				for range n {
					want.Add(rounds)
					all.Go(func() {
						for range rounds {
							if err := do(); err != nil {
								return
							}
							done.Add(1)
						}
					})
				}
			}
			work(each.upgrades, func() error {
				return rw.Upgradeable().Do(ctx, func(ctx context.Context, u *UpgradeableLease) error {
					return u.Upgrade(ctx)
				})
			})
			work(each.reads, func() error { return rw.Read().Do(ctx, func(context.Context) error { return nil }) })
			work(each.writes, func() error { return rw.Write().Do(ctx, func(context.Context) error { return nil }) })
		}
		all.Wait()
		took = time.Since(begin)
		for _, l := range links {
			calls += len(l.made())
		}
		if done.Load() < want.Load() {
			t.Errorf("%d of %d in %v", done.Load(), want.Load(), took)
		}
	})
	return took, calls
}

// One claim polls for all of its kind only: a name with room for a reader may
// have none for an upgradeable lock, and the reverse.
func TestReadersAndUpgradesWithoutNotifications(t *testing.T) { // rule 6
	const most = 5 * time.Second // about 2 s are needed; it took 85 s when one claim polled for all kinds
	for name, c := range map[string]struct {
		each  mixture
		looks bool
	}{
		"readers":                 {mixture{upgrades: 3, reads: 3}, false},
		"readers, looking":        {mixture{upgrades: 3, reads: 3}, true},
		"readers and writers":     {mixture{upgrades: 3, reads: 3, writes: 3}, false},
		"readers, writers, looks": {mixture{upgrades: 3, reads: 3, writes: 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			took, calls := mixed(t, 2, c.each, c.looks, time.Hour)
			t.Logf("took %v with %d calls", took, calls)
			if took > most {
				t.Errorf("took %v, want at most %v", took, most)
			}
		})
	}
}
