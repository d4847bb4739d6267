package etcdstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A session is a lease, and a key on it whose version counts the calls. The key is put once: if it
// was deleted it does not come back, and the session has ended for good.

// SessionTraits implements [session.Backend].
func (b *backend) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServer, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Second, ReportsEnd: true}
}

func (b *backend) sessionKey(id session.ID) string { return b.prefix + "s/" + id.String() }

// leaseOf returns the lease of a session, which every process can compute.
func leaseOf(id session.ID) clientv3.LeaseID {
	return clientv3.LeaseID(max(1, binary.BigEndian.Uint64(id[:])&(1<<63-1)))
}

func (b *backend) leases() pb.LeaseClient { return pb.NewLeaseClient(b.client.ActiveConnection()) }

// Begin implements [session.Backend].
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (_ time.Duration, err error) {
	ctx, end := untilUnreachable(ctx, b.client)
	defer func() { err = failed(end(err)) }()
	// The client's own Grant lets the server choose the lease, and asks twice.
	r, err := b.leases().LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(leaseOf(id)), TTL: int64(ttl / time.Second)}, grpc.WaitForReady(true))
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if granted := time.Duration(r.TTL) * time.Second; granted != ttl { //mutant:etcd-another-ttl-asked-taken
		_, _ = b.client.Revoke(ctx, leaseOf(id)) // otherwise it ends by itself
		return 0, fmt.Errorf("%w: a TTL of %v: %s grants %v; the least that it grants is one and a half of its election timeout", store.ErrInvalid, ttl, b.address, granted)
	}
	key := b.sessionKey(id)
	isNew := clientv3.Compare(clientv3.CreateRevision(key), "=", 0) // a repeated request is no call
	begun := clientv3.OpTxn([]clientv3.Cmp{isNew}, []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(leaseOf(id)))}, nil)
	if _, err = b.baseWith(ctx, begun); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.began.ttl < ttl {
			b.began = ownLease{leaseOf(id), ttl}
		}
	}
	return ttl, err
}

// An ownLease is the lease of a session that this process has begun. Letters are attached to it, so
// they need no lease of their own.
type ownLease struct {
	id  clientv3.LeaseID
	ttl time.Duration
}

// ended notes that a lease of this process may have ended; 0: any of them.
func (b *backend) ended(id clientv3.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == 0 || b.began.id == id {
		b.began = ownLease{}
	}
}

// mailLease returns a lease for letters. Letters are for current listeners, so it need not last.
func (b *backend) mailLease(ctx context.Context) (clientv3.LeaseID, error) {
	b.mu.Lock()
	id := b.began.id
	b.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	return b.mail.get(ctx)
}

// Renew implements [session.Backend]. It keeps the lease alive, and reads the key at the same time.
// To the client, a member that does not answer counts as connected until its keep-alive times out,
// which is longer than most TTLs, and still gets its turn of the requests. So both requests are
// repeated to the next member.
func (b *backend) Renew(ctx context.Context, id session.ID) (calls int64, err error) {
	defer func() { err = failed(err) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var kept int64
	var notKept error
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		kept, notKept = elsewhere(ctx, func(ctx context.Context) (int64, error) { return b.keepAlive(ctx, id) })
	}()
	r, err := elsewhere(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.Get(ctx, b.sessionKey(id))
	})
	if err != nil {
		cancel()
	}
	<-keeping
	if err := cmp.Or(err, notKept); err != nil {
		return 0, err
	}
	if kept <= 0 || len(r.Kvs) == 0 { //mutant:etcd-renewed-without-key
		return 0, store.ErrLost
	}
	return r.Kvs[0].Version - 1, nil
}

// keepAlive keeps the lease of a session alive, and returns its TTL. The client's own KeepAliveOnce
// retries without a pause while there is no connection.
func (b *backend) keepAlive(ctx context.Context, id session.ID) (ttl int64, err error) {
	stream, err := b.leases().LeaseKeepAlive(clientv3.WithRequireLeader(ctx))
	if err == nil {
		err = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(leaseOf(id))})
	}
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	kept, err := stream.Recv()
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	_ = stream.CloseSend()
	return kept.TTL, nil
}

