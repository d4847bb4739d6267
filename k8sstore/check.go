package k8sstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// Check implements [record.Backend]. It makes the trial, unless this process has made it.
func (b *backend) Check(ctx context.Context) []store.Finding {
	var now, sent time.Time
	err := b.objects.Prepare(ctx)
	if err == nil {
		sent = time.Now()
		_, now, err = b.server.get(ctx, nameOf("t/none"))
	}
	if err == nil {
		err = b.server.pages(ctx, labelKind+"=none", func([]lease, time.Time) bool { return false })
	}
	if err != nil {
		return []store.Finding{{About: "server", Err: err}}
	}
	clock := object.CheckClock(now, sent, time.Now())
	if !b.objects.Timed() || now.IsZero() {
		clock = store.Finding{About: "clock", Warning: true, Found: "its answers do not show its time (Date), or when a Lease was written (managedFields). " +
			"So a try can take as long as the holder's TTL to be refused, and nothing is swept"}
	}
	return []store.Finding{{About: "server", Found: "each write whose condition was false failed"}, clock, b.objects.CheckDeletes(ctx)}
}
