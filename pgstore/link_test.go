package pgstore

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
	addr := sharedAddr(t)
	schema := apart(t, addr)
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		return tableOn(t, poolOn(t, link.Addr()), &Options{Schema: schema}), link
	}})
}

// The process of a holder is killed: the lock is free within its TTL and a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string { return sharedAddr(t) + " " + apart(t, sharedAddr(t)) },
		Open: func(t *testing.T, at string) store.Store {
			addr, schema, _ := strings.Cut(at, " ")
			return tableOn(t, poolOn(t, addr), &Options{Schema: schema})
		},
	})
}
