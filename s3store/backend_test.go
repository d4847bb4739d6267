package s3store

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// backendOn is a backend with a client of its own, whose server has passed the trial.
func backendOn(t testing.TB, addr string, o *Options) *backend {
	t.Helper()
	b := newBackendOn(t, addr, o)
	if err := b.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Finish()
	return b
}

func newBackendOn(t testing.TB, addr string, o *Options) *backend {
	t.Helper()
	b, err := newBackend(client(t, addr), testserver.S3Bucket, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedS3(t), apart()
	brief := apart()
	recordtest.Run(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return backendOn(t, addr, o) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			link := testserver.NewLink(t, addr)
			return backendOn(t, link.Addr(), o), link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			server := testserver.S3(t)
			t.Cleanup(server.Thaw)
			return backendOn(t, server.Addr, nil), server.Freeze
		},
		Brief: func(t *testing.T) record.Backend { return sweeping(t, addr, brief) },
	})
}

// sweeping is a backend with a short retention, which is swept until the test ends. Nobody writes an idle name right when it is deleted, so it does
// no harm that this server does not compare and delete in one step.
func sweeping(t *testing.T, addr string, o *Options) *backend {
	t.Helper()
	b := newBackendOn(t, addr, o)
	b.Atomic = func(string) bool { return true }
	b.Retention = 2 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for ctx.Err() == nil {
			for range b.List(ctx, time.Millisecond) {
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-swept
	})
	return b
}
