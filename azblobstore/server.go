package azblobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// A server is the object.Server of a container.
type server struct {
	client  *container.Client
	address string // for messages
}

// once makes a request be sent once, whatever the client's settings: package store/record resolves
// unanswered ones. The answer is put into raw.
func once(ctx context.Context, raw **http.Response) context.Context {
	ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1}) //mutant:azblob-sent-once
	return policy.WithCaptureResponse(ctx, raw)
}

// heard returns an object with what the header of an answer shows.
func heard(raw *http.Response) (o object.Object) {
	if raw == nil {
		return o
	}
	o.Server = raw.Header.Get("Server")
	o.Now, _ = http.ParseTime(raw.Header.Get("Date"))
	if raw.Header.Get("x-ms-version-id") != "" {
		o.Unfit = "the storage account has versioning on, so that each renewal would be kept: use an account without it"
	}
	return o
}

// condition makes a request depend on an ETag, or on the absence of the blob.
func condition(version string) *blob.AccessConditions {
	tag := azcore.ETag(version)
	c := &blob.ModifiedAccessConditions{IfMatch: &tag} //mutant:azblob-write-depends
	if version == "" {
		any := azcore.ETagAny
		c = &blob.ModifiedAccessConditions{IfNoneMatch: &any} //mutant:azblob-first-write-depends
	}
	return &blob.AccessConditions{ModifiedAccessConditions: c}
}

// Get implements [object.Server].
func (s *server) Get(ctx context.Context, key string) (object.Object, error) {
	var raw *http.Response
	r, err := s.client.NewBlobClient(key).DownloadStream(once(ctx, &raw), nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return heard(raw), nil
	}
	if err != nil {
		return object.Object{}, s.failed(err)
	}
	defer r.Body.Close()
	o := heard(raw)
	if o.Body, err = io.ReadAll(r.Body); err != nil {
		return object.Object{}, s.failed(err)
	}
	if r.ETag == nil || *r.ETag == "" {
		return object.Object{}, fmt.Errorf("%w: %s shows no ETag of a blob", store.ErrUnsupported, s.address)
	}
	o.Version = string(*r.ETag)
	if r.LastModified != nil {
		o.Written = *r.LastModified
	}
	return o, nil
}

// Put implements [object.Server].
func (s *server) Put(ctx context.Context, key string, body []byte, version string) (object.Object, object.Fate, error) {
	var raw *http.Response
	r, err := s.client.NewBlockBlobClient(key).Upload(once(ctx, &raw), streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{AccessConditions: condition(version)})
	o := heard(raw)
	switch {
	case refused(err):
		return o, object.Refused, nil
	case err != nil:
		return object.Object{}, 0, s.failed(err)
	case r.ETag == nil || *r.ETag == "":
		return o, 0, fmt.Errorf("%s shows no ETag of what it has written", s.address)
	}
	o.Version = string(*r.ETag)
	return o, object.Done, nil
}

// refused reports whether a write was not done because its condition does not hold.
func refused(err error) bool {
	return bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists, bloberror.BlobNotFound, bloberror.TargetConditionNotMet)
}

// Delete implements [object.Server].
func (s *server) Delete(ctx context.Context, key, version string) error {
	var raw *http.Response
	o := &blob.DeleteOptions{}
	if version != "" {
		o.AccessConditions = condition(version) //mutant:azblob-delete-depends
	}
	if _, err := s.client.NewBlobClient(key).Delete(once(ctx, &raw), o); err != nil && !refused(err) {
		return s.failed(err)
	}
	return nil
}

// List implements [object.Lister].
func (s *server) List(ctx context.Context, prefix, after string, most int) iter.Seq2[object.Object, error] {
	return func(yield func(object.Object, error) bool) {
		o := &container.ListBlobsFlatOptions{Prefix: &prefix, MaxResults: new(int32(most))}
		if after != "" {
			o.StartFrom = &after // some servers ignore it
		}
		for pager := s.client.NewListBlobsFlatPager(o); pager.More(); {
			var raw *http.Response
			r, err := pager.NextPage(once(ctx, &raw))
			if err != nil {
				yield(object.Object{}, s.failed(err))
				return
			}
			now := heard(raw).Now
			for _, item := range r.Segment.BlobItems {
				one := object.Object{Key: *item.Name, Now: now}
				if p := item.Properties; p != nil && p.ETag != nil {
					one.Version = quoted(string(*p.ETag))
					if p.LastModified != nil {
						one.Written = *p.LastModified
					}
				}
				if one.Key > after && !yield(one, nil) {
					return
				}
			}
		}
	}
}

// quoted returns an ETag of a list as a header has it.
func quoted(tag string) string {
	if len(tag) > 0 && tag[0] != '"' {
		return `"` + tag + `"`
	}
	return tag
}

// failed turns an error of the SDK or the server into one for users, and marks some as definite.
func (s *server) failed(err error) error {
	if err == nil || store.Definite(err) {
		return err
	}
	tell := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s: %w: %s", kind, s.address, brief(err), advice)
	}
	switch {
	case bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted):
		return tell(store.ErrUnsupported, "the container does not exist: create it, or name another")
	case bloberror.HasCode(err, bloberror.AuthenticationFailed, bloberror.AuthorizationFailure, bloberror.AuthorizationPermissionMismatch, "NoAuthenticationInformation", "InvalidAuthenticationInfo",
		"InsufficientAccountPermissions", "AuthorizationSourceIPMismatch", "AuthorizationProtocolMismatch", "AuthorizationServiceMismatch", "AuthorizationResourceTypeMismatch"):
		return tell(store.ErrDenied, "locks need the role Storage Blob Data Contributor on the container; if the credentials are right, set the clock of this host")
	case bloberror.HasCode(err, "BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold"):
		return tell(store.ErrUnsupported, "a policy of the container forbids to change blobs: use another container")
	}
	return brief(err)
}

// A briefly is an error of the SDK in fewer words: the SDK adds the request, the header and the body.
type briefly struct {
	text string
	err  error
}

func (b *briefly) Error() string { return b.text }
func (b *briefly) Unwrap() error { return b.err }

func brief(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return &briefly{fmt.Sprintf("%d %s", answer.StatusCode, answer.ErrorCode), err}
	}
	return err
}
