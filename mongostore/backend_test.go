package mongostore

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func backendOn(t testing.TB, db *mongo.Database, o *Options) *backend {
	t.Helper()
	b, err := newBackend(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// linkedTo is a database reached through a link, on a client that ends with the test. The server is tried before, so
// that only the tested request meets the fault of the link.
func linkedTo(t testing.TB, uri string) (*mongo.Database, *testserver.Link) {
	t.Helper()
	link := testserver.NewLink(t, options.Client().ApplyURI(uri).Hosts[0])
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetDialer(linkDialer{link}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the link may be silent
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		client.Disconnect(ctx)
	})
	return client.Database(database), link
}

func tried(t testing.TB, b *backend) *backend {
	t.Helper()
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.indexed.Store(true)
	return b
}

func TestBackend(t *testing.T) {
	t.Parallel()
	uri, o := serverURI(t), apart()
	// Some tests have hundreds of processes on this client, each with a stream that has a connection.
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetMaxPoolSize(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	db := client.Database(database)
	t.Cleanup(func() { db.Collection(o.Collection).Drop(context.Background()) })
	recordtest.Run(t, subject(uri, db, o, func(b *backend) record.Backend { return b }))
}

// subject is the backend on a server, set to poll as often as the suite needs.
func subject(uri string, db *mongo.Database, o *Options, as func(*backend) record.Backend) recordtest.Subject {
	linked := func(t *testing.T) (record.Backend, *testserver.Link) {
		db, link := linkedTo(t, uri)
		return as(tried(t, backendOn(t, db, o))), link
	}
	return recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return as(backendOn(t, db, o)) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			b, link := linked(t)
			return b, link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			b, link := linked(t)
			return b, link.Hush
		},
		// The stand-in deletes at once what its TTL index selects; a server takes a minute.
		Brief: func(t *testing.T) record.Backend {
			b := backendOn(t, db, o)
			b.retention = time.Second
			return as(b)
		},
	}
}

// Everything works on a server that has no notifications and no linearizable reads.
func TestBackendOnAStandalone(t *testing.T) {
	t.Parallel()
	uri := mongosim.Start(t, mongosim.Options{Standalone: true}).URI()
	recordtest.Run(t, subject(uri, clientOf(t, uri).Database(database), nil, func(b *backend) record.Backend { return alone{b} }))
}

// alone reports in advance what Listen would return.
type alone struct{ *backend }

func (a alone) Traits() record.Traits {
	t := a.backend.Traits()
	t.Notifies = false
	return t
}

// For example, a session of detached holds.
func TestAnUnrenewedSessionIsForgotten(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI(serverURI(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	b := backendOn(t, client.Database(database), apart())
	t.Cleanup(func() { b.Close() })
	begin := func() session.ID {
		id := session.NewID()
		if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		return id
	}
	renewed, old := begin(), begin()
	for id, o := range b.own {
		b.own[id] = own{o.ttl, o.used.Add(-time.Hour)}
	}
	if _, err := b.Renew(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	begin()
	if _, kept := b.own[old]; kept || len(b.own) != 2 || b.own[renewed].ttl != time.Minute {
		t.Fatalf("got %d sessions kept, want the renewed one and the new one", len(b.own))
	}
}
