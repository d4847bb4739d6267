package mongostore

import (
	"context"
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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
	at := options.Client().ApplyURI(uri)
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, at.Hosts[0])
		client, err := mongo.Connect(options.Client().ApplyURI(uri).SetDialer(linkDialer{link}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Disconnect(context.Background()) })
		return storeOn(t, client.Database(database), o), link
	}})
}
