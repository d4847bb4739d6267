package mongostore

import (
	"context"
	"net"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// linkDialer goes to the link, whichever address the driver was told.
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
