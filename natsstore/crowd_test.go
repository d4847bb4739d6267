package natsstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// Many processes come at once for one name: each gets it, and no two are in it together. On a machine that
// is too slow for them some may have to ask again.
func TestManyComeAtOnce(t *testing.T) {
	t.Parallel()
	crowd := 100
	if testing.Short() {
		crowd = 40
	}
	addr, o := testserver.SharedNATS(t), apart()
	var stores []*Store
	var lockers []*holdfast.Locker
	for range crowd {
		s := storeOn(t, connect(t, addr), o)
		l, err := holdfast.New(s, &holdfast.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		stores, lockers = append(stores, s), append(lockers, l)
	}
	before := uint64(0)
	for _, s := range stores {
		before += s.b.nc.Stats().OutMsgs
	}
	ctx := t.Context()
	begin := time.Now()
	var inside, failed atomic.Int64
	var all sync.WaitGroup
	for _, l := range lockers {
		all.Go(func() {
			var lease *holdfast.Lease
			for lease == nil {
				var err error
				if lease, err = l.Mutex("crowd").Lock(ctx); err == nil {
					break
				}
				if failed.Add(1); !errors.Is(err, holdfast.ErrUnavailable) || ctx.Err() != nil {
					t.Errorf("Lock: %v", err)
					return
				}
			}
			if inside.Add(1) != 1 && lease.Valid() {
				t.Error("two are in it")
			}
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			released(t, lease)
		})
	}
	all.Wait()
	took := time.Since(begin)
	sent := uint64(0)
	for _, s := range stores {
		sent += s.b.nc.Stats().OutMsgs
	}
	t.Logf("%d processes: %v, %d failures, %.1f messages a lock", crowd, took.Round(time.Millisecond), failed.Load(), float64(sent-before)/float64(crowd))
}
