package natsstore

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// backendOn is a backend on a connection of its own, with a bucket that is there.
func backendOn(t testing.TB, addr string, o *Options) *backend {
	t.Helper()
	b, err := newBackend(connect(t, addr), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	brief := apart()
	recordtest.Run(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return backendOn(t, addr, o) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			link := testserver.NewLink(t, addr)
			return backendOn(t, link.Addr(), o), link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			server := testserver.NATS(t, "")
			return backendOn(t, server.Addr, nil), server.Freeze
		},
		Brief: func(t *testing.T) record.Backend {
			b := backendOn(t, addr, brief)
			b.retention = 2 * time.Second
			return b
		},
	})
}
