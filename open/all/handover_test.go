package all_test

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Two processes with a crowd each: never two inside, tokens in the order in
// which they are inside, and both are served.
func TestHandOver_TwoCrowdsOnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		var wg sync.WaitGroup
		inside, newest := 0, int64(0) // guarded by the name, as the race detector sees
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
							t.Errorf("%d inside, token %d after %d", inside, lease.Token(), newest)
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
			t.Errorf("left behind: %+v", left)
		}
	})
}
