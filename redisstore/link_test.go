package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// goRedis is the reason that a call can outlast its context.
const goRedis = "go-redis waits for an answer until its ReadTimeout, whatever the context"

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedRedis(t)
	storetest.Faults(t, storetest.Linked{Waits: goRedis, Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		return storeOn(t, clientOf(t, link.Addr()), nil), link
	}})
}

// The process of a holder is killed: the lock is free within its TTL and a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At:   func(t *testing.T) string { return testserver.SharedRedis(t) },
		Open: func(t *testing.T, addr string) store.Store { return storeOn(t, clientOf(t, addr), nil) },
	})
}
