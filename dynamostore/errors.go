package dynamostore

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
)

// once makes each request be sent once, whatever the client's settings: package store/record
// resolves unanswered ones.
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{} //mutant:dynamo-sent-once
	o.HTTPClient = awsconn.Whole(o.HTTPClient)
}

// failed turns an error of the SDK or the server into one for users, and marks some as definite.
func (s *server) failed(err error) error {
	if err == nil || store.Definite(err) {
		return err
	}
	tell := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s: %w: %s", kind, s.address, awsconn.Brief(err), advice)
	}
	switch {
	case awsconn.IsCode(err, "ResourceNotFoundException"):
		return tell(store.ErrUnsupported, "the table does not exist: create it with a partition key \"id\" of type B (binary), as the package documentation shows")
	case awsconn.IsCode(err, "InvalidSignatureException") && (strings.Contains(err.Error(), "expired") || strings.Contains(err.Error(), "not yet current")):
		return tell(store.ErrDenied, "set the clock of this host")
	case awsconn.IsCode(err, "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "MissingAuthenticationTokenException",
		"IncompleteSignatureException", "MissingAuthenticationToken"):
		return tell(store.ErrDenied, "locks need dynamodb:GetItem, UpdateItem, DeleteItem and Scan on the table")
	case awsconn.IsCode(err, "ItemCollectionSizeLimitExceededException"), awsconn.IsCode(err, "ValidationException") && strings.Contains(err.Error(), "Item size"):
		return tell(store.ErrUnavailable, "too many waiters for this name: an item has at most 400 KiB")
	case awsconn.IsCode(err, "ValidationException"):
		return tell(store.ErrUnsupported, "the table needs a partition key \"id\" of type B (binary), and no sort key")
	}
	return awsconn.Brief(err)
}
