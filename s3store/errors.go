package s3store

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
)

// failed turns an error of the SDK or the server into one for users, and marks some as definite.
func (b *server) failed(err error) error {
	if err == nil || store.Definite(err) {
		return err
	}
	tell := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s: %w: %s", kind, b.address, awsconn.Brief(err), advice)
	}
	switch {
	case awsconn.IsCode(err, "NoSuchBucket"):
		return tell(store.ErrUnsupported, "the bucket is not there: create it, without versioning, or name another")
	case awsconn.IsCode(err, "RequestTimeTooSkewed"):
		return tell(store.ErrDenied, "set the clock of this host")
	case awsconn.IsCode(err, "AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "Forbidden"):
		return tell(store.ErrDenied, "locks need s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix, and s3:ListBucket on the bucket")
	case awsconn.IsCode(err, "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "MovedPermanently"):
		return tell(store.ErrInvalid, "the bucket is in another region: name that")
	case awsconn.IsCode(err, "NotImplemented", "MethodNotAllowed"):
		return tell(store.ErrUnsupported, "the server does not know conditional writes, or not of this bucket")
	}
	return awsconn.Brief(err)
}
