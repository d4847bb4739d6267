package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/session"
)

// form is the version of the stored form.
const form = 1

const (
	// maxRecord leaves space for notes: an item has at most 400 KiB.
	maxRecord = 200 << 10
	// maxTaken is how many notes one swap takes in: it names each in an expression, which has at most
	// 4 KiB.
	maxTaken = 200
)

// A backend connects package store/record to a table. Package object stores all but the records.
type backend struct {
	sessions
	objects *object.Backend
	server  *server
	close   func() // closes what Open has opened; nil: nothing
}

// sessions is the part of a backend that package object implements.
type sessions interface {
	session.Backend
	session.Doubter
	record.Preparer
}

func (b *backend) nameKey(name string) string { return b.objects.Prefix + "n/" + name }

// Traits implements [record.Backend].
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Clock: true, Age: object.Age, MaxRecord: maxRecord, Retention: b.objects.Retention}
}

// Listen implements [record.Backend]. There are no notifications.
func (b *backend) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	i, now, err := b.server.get(ctx, b.nameKey(name))
	if err != nil {
		return record.Record{}, err
	}
	return b.recordOf(i, now)
}

// recordOf returns the record of an item, which may be nil.
func (b *backend) recordOf(i item, now time.Time) (record.Record, error) {
	r := record.Record{Now: micros(now)}
	if i == nil {
		return r, nil
	}
	if v := i.number("v"); v > form {
		return r, store.NewerFormError("its item in "+b.server.address, int(v), form)
	}
	if r.Version, r.Data = i.text("rev"), i.bytes("data"); i.number("v") < 1 || r.Version == "" || len(r.Data) == 0 {
		return r, fmt.Errorf("%w: its item in %s is damaged, or not of holdfast; it was not changed: delete it if nothing else uses it", store.ErrCorrupt, b.server.address)
	}
	notes, _ := i["inbox"].(*types.AttributeValueMemberL)
	if notes == nil {
		return r, nil
	}
	for at, n := range notes.Value {
		if at == maxTaken {
			r.More = true
			break
		}
		m, _ := n.(*types.AttributeValueMemberM)
		if m == nil {
			return r, fmt.Errorf("%w: the inbox of its item in %s is damaged", store.ErrCorrupt, b.server.address)
		}
		note := item(m.Value)
		r.Inbox = append(r.Inbox, record.Note{Key: note.text("key"), Data: note.bytes("data"), Version: note.text("key")})
	}
	return r, nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Swap implements [record.Backend]. While a record has one version, its inbox only grows, at its
// end. So the notes that were read are the first of the inbox, and Swap removes them by their index.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err := b.objects.Prepare(ctx); err != nil {
		return out, err
	}
	rev := rand.Text()
	u := update{key: b.nameKey(s.Name), when: "#rev = :old", values: item{
		":v": number(form), ":rev": text(rev), ":data": binary(s.Data), ":at": number(b.server.time().earliest()), ":old": text(s.Old.Version),
	}}
	u.set = "SET #v = :v, #rev = :rev, #data = :data, #at = :at"
	if s.Old.Version == "" {
		u.when = "attribute_not_exists(#id)" //mutant:dynamo-first-swap-depends
		delete(u.values, ":old")
		if utf8.ValidString(s.Name) {
			u.set, u.values[":name"] = u.set+", #name = :name", text(s.Name) // for users who read the table
		}
	}
	var gone []string
	if s.Idle {
		u.set, u.values[":idle"] = u.set+", #idle = :idle", number(1)
	} else {
		gone = append(gone, "#idle") //mutant:dynamo-used-again-stays
	}
	if n := len(s.Old.Inbox); n > 0 {
		last := fmt.Sprintf("#inbox[%d]", n-1)
		u.when, u.values[":last"] = u.when+" AND "+last+".#key = :last", text(s.Old.Inbox[n-1].Version) //mutant:dynamo-note-is-there
		for i := n - 1; i >= 0; i-- {                                                                   // from the end, so that no index shifts even if the server removes one at a time
			gone = append(gone, fmt.Sprintf("#inbox[%d]", i)) //mutant:dynamo-note-goes
		}
	}
	if len(gone) > 0 {
		u.set += " REMOVE " + strings.Join(gone, ", ")
	}
	i, what, now, err := b.server.do(ctx, u)
	switch {
	case err != nil:
		return out, err
	case what != object.Done && s.Join != nil:
		return b.join(ctx, s.Name, s.Join.Notes)
	case what != object.Done && s.Old.Version != "":
		return b.refused(ctx, u.key, rev), nil
	case what != object.Done:
		return out, nil
	}
	r, err := b.recordOf(i, now)
	r.Data = nil
	return record.Outcome{Done: true, Current: err == nil, Inbox: err == nil, Now: r}, nil
}

