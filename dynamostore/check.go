package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// Check implements [record.Backend]. It makes the trial, unless this process has made it.
func (b *backend) Check(ctx context.Context) []store.Finding {
	var date, sent time.Time
	err := b.objects.Prepare(ctx)
	if err == nil {
		sent = time.Now()
		_, date, err = b.server.get(ctx, "none")
	}
	if err != nil {
		return []store.Finding{{About: "server", Err: err}}
	}
	clock := store.Finding{About: "clock", Warning: true, Found: "its answers do not show its time (Date); a proxy may remove it. Without it no lease can begin"}
	if !date.IsZero() {
		clock = object.CheckClock(date, sent, time.Now())
	}
	return []store.Finding{
		{About: "server", Found: "each write whose condition was false failed"},
		clock,
		b.checkTable(ctx),
		b.objects.CheckDeletes(ctx),
	}
}

// checkTable reports whether the table can lose a write: a replica in another region accepts writes
// of its own, and of two writes the last one wins. The replicas of a global table of the version of
// 2017 are in the description of that only.
func (b *backend) checkTable(ctx context.Context) store.Finding {
	r, err := b.server.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &b.server.table}, once)
	if err != nil {
		return unreadable("DescribeTable")
	}
	global, strong := len(r.Table.Replicas) > 0, r.Table.MultiRegionConsistency == types.MultiRegionConsistencyStrong
	if !global {
		_, err = b.server.client.DescribeGlobalTable(ctx, &dynamodb.DescribeGlobalTableInput{GlobalTableName: &b.server.table}, once)
		global = err == nil //mutant:dynamo-check-of-old-regions
	}
	var none *types.GlobalTableNotFoundException
	switch {
	case global && !strong: //mutant:dynamo-check-of-regions
		return store.Finding{About: "table", Err: fmt.Errorf("%w: %s is a global table, and its regions accept writes that undo each other: use a table in one region, or one that is strongly consistent (MRSC)",
			store.ErrUnsupported, b.server.table)}
	case global:
		return store.Finding{About: "table", Found: "global, and strongly consistent"}
	case !errors.As(err, &none) && !awsconn.IsCode(err, "UnknownOperationException"): // a server by others need not know of them
		return unreadable("DescribeGlobalTable")
	}
	return store.Finding{About: "table", Found: "in one region"}
}

func unreadable(right string) store.Finding {
	return store.Finding{About: "table", Found: "unknown whether it is in several regions: to read that, the user needs dynamodb:" + right}
}