// How long a member has to answer before the next is asked too: a part of the time that is left,
// and at most a second.
const (
	turns      = 6
	turnAtMost = time.Second
)

// elsewhere sends a request that may be repeated, and repeats it each time that nothing was
// answered for a while. The client sends each to another member. elsewhere returns the first
// answer, or the last error once all have failed.
func elsewhere[T any](ctx context.Context, send func(context.Context) (T, error)) (none T, err error) {
	type answer struct {
		it  T
		err error
	}
	turn := turnAtMost
	if deadline, is := ctx.Deadline(); is {
		turn = min(turn, time.Until(deadline)/turns)
	}
	var sent sync.WaitGroup
	defer sent.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, under := make(chan answer), 0
	again := func() {
		under++
		sent.Go(func() {
			it, err := send(ctx)
			select {
			case answers <- answer{it, err}:
			case <-ctx.Done():
			}
		})
	}
	again()
	next := time.NewTicker(max(turn, time.Millisecond))
	defer next.Stop()
	for {
		select {
		case a := <-answers:
			if under--; a.err == nil || under == 0 {
				return a.it, a.err
			}
		case <-next.C:
			again() //mutant:etcd-renewed-elsewhere
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Call implements [session.Backend].
func (b *backend) Call(ctx context.Context, id session.ID) error {
	key := b.sessionKey(id)
	_, err := b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.Version(key), ">", 0)}, []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithIgnoreLease())}, nil)
	return err
}

// ttlPatience bounds how long Left waits for information that safety does not need.
const ttlPatience = time.Second

// Left implements [session.Backend]. Only a missing key proves that a session has ended: a member
// that no longer leads may not know the lease. An existing lease proves that the session lives:
// while the lease exists the key exists too, or the session is no longer renewed.
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	left := make([]time.Duration, len(ids))
	soon, cancel := context.WithTimeout(ctx, ttlPatience)
	defer cancel()
	for some := range slices.Chunk(indexes(len(ids)), maxOps) {
		var asking sync.WaitGroup
		for _, i := range some {
			asking.Go(func() {
				if t, err := b.client.TimeToLive(soon, leaseOf(ids[i])); err == nil && t.TTL > 0 {
					left[i] = time.Duration(t.TTL) * time.Second
				}
			})
		}
		asking.Wait()
		var gets []clientv3.Op
		some = slices.DeleteFunc(some, func(i int) bool { return left[i] > 0 })
		for _, i := range some {
			gets = append(gets, clientv3.OpGet(b.sessionKey(ids[i]), clientv3.WithKeysOnly()))
		}
		if len(gets) == 0 {
			continue
		}
		r, err := b.txn(ctx, nil, gets, nil)
		if err != nil {
			return nil, err
		}
		for k, i := range some {
			if len(r.Responses[k].GetResponseRange().Kvs) > 0 { //mutant:etcd-left-without-key
				left[i] = time.Millisecond
			}
		}
	}
	return left, nil
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error {
	b.ended(leaseOf(id))
	b.forgetSlots(id)
	_, err := b.client.Revoke(ctx, leaseOf(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return failed(err)
}

// Await implements [session.Backend]. A watch from a revision starts only at the server's next
// round, up to 100 ms later. So the watch starts without a revision, and a read once it exists
// shows what was missed.
func (b *backend) Await(ctx context.Context, id session.ID) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	for r := range b.client.Watch(ctx, b.sessionKey(id), clientv3.WithCreatedNotify(), clientv3.WithFilterPut()) {
		if err := r.Err(); err != nil || len(r.Events) > 0 {
			return failed(err)
		}
		if r.Created { //mutant:etcd-ended-before-the-watch
			now, err := b.client.Get(ctx, b.sessionKey(id), clientv3.WithKeysOnly())
			if err != nil || len(now.Kvs) == 0 {
				return failed(err)
			}
		}
	}
	return cmp.Or(ctx.Err(), errWatch)
}

var errWatch = errors.New("the watch has ended")
