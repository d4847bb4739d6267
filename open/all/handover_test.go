package all_test

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Two processes with a crowd of waiters each. There are never two holders, the holders' tokens grow, and both processes
// are served.
func TestHandOver_TwoCrowdsOnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		var wg sync.WaitGroup
		inside, newest := 0, int64(0) // guarded by the lock; the race detector checks that
		for _, l := range []*holdfast.Locker{p.here, p.there} {
			for range 20 {
				wg.Go(func() {
					for range 50 {
						lease, err := l.Mutex("crowd").Lock(within(t))
						if err != nil {
							t.Error(err)
							return
						}
						inside++
						if inside != 1 || lease.Token() <= newest {
							t.Errorf("%d hold the lock, token %d after %d; want one, and a larger token", inside, lease.Token(), newest)
						}
						newest = lease.Token()
						inside--
						if err := lease.Release(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		if left := p.entries(t, "crowd"); len(left) != 0 {
			t.Errorf("entries left in the store: %+v", left)
		}
	})
}
