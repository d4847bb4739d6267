package etcdstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// maxOps is how many operations etcd takes in one transaction, including the longest list of nested
// ones.
const maxOps = 128

// listPage is how many records are listed at a time.
const listPage = 500

// form is the version of the stored form.
const form = 2

// maxRecord leaves room for notes and notifications in the 1.5 MiB that etcd takes in a request.
const maxRecord = 1 << 20

// A backend is a record.Backend in etcd.
type backend struct {
	client  *clientv3.Client
	own     bool   // opened and closed by us
	address string // for messages
	prefix  string

	ctx   context.Context // of Listen and Await; ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	idle, mail *sharedLease
	retention  time.Duration

	asks  chan struct{} // to read the base, one at a time
	mu    sync.Mutex
	known string                      // the base, once read
	began ownLease                    // the lease of the longest session begun here, while it lives
	slots map[string]map[string]int64 // see inbox.go
}

func newBackend(client *clientv3.Client, prefix string, retention time.Duration) *backend {
	b := &backend{
		client: client, prefix: prefix, asks: make(chan struct{}, 1), address: "etcd at " + strings.Join(client.Endpoints(), ", "), slots: map[string]map[string]int64{},
		retention: retention, idle: newSharedLease(client, retention), mail: newSharedLease(client, mailTime),
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// Traits implements [record.Backend].
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByCall, Notifies: true, MaxRecord: maxRecord, Retention: b.retention}
}

var nameEscape, nameUnescape = strings.NewReplacer("%", "%25", "/", "%2F"), strings.NewReplacer("%25", "%", "%2F", "/")

func (b *backend) baseKey() string            { return b.prefix + "base" }
func (b *backend) nameKey(name string) string { return b.prefix + "n/" + nameEscape.Replace(name) }
func (b *backend) inboxKey(name string) string {
	return b.prefix + "w/" + nameEscape.Replace(name) + "/"
}
func (b *backend) mailbox(p store.Process) string { return b.prefix + "m/" + p.String() }

// txn commits one transaction.
func (b *backend) txn(ctx context.Context, when []clientv3.Cmp, then, or []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, end := untilUnreachable(ctx, b.client)
	r, err := b.client.Txn(ctx).If(when...).Then(then...).Else(or...).Commit()
	return r, failed(end(err))
}

// base returns the content of the base key: the version of the form, and a random number drawn when
// the key was written. It is part of each version of a record, because etcd counts its revisions
// from one again after it has lost its data.
func (b *backend) base(ctx context.Context) (string, error) { return b.baseWith(ctx) }

// baseWith is base, and also applies the operations, in the same request if it needs one.
func (b *backend) baseWith(ctx context.Context, besides ...clientv3.Op) (base string, err error) {
	if base = b.knownBase(); base == "" {
		select {
		case b.asks <- struct{}{}:
			defer func() { <-b.asks }()
		case <-ctx.Done():
			return "", ctx.Err()
		}
		base = b.knownBase() // another call may have read it meanwhile
	}
	if base != "" {
		if len(besides) > 0 {
			_, err = b.txn(ctx, nil, besides, nil)
		}
		return base, err
	}
	base, key := fmt.Sprintf("%d:%s", form, rand.Text()), b.baseKey()
	r, err := b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		append([]clientv3.Op{clientv3.OpPut(key, base)}, besides...), append([]clientv3.Op{clientv3.OpGet(key)}, besides...))
	if err != nil {
		return "", err
	}
	if !r.Succeeded {
		base = string(r.Responses[0].GetResponseRange().Kvs[0].Value)
	}
	have, _, _ := strings.Cut(base, ":")
	switch n, err := strconv.Atoi(have); {
	case err == nil && n > form:
		return "", store.NewerFormError(fmt.Sprintf("key %q on %s", key, b.address), n, form)
	case err != nil || n != form:
		return "", fmt.Errorf("%w: key %q on %s was not written by holdfast, or is damaged: it was not changed", store.ErrCorrupt, key, b.address)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = base
	return base, nil
}

func (b *backend) knownBase() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

func (b *backend) isBase(base string) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(b.baseKey()), "=", base)
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	base, err := b.base(ctx)
	if err != nil {
		return record.Record{}, err
	}
	r, err := b.txn(ctx, nil, b.reads(name), nil)
	if err != nil {
		return record.Record{}, err
	}
	return b.read(name, base, r.Header.Revision, r.Responses), nil
}

func (b *backend) reads(name string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(b.nameKey(name)), b.readInbox(name)}
}

// read returns the record that reads has read at a revision.
func (b *backend) read(name, base string, rev int64, read []*pb.ResponseOp) (r record.Record) {
	for _, kv := range read[0].GetResponseRange().Kvs {
		r.Data, r.Version = kv.Value, versionOf(kv.ModRevision, base)
	}
	r.Inbox, r.More = b.inbox(name, rev, read[1].GetResponseRange())
	return r
}

func versionOf(rev int64, base string) string { return strconv.FormatInt(rev, 10) + " " + base }

