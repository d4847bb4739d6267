package natsstore

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The leader of the bucket is cut off from the other servers, and still talks to its clients. A holder that is
// connected to it is notified before the remaining servers grant the name to another. Once joined again, it has the
// data of the others.
func TestAHolderOnACutOffLeaderLosesBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	servers, network := testserver.NATSApart(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const ttl = 6 * time.Second // long enough that a busy machine does not lose it before
	o := &Options{Replicas: 3}
	see := closing(t, storeOn(t, connect(t, addrs...), o))
	lockWhenItCan(t, ctx, lockerOn(t, time.Minute, o, addrs...), "another") // this makes the bucket
	at := leader(t, see)
	var others []string
	for i, addr := range addrs {
		if i != at {
			others = append(others, addr)
		}
	}
	far, near := lockerOn(t, ttl, o, addrs[at]), lockerOn(t, time.Minute, o, others...)
	lease := lockWhenItCan(t, ctx, far, "a")
	network.CutOff(at)
	next := lockWhenItCan(t, ctx, near, "a")
	if lease.Valid() {
		t.Error("the next claim is granted, but the first lease is still valid")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("got token %d after %d, want a larger one", next.Token(), lease.Token())
	}
	network.Mend(at)
	released(t, next)
	if again := lockWhenItCan(t, ctx, far, "a"); again.Token() <= next.Token() {
		t.Errorf("after the leader joined again: got token %d after %d, want a larger one", again.Token(), next.Token())
	}
}
