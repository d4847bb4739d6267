package redlock

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	var addrs []string
	for range 3 {
		addrs = append(addrs, testserver.Redis(t).Addr)
	}
	storetest.Faults(t, storetest.Linked{Waits: "Check waits for go-redis for its ReadTimeout, and this test's release for all requests under way", Open: func(t *testing.T) (store.Store, storetest.Link) {
		var links testserver.Links
		var through []string
		for _, addr := range addrs {
			link := testserver.NewLink(t, addr)
			links, through = append(links, link), append(through, link.Addr())
		}
		return slowly(t, trusting(t, clientsOf(t, through...), nil)), links
	}})
}

// The process of a holder is killed: the lock is free within its TTL and a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string {
			return testserver.Redis(t).Addr + " " + testserver.Redis(t).Addr + " " + testserver.Redis(t).Addr
		},
		Open: func(t *testing.T, at string) store.Store {
			return trusting(t, clientsOf(t, strings.Fields(at)...), nil)
		},
	})
}
