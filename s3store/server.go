package s3store

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// A server is the object.Server of a bucket.
type server struct {
	client  *s3.Client
	bucket  string
	address string // for messages

	digests atomic.Bool // an ETag is the MD5 of the body
}

// once makes each request be sent once, whatever the client's settings: package store/record
// resolves unanswered ones. The SDK's checksums are left out, because many servers do not support
// them in a trailer. The signature covers the body.
func once(o *s3.Options) {
	o.Retryer = aws.NopRetryer{} //mutant:s3-sent-once
	o.HTTPClient = awsconn.Whole(o.HTTPClient)
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// rereads is how often an inconsistent answer is read again.
const rereads = 16

// Get reads a key. A server that keeps an ETag apart from the body, as versitygw with --sidecar
// does, may answer during a write with the old body and the new ETag. A write that depends on that
// ETag would undo the one before. If ETags are known to be the MD5 of the body, Get detects that
// and reads again.
func (b *server) Get(ctx context.Context, key string) (object.Object, error) {
	for again := range rereads {
		o, hashed, err := b.get(ctx, key)
		if err != nil || o.Version == "" || !hashed || !b.digests.Load() || o.Version == digest(o.Body) { //mutant:s3-etag-is-of-the-body
			return o, err
		}
		select {
		case <-time.After(time.Duration(again) * time.Millisecond):
		case <-ctx.Done():
			return object.Object{}, ctx.Err()
		}
	}
	return object.Object{}, fmt.Errorf("%s answers with an ETag of %s that is not the MD5 of the body, as it was for others: if the encryption of the bucket was changed, start the process anew", b.address, key)
}

// digest returns the ETag that most servers make of a body.
func digest(body []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(body)) }

// get is Get without rereads. hashed: the ETag may be the MD5 of the body. That of an object under a
// KMS key never is, and such objects stay after the encryption of the bucket was changed.
func (b *server) get(ctx context.Context, key string) (o object.Object, hashed bool, err error) {
	r, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: &key}, once)
	if awsconn.IsCode(err, "NoSuchKey") {
		return refusal(err), false, nil
	}
	if err != nil {
		return o, false, b.failed(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return o, false, b.failed(err)
	}
	o = object.Object{Body: body, Version: aws.ToString(r.ETag), Written: aws.ToTime(r.LastModified)}
	noteMetadata(&o, r.ResultMetadata, r.VersionId, r.Expiration)
	if o.Version == "" {
		return o, false, fmt.Errorf("%w: %s tells no ETag of what it keeps", store.ErrUnsupported, b.address)
	}
	return o, !strings.HasPrefix(string(r.ServerSideEncryption), "aws:kms"), nil //mutant:s3-etag-under-a-key
}

// noteMetadata notes the metadata of an answer.
func noteMetadata(o *object.Object, m middleware.Metadata, version, expiration *string) {
	if r, is := awsmiddleware.GetRawResponse(m).(*smithyhttp.Response); is {
		o.Now, o.Server = date(r.Header), r.Header.Get("Server")
	}
	switch {
	case aws.ToString(expiration) != "":
		o.Unfit = "a lifecycle rule of the bucket deletes objects: " + *expiration + "; limit it to another prefix, or use another bucket"
	case aws.ToString(version) != "":
		o.Unfit = "the bucket has versioning on, or had it on, so that each renewal would be kept for ever: use a bucket that never had"
	}
}

// Put writes a key if it still has the etag; "" means only if there is no object.
func (b *server) Put(ctx context.Context, key string, body []byte, etag string) (object.Object, object.Fate, error) {
	in := &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: bytes.NewReader(body), IfMatch: &etag} //mutant:s3-write-depends
	if etag == "" {
		in.IfMatch, in.IfNoneMatch = nil, aws.String("*") //mutant:s3-first-write-depends
	}
	r, err := b.client.PutObject(ctx, in, once)
	switch {
	case err == nil:
		o := object.Object{Version: aws.ToString(r.ETag)}
		noteMetadata(&o, r.ResultMetadata, r.VersionId, r.Expiration)
		if !b.digests.Load() && o.Version == digest(body) {
			b.digests.Store(true)
		}
		if o.Version == "" {
			return o, 0, fmt.Errorf("%s tells no ETag of what it has written", b.address)
		}
		return o, object.Done, nil
	case awsconn.IsCode(err, "NoSuchKey"), isStatus(err, http.StatusPreconditionFailed):
		return refusal(err), object.Refused, nil
	case awsconn.IsCode(err, "ConditionalRequestConflict", "ExistingObjectIsDirectory"): // versitygw returns the latter for a directory that it is about to delete
		return refusal(err), object.Conflict, nil
	}
	return object.Object{}, 0, b.failed(err)
}

// Delete deletes a key if it still has the etag; "" means in any case.
func (b *server) Delete(ctx context.Context, key, etag string) error {
	in := &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key}
	if etag != "" {
		in.IfMatch = &etag //mutant:s3-delete-depends
	}
	_, err := b.client.DeleteObject(ctx, in, once)
	if awsconn.IsCode(err, "NoSuchKey", "ConditionalRequestConflict") || isStatus(err, http.StatusPreconditionFailed) {
		return nil
	}
	return b.failed(err)
}

// List yields the keys with a prefix that come after one, in order, without their bodies. An error
// is the last that it yields.
func (b *server) List(ctx context.Context, prefix, after string, most int) iter.Seq2[object.Object, error] {
	return func(yield func(object.Object, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: &prefix, MaxKeys: aws.Int32(int32(most))}
		if after != "" {
			in.StartAfter = &after
		}
		for {
			r, err := b.client.ListObjectsV2(ctx, in, once)
			if err != nil {
				yield(object.Object{}, b.failed(err))
				return
			}
			var answer object.Object
			noteMetadata(&answer, r.ResultMetadata, nil, nil)
			for _, one := range r.Contents {
				o := object.Object{Key: aws.ToString(one.Key), Version: aws.ToString(one.ETag), Written: aws.ToTime(one.LastModified), Now: answer.Now}
				if !yield(o, nil) {
					return
				}
			}
			if !aws.ToBool(r.IsTruncated) {
				return
			}
			if aws.ToString(r.NextContinuationToken) == "" {
				yield(object.Object{}, fmt.Errorf("the server has more keys below %s, and does not say how to get them", prefix))
				return
			}
			in.ContinuationToken = r.NextContinuationToken
		}
	}
}

// refusal returns the metadata of an error answer: the server, and its clock.
func refusal(err error) (o object.Object) {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil {
		o.Now, o.Server = date(answer.Response.Header), answer.Response.Header.Get("Server")
	}
	return o
}

func date(h http.Header) time.Time {
	t, _ := http.ParseTime(h.Get("Date"))
	return t
}

func isStatus(err error, status int) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == status
}
