package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// One of three masters is frozen for more than a TTL. The leases on the other two continue, and after it has thawed all of them do. If leases
// on a server that is not frozen are lost in that time too, the run proves nothing.
func TestAFrozenMasterLosesNoLeaseOnTheOthers(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]*Options{"alone": nil, "each master asked by WAIT, too": {Replicas: 1}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const names, ttl = 396, 12 * time.Second // two thirds of them on the healthy ones
			var masters, replicas []*testserver.Server
			if o == nil {
				masters = testserver.RedisCluster(t, 3)
			} else {
				masters, replicas = testserver.RedisCalmClusterWithReplicas(t, 3)
			}
			for _, m := range append(replicas, masters...) { // the cluster's own reaction does not matter here
				for _, setting := range [][2]string{{"cluster-node-timeout", "600000"}, {"cluster-require-full-coverage", "no"}} {
					if err := clientOf(t, m.Addr).ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			client := clusterClient(t, masters, func(o *redis.ClusterOptions) { o.ReadTimeout = 0 }) // go-redis's default, which most users have
			s := storeOn(t, client, o)
			l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			beside, err := holdfast.New(storeOn(t, clientOf(t, testserver.Redis(t).Addr), nil), &holdfast.Options{TTL: ttl, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer beside.Close()

			var healthy, frozen, control []*holdfast.Lease
			for i := range names {
				if i%12 == 0 {
					time.Sleep(ttl / 100) // so that they are due at different times, and are sent in many batches
					lease, err := beside.Mutex(fmt.Sprint("name ", i)).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					control = append(control, lease)
				}
				lease, err := l.Mutex(fmt.Sprint("name ", i)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				node, err := client.MasterForKey(t.Context(), s.key(lease.Name()))
				if err != nil {
					t.Fatal(err)
				}
				if node.Options().Addr == masters[1].Addr {
					frozen = append(frozen, lease)
				} else {
					healthy = append(healthy, lease)
				}
			}
			masters[1].Freeze()
			since := time.Now()
			count := func(leases []*holdfast.Lease) (lost, renewed int) {
				for _, lease := range leases {
					switch {
					case !lease.Valid():
						lost++
					case lease.Deadline().After(since.Add(5 * ttl / 2)): // its newest renewal was sent 1½ TTL after since
						renewed++
					}
				}
				return lost, renewed
			}
			until(t, "each healthy lease is lost, or was renewed more than a TTL later", func() bool {
				lost, renewed := count(healthy)
				return lost+renewed == len(healthy)
			})
			lost, _ := count(healthy)
			onFrozen, _ := count(frozen)
			t.Logf("lost: %d of %d with healthy masters, %d of %d on the frozen one", lost, len(healthy), onFrozen, len(frozen))
			if slow, _ := count(control); lost > 0 && slow > 0 {
				t.Logf("this machine is too slow: of %d leases on a healthy server %d were lost", len(control), slow)
			} else if lost > 0 {
				t.Errorf("got %d of %d leases with healthy masters lost", lost, len(healthy))
			}

			masters[1].Thaw()
			for _, lease := range append(frozen, healthy...) {
				until(t, lease.Name()+" is released", func() bool {
					if !lease.Valid() { // its lease was lost, or its release got no answer in time, or came too late
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
		})
	}
}
