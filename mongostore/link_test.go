package mongostore

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// linkDialer connects to the link, whatever address the driver asks for.
type linkDialer struct{ link *testserver.Link }

func (d linkDialer) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, d.link.Addr())
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	uri, o := serverURI(t), apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		db, link := linkedTo(t, uri)
		s := storeOn(t, db, o)
		tried(t, s.b)
		return s, link
	}})
}

// The process of a holder is killed: the name is free within the holder's TTL plus a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string {
			uri, o := serverURI(t), apart()
			locks := clientOf(t, uri).Database(database).Collection(o.Collection)
			t.Cleanup(func() { locks.Drop(context.Background()) })
			return o.Collection + " " + uri
		},
		Open: func(t *testing.T, at string) store.Store {
			collection, uri, _ := strings.Cut(at, " ")
			return storeOn(t, clientOf(t, uri).Database(database), &Options{Collection: collection})
		},
	})
}
