package natsstore

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
	addr, o := testserver.SharedNATS(t), apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		return patient{storeOn(t, connect(t, link.Addr()), o)}, link
	}})
}

// The process of a holder is killed: the name is free within the holder's TTL plus a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string { return testserver.SharedNATS(t) + " " + apart().Bucket },
		Open: func(t *testing.T, at string) store.Store {
			addr, bucket, _ := strings.Cut(at, " ")
			return storeOn(t, connect(t, addr), &Options{Bucket: bucket})
		},
	})
}
