package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/holdfast-go/holdfast/store"
)

// failed makes an error of the SDK or the server one for people, and says of some that they are definite.
func (b *server) failed(err error) error {
	if err == nil || store.Definite(err) {
		return err
	}
	tell := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s: %w: %s", kind, b.address, brief(err), advice)
	}
	switch {
	case isCode(err, "NoSuchBucket"):
		return tell(store.ErrUnsupported, "the bucket is not there: create it, without versioning, or name another")
	case isCode(err, "RequestTimeTooSkewed"):
		return tell(store.ErrDenied, "set the clock of this host")
	case isCode(err, "AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "Forbidden"):
		return tell(store.ErrDenied, "locks need s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix, and s3:ListBucket on the bucket")
	case isCode(err, "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "MovedPermanently"):
		return tell(store.ErrInvalid, "the bucket is in another region: name that")
	case isCode(err, "NotImplemented", "MethodNotAllowed"):
		return tell(store.ErrUnsupported, "the server does not know conditional writes, or not of this bucket")
	}
	return brief(err)
}

// A briefly is an error of the SDK with fewer words: it repeats the operation, the URL, and the numbers of the request.
type briefly struct {
	text string
	err  error
}

func (e *briefly) Error() string { return e.text }
func (e *briefly) Unwrap() error { return e.err }

func brief(err error) error {
	var answered smithy.APIError
	var sent *url.Error
	switch {
	case errors.As(err, &answered):
		return &briefly{answered.ErrorCode() + ": " + answered.ErrorMessage(), err}
	case errors.Is(err, context.DeadlineExceeded):
		return &briefly{"no answer: " + context.DeadlineExceeded.Error(), err}
	case errors.As(err, &sent):
		return &briefly{sent.Err.Error(), err}
	case strings.Contains(err.Error(), "get credentials"):
		return &briefly{"no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give this machine a role", err}
	}
	return err
}
