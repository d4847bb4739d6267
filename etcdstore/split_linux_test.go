package etcdstore

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The leader is cut off from the other members, and still answers its clients. A holder that is connected to it is
// notified before the remaining members grant the name to another. Once joined again, it has the data of the others.
func TestAHolderOnACutOffLeaderLosesBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	members, network := testserver.EtcdApart(t, 3)
	leader := testserver.EtcdLeader(t, members)
	var others []string
	for i, m := range members {
		if i != leader {
			others = append(others, m.Addr)
		}
	}
	const ttl = 6 * time.Second // long enough that a busy machine does not lose it before
	far, near := lockerOn(t, ttl, members[leader].Addr), lockerOn(t, time.Minute, others...)
	lease, err := locked(t.Context(), far, "a")
	if err != nil {
		t.Fatal(err)
	}
	network.CutOff(leader)
	testserver.EtcdLeader(t, slices.Delete(slices.Clone(members), leader, leader+1)) // until another member leads
	next, err := locked(t.Context(), near, "a")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Valid() {
		t.Error("the next claim is granted, but the first lease is still valid")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("got token %d after %d, want a larger one", next.Token(), lease.Token())
	}
	network.Mend(leader)
	released(t, next)
	again, err := locked(t.Context(), far, "a")
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= next.Token() {
		t.Errorf("after the leader joined again: got token %d after %d, want a larger one", again.Token(), next.Token())
	}
}