// refused returns the outcome of a refused swap with the record as it is. The swap was done if it is there: a proxy may
// have sent it twice, and a release would be reported as lost.
func (b *backend) refused(ctx context.Context, key, rev string) (out record.Outcome) {
	i, now, err := b.server.get(ctx, key)
	if err != nil {
		return out // the caller reads it again
	}
	out.Now, err = b.recordOf(i, now)
	out.Current, out.Inbox = err == nil, err == nil
	if i.text("rev") == rev { //mutant:dynamo-swap-sent-twice
		out.Done, out.Now.Data = true, nil
	}
	return out
}

// join appends to the inbox. It depends only on the existence of the record, and does not change
// the record's version.
func (b *backend) join(ctx context.Context, name string, notes []record.Note) (out record.Outcome, err error) {
	each := make([]types.AttributeValue, len(notes))
	for i, n := range notes {
		each[i] = &types.AttributeValueMemberM{Value: item{"key": text(n.Key), "data": binary(n.Data)}}
	}
	i, what, now, err := b.server.do(ctx, update{key: b.nameKey(name), when: "attribute_exists(#rev)", set: "SET #inbox = list_append(if_not_exists(#inbox, :none), :notes)",
		values: item{":none": &types.AttributeValueMemberL{}, ":notes": &types.AttributeValueMemberL{Value: each}}})
	if err != nil || what != object.Done {
		return out, err
	}
	r, err := b.recordOf(i, now)
	return record.Outcome{Joined: true, Current: err == nil, Inbox: err == nil, Now: r}, nil
}

// List implements [record.Backend]. It reads the whole table. With unwritten it also deletes old
// unused items.
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) { b.list(ctx, unwritten, "", func(string) {}, yield) }
}

// Sweep implements [record.Sweeper].
func (b *backend) Sweep(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return b.objects.SweepBy(ctx, func(after string, at func(string), yield func(record.Named, error) bool) {
		b.list(ctx, unwritten, after, at, yield)
	})
}

// list yields the names that follow after in the order of the table. It calls at with each key that
// it has finished.
func (b *backend) list(ctx context.Context, unwritten time.Duration, after string, at func(key string), yield func(record.Named, error) bool) {
	const filter = "begins_with(#id, :prefix)"
	in := &dynamodb.ScanInput{TableName: &b.server.table, ConsistentRead: aws.Bool(true), FilterExpression: aws.String(filter),
		ExpressionAttributeNames: namesIn(filter), ExpressionAttributeValues: item{":prefix": binary([]byte(b.objects.Prefix))}}
	if unwritten == 0 {
		in.ExpressionAttributeValues[":prefix"] = binary([]byte(b.nameKey("")))
	}
	if after != "" {
		in.ExclusiveStartKey = keyOf(after)
	}
	for {
		sent := store.Now()
		r, err := b.server.client.Scan(ctx, in, once)
		if err != nil {
			yield(record.Named{}, b.server.failed(err))
			return
		}
		now := b.server.heard(r.ResultMetadata, sent)
		for _, i := range r.Items {
			if !b.one(ctx, unwritten, i, objectOf(i, now), yield) {
				return
			}
			if ctx.Err() == nil {
				at(string(item(i).bytes("id")))
			}
		}
		if in.ExclusiveStartKey = r.LastEvaluatedKey; len(r.LastEvaluatedKey) == 0 {
			return
		}
	}
}

// one handles one listed item, and reports whether to go on.
func (b *backend) one(ctx context.Context, unwritten time.Duration, i item, o object.Object, yield func(record.Named, error) bool) bool {
	if unwritten > 0 && (o.Now.IsZero() || o.Now.Sub(o.Written) < unwritten) { //mutant:dynamo-young-listed
		return true
	}
	name, is := strings.CutPrefix(o.Key, b.nameKey(""))
	if !is {
		b.objects.Discard(ctx, o)
		return true
	}
	r, err := b.recordOf(i, o.Now)
	if err == nil && i["idle"] != nil && len(r.Inbox) == 0 {
		if unwritten > 0 && b.objects.Old(o) { //mutant:dynamo-idle-is-kept
			_ = b.server.delete(ctx, o.Key, "#rev = :old AND (attribute_not_exists(#inbox) OR size(#inbox) = :none)", item{":old": text(r.Version), ":none": number(0)}) // the next sweep tries again
		}
		return true
	}
	return yield(record.Named{Name: name, Record: r}, err)
}

// Close implements [record.Backend]. The client of New stays open.
func (b *backend) Close() error {
	err := b.objects.Close()
	if b.close != nil {
		b.close()
	}
	return err
}
