package zkstore

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func backendOn(t testing.TB, o *Options, servers ...string) *backend {
	t.Helper()
	b, err := open(servers, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	brief := apart()
	recordtest.Run(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return backendOn(t, o, addr) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			link := testserver.NewLink(t, addr)
			return backendOn(t, o, link.Addr()), link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			s := testserver.ZooKeeper(t)
			t.Cleanup(s.Thaw)
			return backendOn(t, nil, s.Addr), s.Freeze
		},
		Brief: func(t *testing.T) record.Backend { return sweeping(backendOn(t, brief, addr)) },
	})
}

// sweeping makes the backend look all the time for nodes to delete, and keep unused ones only briefly.
func sweeping(b *backend) *backend {
	b.retention, b.inUse = 500*time.Millisecond, 500*time.Millisecond
	b.tasks.Go(func() {
		for b.ctx.Err() == nil {
			sweep(b.ctx, b)
			time.Sleep(20 * time.Millisecond)
		}
	})
	return b
}

func sweep(ctx context.Context, b *backend) (failed error) {
	for _, err := range b.List(ctx, inUse) {
		failed = err
	}
	return failed
}
