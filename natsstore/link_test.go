package natsstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		return patient{storeOn(t, connect(t, link.Addr()), o)}, link
	}})
}
