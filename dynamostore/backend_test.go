package dynamostore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// subject is this store, for the tests of all object stores. A place is an address and a prefix.
var subject = objecttest.Subject{
	Place: func(t testing.TB) string { return testserver.SharedDynamoDB(t) + " " + apart() },
	Open: func(t testing.TB, place string) *objecttest.Process {
		addr, prefix, _ := strings.Cut(place, " ")
		b := backendOn(t, addr, prefix)
		return &objecttest.Process{Backend: b, Objects: b.objects, Server: lister{b.server}}
	},
	Linked: func(t testing.TB, place string) (string, objecttest.Link) {
		addr, prefix, _ := strings.Cut(place, " ")
		link := testserver.NewLink(t, addr)
		return link.Addr() + " " + prefix, link
	},
	Freeze: func(t *testing.T) (string, func()) {
		server := testserver.DynamoDB(t)
		t.Cleanup(server.Thaw)
		return server.Addr + " " + apart(), server.Freeze
	},
}

// A lister also lists the keys in order, which a table cannot do.
type lister struct{ *server }

func (l lister) List(ctx context.Context, prefix, after string, _ int) iter.Seq2[object.Object, error] {
	return func(yield func(object.Object, error) bool) {
		var all []object.Object
		in := &dynamodb.ScanInput{TableName: &l.table, ConsistentRead: aws.Bool(true)}
		for more := true; more; more = len(in.ExclusiveStartKey) > 0 {
			r, err := l.client.Scan(ctx, in, once)
			if err != nil {
				yield(object.Object{}, err)
				return
			}
			for _, i := range r.Items {
				if o := objectOf(i, l.heard(r.ResultMetadata, 0)); strings.HasPrefix(o.Key, prefix) && o.Key > after {
					all = append(all, o)
				}
			}
			in.ExclusiveStartKey = r.LastEvaluatedKey
		}
		slices.SortFunc(all, func(a, b object.Object) int { return cmp.Compare(a.Key, b.Key) })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func TestBackend(t *testing.T) {
	t.Parallel()
	objecttest.Backend(t, subject)
}

func TestStore(t *testing.T) {
	t.Parallel()
	objecttest.Suite(t, subject)
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	objecttest.Differential(t, subject)
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	objecttest.Faults(t, subject)
}

// The process of a holder is killed: the name is free within the holder's TTL plus a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	objecttest.Killed(t, subject)
}

func TestACronOfTriesGetsWhatADeadProcessHeld(t *testing.T) {
	t.Parallel()
	objecttest.Cron(t, subject)
}

func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	objecttest.ARefusedTryWritesNothing(t, subject)
}

func TestServer(t *testing.T) {
	t.Parallel()
	objecttest.Server(t, subject)
}
