package redlock

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// One of three nodes is frozen for more than a TTL, and no lease is lost. On a busy machine some of the leases have no vote of a node that
// answers late. So a control uses as many nodes that are all running: if leases are lost there too, the run proves nothing.
func TestAFrozenNodeLosesNoLease(t *testing.T) {
	t.Parallel()
	const names, ttl = 100, 12 * time.Second
	servers, s := nodes(t, 3, Options{Timeout: DefaultTimeout})
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, calm := nodes(t, 3, Options{Timeout: DefaultTimeout})
	beside, err := holdfast.New(calm, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	var leases, control []*holdfast.Lease
	for i := range names {
		if i%10 == 0 {
			time.Sleep(ttl / 30) // so that they are due at different times, and are sent in many batches
		}
		for _, to := range []struct {
			l      *holdfast.Locker
			leases *[]*holdfast.Lease
		}{{l, &leases}, {beside, &control}} {
			lease, err := to.l.Mutex(fmt.Sprint("name ", i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			*to.leases = append(*to.leases, lease)
		}
	}
	servers[1].Freeze()
	since := time.Now()
	until(t, "each lease is lost, or was renewed more than a TTL later", func() bool {
		for _, lease := range leases {
			if lease.Valid() && !lease.Deadline().After(since.Add(5*ttl/2)) { // its newest renewal was sent 1½ TTL after since
				return false
			}
		}
		return true
	})
	lost := 0
	for _, lease := range leases {
		if !lease.Valid() {
			lost++
			continue
		}
		until(t, lease.Name()+" is released", func() bool {
			if !lease.Valid() { // its release got no answer in time, or came too late
				if lease, err = l.Mutex(lease.Name()).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			err := lease.Release()
			if err != nil && !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrLost) {
				t.Fatalf("release of %q: %v", lease.Name(), err)
			}
			return err == nil
		})
	}
	if slow := slices.ContainsFunc(control, func(l *holdfast.Lease) bool { return !l.Valid() }); lost > 0 && slow {
		t.Logf("this machine is too slow: %d leases were lost, and so were some on healthy nodes", lost)
	} else if lost > 0 {
		t.Errorf("got %d of %d leases lost, with two of three nodes healthy", lost, names)
	}
	servers[1].Thaw()
	until(t, "the frozen node is in use again", func() bool { return nodesUp(s) == 3 })
	until(t, "a name is free", func() bool {
		lease, err := l.Mutex("name 0").TryLock(t.Context())
		return err == nil && lease.Release() == nil
	})
}
