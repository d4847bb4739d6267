package zkstore

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		return patient{storeOn(t, o, link.Addr())}, link
	}})
}

// The process of a holder is killed: the name is free within the holder's TTL plus a second, though the server ends
// sessions only every two seconds, as it does by default.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string {
			addr := testserver.ZooKeeper(t, "tickTime=2000", "minSessionTimeout=4000").Addr
			// The shortest session that the server grants is enough, though it is longer than requested.
			b := opened(t, nil, addr)
			until(t, "the least TTL is granted", func() bool {
				_, err := b.Begin(t.Context(), session.NewID(), 4*time.Second)
				if err != nil && store.Definite(err) {
					t.Fatal(err)
				}
				return err == nil
			})
			return addr
		},
		Open: func(t *testing.T, addr string) store.Store { return storeOn(t, nil, addr) },
		TTL:  5 * time.Second,
	})
}
