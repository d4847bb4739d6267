package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// A server is the object.Server of a table. The sessions, and all else but the names, are items with
// a body.
type server struct {
	client  *dynamodb.Client
	table   string
	address string // for messages

	mu    sync.Mutex
	clock clock
}

// An item is an item of the table: its attributes by name.
type item map[string]types.AttributeValue

func keyOf(key string) item { return item{"id": binary([]byte(key))} }

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func (i item) bytes(name string) []byte {
	if v, is := i[name].(*types.AttributeValueMemberB); is {
		return v.Value
	}
	return nil
}

func (i item) text(name string) string {
	if v, is := i[name].(*types.AttributeValueMemberS); is {
		return v.Value
	}
	return ""
}

func (i item) number(name string) (n int64) {
	if v, is := i[name].(*types.AttributeValueMemberN); is {
		n, _ = strconv.ParseInt(v.Value, 10, 64)
	}
	return n
}

// get reads an item as the newest answered write has left it. A missing item is nil. now is the
// server's time, or zero.
func (s *server) get(ctx context.Context, key string) (i item, now time.Time, err error) {
	sent := store.Now()
	r, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(key), ConsistentRead: aws.Bool(true)}, once) //mutant:dynamo-read-is-consistent
	if err != nil {
		return nil, now, s.failed(err)
	}
	return r.Item, s.heard(r.ResultMetadata, sent), nil
}

// An update changes an item if its condition holds.
type update struct {
	key    string
	set    string // the whole expression
	when   string
	values item
}

// do sends an update, and returns the new item if it is done.
func (s *server) do(ctx context.Context, u update) (i item, what object.Fate, now time.Time, err error) {
	sent := store.Now()
	r, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: keyOf(u.key), UpdateExpression: &u.set, ConditionExpression: &u.when, ExpressionAttributeValues: u.values,
		ExpressionAttributeNames: namesIn(u.set + " " + u.when), ReturnValues: types.ReturnValueAllNew,
	}, once)
	switch {
	case refused(err):
		return nil, object.Refused, s.heardOf(err, sent), nil
	case conflicted(err):
		return nil, object.Conflict, s.heardOf(err, sent), nil
	case err != nil:
		return nil, 0, now, s.failed(err)
	}
	return r.Attributes, object.Done, s.heard(r.ResultMetadata, sent), nil
}

// delete deletes an item if the condition holds; "": in any case.
func (s *server) delete(ctx context.Context, key, when string, values item) error {
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyOf(key)}
	if when != "" {
		in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = &when, namesIn(when), values //mutant:dynamo-delete-depends
	}
	if _, err := s.client.DeleteItem(ctx, in, once); err != nil && !refused(err) {
		return s.failed(err)
	}
	return nil
}

func refused(err error) bool {
	var condition *types.ConditionalCheckFailedException
	return errors.As(err, &condition)
}

// conflicted reports whether a write was not done because another region was writing the item, of a
// table that is strongly consistent in several.
func conflicted(err error) bool {
	var other *types.ReplicatedWriteConflictException
	return errors.As(err, &other)
}

// namesIn maps each #x of an expression to x: many names without # are reserved words.
func namesIn(expression string) map[string]string {
	all := map[string]string{}
	for _, word := range strings.FieldsFunc(expression, func(r rune) bool { return !strings.ContainsRune("#abcdefghijklmnopqrstuvwxyz", r) }) {
		if strings.HasPrefix(word, "#") {
			all[word] = word[1:]
		}
	}
	return all
}

// objectOf returns an item as an object.
func objectOf(i item, now time.Time) object.Object {
	o := object.Object{Key: string(i.bytes("id")), Body: i.bytes("body"), Version: i.text("rev"), Now: now, Server: "DynamoDB"}
	if at := i.number("at"); at != 0 {
		o.Written = time.UnixMicro(at)
	}
	return o
}

// Get implements [object.Server].
func (s *server) Get(ctx context.Context, key string) (object.Object, error) {
	i, now, err := s.get(ctx, key)
	return objectOf(i, now), err
}

// Put implements [object.Server].
func (s *server) Put(ctx context.Context, key string, body []byte, version string) (object.Object, object.Fate, error) {
	if err := s.inTime(ctx); err != nil {
		return object.Object{}, 0, err
	}
	for range writes {
		at := s.time().earliest()
		absent := "attribute_not_exists(#id)" //mutant:dynamo-first-write-depends
		u := update{key: key, set: "SET #rev = :rev, #body = :body, #at = :at", when: absent,
			values: item{":rev": text(rand.Text()), ":body": binary(body), ":at": number(at)}}
		if version != "" {
			u.when, u.values[":old"] = "#rev = :old", text(version) //mutant:dynamo-write-depends
		}
		i, what, now, err := s.do(ctx, u)
		switch {
		case err != nil:
			return object.Object{}, 0, err
		case what != object.Done:
			return objectOf(nil, now), what, nil //mutant:dynamo-conflict-is-no-loss
		case !now.IsZero() && now.Sub(time.UnixMicro(at)) <= early: //mutant:dynamo-early-time-is-written-again
			return objectOf(i, now), object.Done, nil
		}
		version = i.text("rev")
	}
	return object.Object{}, 0, errUntimed
}

// Delete implements [object.Server].
func (s *server) Delete(ctx context.Context, key, version string) error {
	if version == "" {
		return s.delete(ctx, key, "", nil)
	}
	return s.delete(ctx, key, "#rev = :old", item{":old": text(version)})
}
