package s3store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// Check implements [record.Backend]. It makes the trial, unless this process has made it.
func (b *backend) Check(ctx context.Context) []store.Finding {
	var before time.Time
	err := b.Prepare(ctx)
	var o object.Object
	if err == nil {
		before = time.Now()
		o, err = b.server.Get(ctx, b.Prefix+"t/none")
	}
	if err != nil {
		return []store.Finding{{About: "server", Err: err}}
	}
	all := []store.Finding{
		{About: "server", Found: fmt.Sprintf("%s: of several writers at once exactly one succeeded, and each write that had to fail did", o.Server)},
		b.checkClock(o.Now, before, time.Now()),
		b.checkRules(ctx),
		b.CheckDeletes(ctx),
	}
	if !atomically(o.Server) {
		all = append(all, store.Finding{About: "unused names", Found: "the object of a name that nobody uses any more stays, some 100 bytes each: of this server it is not known that it compares " +
			"and deletes in one step; delete what is below " + b.Prefix + "n/ when nobody takes locks"})
	}
	return all
}

// checkClock compares the server's clock with this host's, which was between sent and heard when
// the server answered.
func (b *backend) checkClock(server, sent, heard time.Time) store.Finding {
	if !b.Timed() || server.IsZero() { //mutant:s3-check-of-times
		return store.Finding{About: "clock", Warning: true, Found: "its answers do not tell its time, or when an object was written (Date and Last-Modified): a proxy may drop them. " +
			"So a try can take as long as the holder's TTL to be refused, nothing is swept, and without Date there is no minimum hold and no lock delay"}
	}
	return object.CheckClock(server, sent, heard)
}

// checkRules reports whether a rule of the bucket deletes objects that locks need. The trial has
// found rules that cover its own object.
func (b *backend) checkRules(ctx context.Context) store.Finding {
	f := store.Finding{About: "lifecycle rules", Found: "none deletes what is below " + b.Prefix}
	r, err := b.server.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &b.server.bucket}, once)
	switch {
	case awsconn.IsCode(err, "NoSuchLifecycleConfiguration"):
		return f
	case err != nil:
		f.Found = "not known, as this user may not ask, or the server has none: s3:GetLifecycleConfiguration would tell"
		return f
	}
	for _, rule := range r.Rules {
		if at, ends := deletes(&rule); ends && (strings.HasPrefix(b.Prefix, at) || strings.HasPrefix(at, b.Prefix)) { //mutant:s3-rules-are-checked
			f.Found = ""
			f.Err = fmt.Errorf("%w: the lifecycle rule %q of the bucket %s deletes objects below %s: limit it to another prefix, or use another bucket", store.ErrUnsupported,
				aws.ToString(rule.ID), b.server.bucket, b.Prefix)
		}
	}
	return f
}

// deletes returns the prefix of what a rule deletes, and whether it deletes anything.
func deletes(r *types.LifecycleRule) (prefix string, is bool) {
	//lint:ignore SA1019 older rules have it there
	prefix = aws.ToString(r.Prefix)
	if f := r.Filter; f != nil {
		if prefix += aws.ToString(f.Prefix); f.And != nil {
			prefix += aws.ToString(f.And.Prefix)
		}
	}
	return prefix, r.Status == types.ExpirationStatusEnabled && r.Expiration != nil && !aws.ToBool(r.Expiration.ExpiredObjectDeleteMarker)
}
