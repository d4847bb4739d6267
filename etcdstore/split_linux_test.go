package etcdstore

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The leader is cut off from the other members, and goes on answering its clients: whoever holds a name by it is told before another gets the
// name by those that are left. Joined again, it has what they have.
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
	const ttl = 6 * time.Second // a busy machine does not lose it before
	far, near := lockerOn(t, ttl, members[leader].Addr), lockerOn(t, time.Minute, others...)
	lease, err := locked(t.Context(), far, "a")
	if err != nil {
		t.Fatal(err)
	}
	network.CutOff(leader)
	testserver.EtcdLeader(t, slices.Delete(slices.Clone(members), leader, leader+1)) // another leads
	next, err := locked(t.Context(), near, "a")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Valid() {
		t.Error("the next is in, and the first thinks that it holds the name")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("token %d after %d", next.Token(), lease.Token())
	}
	network.Mend(leader)
	released(t, next)
	again, err := locked(t.Context(), far, "a")
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= next.Token() {
		t.Errorf("joined again: token %d after %d", again.Token(), next.Token())
	}
}
