package natsstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// Many processes come at once for one name: none fails, and no two are in it together.
func TestManyComeAtOnce(t *testing.T) {
	t.Parallel()
	crowd := 300
	if testing.Short() {
		crowd = 60
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
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	begin := time.Now()
	var inside sync.Mutex
	var all sync.WaitGroup
	for _, l := range lockers {
		all.Go(func() {
			lease, err := l.Mutex("crowd").Lock(ctx)
			if err != nil {
				t.Errorf("Lock: %v", err)
				return
			}
			if !inside.TryLock() {
				t.Error("two are in it")
			} else {
				time.Sleep(time.Millisecond)
			}
			inside.Unlock()
			if err := lease.Release(); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	sent := uint64(0)
	for _, s := range stores {
		sent += s.b.nc.Stats().OutMsgs
	}
	t.Logf("%d processes: %v, %.1f messages a lock", crowd, took.Round(time.Millisecond), float64(sent-before)/float64(crowd))
}