// Swap implements [record.Backend]. It is one transaction, with the join in its Else.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	base, err := b.base(ctx)
	if err != nil {
		return out, err
	}
	digits, of, _ := strings.Cut(s.Old.Version, " ")
	rev, _ := strconv.ParseInt(digits, 10, 64)
	if s.Old.Version != "" && of != base { //mutant:etcd-version-of-lost-data
		return out, nil
	}
	key := b.nameKey(s.Name)
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rev), b.isBase(base)} //mutant:etcd-swap-depends
	var then []clientv3.Op
	for _, note := range s.Old.Inbox {
		slot, rev := cutSlot(note.Version)
		slot = b.inboxKey(s.Name) + slot
		when = append(when, clientv3.Compare(clientv3.ModRevision(slot), "=", rev)) //mutant:etcd-note-is-there
		then = append(then, clientv3.OpDelete(slot))                                //mutant:etcd-note-goes
	}
	var lease clientv3.LeaseID
	if s.Idle {
		if lease, err = b.idle.get(ctx); err != nil {
			return out, failed(err)
		}
	}
	then = append(then, clientv3.OpPut(key, string(s.Data), clientv3.WithLease(lease)), b.readInbox(s.Name))
	letters, err := b.letters(ctx, s.Notifications)
	if err != nil {
		return out, failed(err)
	}
	or := append(b.reads(s.Name), clientv3.OpGet(b.baseKey()))
	join := b.join(s, base)
	if join != nil {
		or = append([]clientv3.Op{join.op}, or...)
	}
	now := min(len(letters), maxOps-join.ops()-len(when))
	r, err := b.txn(ctx, when, append(then, letters[:now]...), or)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // nothing was applied
		b.idle.forget() //mutant:etcd-lease-gone
		b.mail.forget()
		b.ended(0)
		b.joined(join, 0)
		return out, nil
	case err != nil:
		return out, err
	case r.Succeeded:
		b.joined(join, 0)
		for letters = letters[now:]; len(letters) > 0 && err == nil; letters = letters[now:] { //mutant:etcd-more-letters
			now = min(len(letters), maxOps)
			_, err = b.txn(ctx, nil, letters[:now], nil) // these may be lost
		}
		out = record.Outcome{Done: true, Current: true, Inbox: true}
		out.Now.Version = versionOf(r.Header.Revision, base)
		out.Now.Inbox, out.Now.More = b.inbox(s.Name, r.Header.Revision, r.Responses[len(then)-1].GetResponseRange())
		return out, nil
	}
	found := r.Responses
	if join != nil {
		rev = 0
		if out.Joined, found = found[0].GetResponseTxn().Succeeded, found[1:]; out.Joined {
			rev = r.Header.Revision
		}
		b.joined(join, rev)
	}
	if kvs := found[2].GetResponseRange().Kvs; len(kvs) == 0 || string(kvs[0].Value) != base { // all was deleted
		b.mu.Lock()
		defer b.mu.Unlock()
		b.known = ""
		return out, nil
	}
	out.Current, out.Inbox, out.Now = true, true, b.read(s.Name, base, r.Header.Revision, found)
	return out, nil
}

// List implements [record.Backend]. An idle record is one with a lease. All notes are read first
// (law 11).
func (b *backend) List(ctx context.Context, _ time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		base, err := b.base(ctx)
		inboxes := map[string][]*mvccpb.KeyValue{}
		if err == nil {
			err = b.scan(ctx, b.prefix+"w/", func(kv *mvccpb.KeyValue) bool {
				key := string(kv.Key)
				at := key[:strings.LastIndexByte(key, '/')+1]
				inboxes[at] = append(inboxes[at], kv)
				return true
			})
		}
		if err == nil {
			first := b.nameKey("")
			err = b.scan(ctx, first, func(kv *mvccpb.KeyValue) bool {
				name := nameUnescape.Replace(string(kv.Key[len(first):]))
				r := record.Record{Data: kv.Value, Version: versionOf(kv.ModRevision, base), Inbox: notesOf(inboxes[b.inboxKey(name)])}
				return kv.Lease != 0 && len(r.Inbox) == 0 || yield(record.Named{Name: name, Record: r}, nil)
			})
		}
		if err != nil {
			yield(record.Named{}, failed(err))
		}
	}
}

// scan reads all keys with the prefix, until f returns false.
func (b *backend) scan(ctx context.Context, prefix string, f func(*mvccpb.KeyValue) bool) error {
	for from, more := prefix, true; more; {
		r, err := b.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(listPage))
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			if from = string(kv.Key) + "\x00"; !f(kv) {
				return nil
			}
		}
		more = r.More
	}
	return nil
}

// A sharedLease is a lease of many keys, each of which lasts at least for the time least. A new
// lease is granted before the remaining time is shorter.
type sharedLease struct {
	client *clientv3.Client
	least  time.Duration
	turn   chan struct{} // of capacity 1; its holder may read or write the fields below
	id     clientv3.LeaseID
	until  store.Instant // until then it is long enough
}

func newSharedLease(client *clientv3.Client, least time.Duration) *sharedLease {
	return &sharedLease{client: client, least: least, turn: make(chan struct{}, 1)}
}

func (l *sharedLease) get(ctx context.Context) (clientv3.LeaseID, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if now := store.Now(); now >= l.until {
		spare := l.least/24 + time.Second
		r, err := l.client.Grant(ctx, int64((l.least+spare)/time.Second)+1)
		if err != nil {
			return 0, err
		}
		l.id, l.until = r.ID, now.Add(spare)
	}
	return l.id, nil
}

// forget makes the next key get another lease.
func (l *sharedLease) forget() {
	l.turn <- struct{}{}
	l.until = 0
	<-l.turn
}
