package azblobstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// Check implements [record.Backend]. It makes the trial, unless this process has made it.
func (b *backend) Check(ctx context.Context) []store.Finding {
	var sent time.Time
	var o object.Object
	err := b.Prepare(ctx)
	if err == nil {
		sent = time.Now()
		o, err = b.server.Get(ctx, b.Prefix+"t/none")
	}
	if err != nil {
		return []store.Finding{{About: "server", Err: err}}
	}
	clock := object.CheckClock(o.Now, sent, time.Now())
	if !b.Timed() || o.Now.IsZero() { //mutant:azblob-check-of-times
		clock = store.Finding{About: "clock", Warning: true, Found: "its answers do not show its time, or when a blob was written (Date and Last-Modified): a proxy may remove them. " +
			"So a try can take as long as the holder's TTL to be refused, nothing is swept, and without Date there is no minimum hold and no lock delay"}
	}
	return []store.Finding{
		{About: "server", Found: fmt.Sprintf("%s: of several writers at once exactly one succeeded, and each write that had to fail did", o.Server)}, clock, b.CheckDeletes(ctx)}
}
