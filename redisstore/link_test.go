package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// goRedis is why a call can outlast its context.
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
