package etcdstore

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedEtcd(t), apart()
	recordtest.Run(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend {
			return newBackend(clientOf(t, addr), o.Prefix, store.TokenRetention)
		},
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			link := testserver.NewLink(t, addr)
			return newBackend(clientOf(t, link.Addr()), o.Prefix, store.TokenRetention), link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			s := testserver.Etcd(t)
			t.Cleanup(s.Thaw)
			return newBackend(clientOf(t, s.Addr), o.Prefix, store.TokenRetention), s.Freeze
		},
		Brief: func(t *testing.T) record.Backend { return newBackend(clientOf(t, addr), o.Prefix, time.Second) },
	})
}
