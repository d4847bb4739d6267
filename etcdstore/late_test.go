package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// lateTTL is that of the sessions here, which a machine that stalls must not end. A
// quarter of it later late asks are searched for.
const lateTTL = 12 * time.Second

// unanswered is a hold whose first ask was done and not answered, with what that
// would put if it arrived again.
func unanswered(t *testing.T, s *Store, kv *unheard) (hold store.Hold, again func()) {
	t.Helper()
	if err := s.Release(t.Context(), mustHold(t, s, mutex("warm"))); err != nil { // the floor is there
		t.Fatal(err)
	}
	c := mutex("a")
	c.TTL = lateTTL
	kv.lose.Store(true)
	if _, err := s.Ask(t.Context(), c); err == nil || store.Definite(err) {
		t.Fatalf("an ask that was not answered: %v, want it unclear", err)
	}
	hold = mustHold(t, s, c)
	s.mu.Lock()
	key, lease := s.mine[c.ID].key, s.mine[c.ID].sess.lease
	s.mu.Unlock()
	r, err := kv.Get(t.Context(), key)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("asked for, and there is %v, %v", r, err)
	}
	return hold, func() {
		when := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		put := clientv3.OpPut(key, string(r.Kvs[0].Value), clientv3.WithLease(lease))
		if _, err := kv.Txn(t.Context()).If(when).Then(put).Commit(); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			t.Fatal(err)
		}
	}
}

// lossy is a store whose client can lose answers.
func lossy(t *testing.T) (*Store, *unheard) {
	client := clientOf(t, testserver.SharedEtcd(t))
	kv := &unheard{KV: client.KV}
	client.KV = kv
	return closing(t, storeOn(t, client, apart())), kv
}

// A hold goes on under another id, with its key. A late ask for the old id is
// searched for, and the hold that has the key now stays. When that is given back
// the late ask may arrive.
func TestALateAskDoesNoHarmToWhoAdoptedItsHold(t *testing.T) {
	t.Parallel()
	s, kv := lossy(t)
	hold, again := unanswered(t, s, kv)
	s.mu.Lock()
	old, key := s.mine[hold.ID].sess, s.mine[hold.ID].key
	s.mu.Unlock()
	adopted := hold
	adopted.NewID = me.NewID()
	if r := s.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	adopted.ID, adopted.NewID = adopted.NewID, store.ID{}
	until(t, "late asks were searched for", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return old.search != 0 && !old.searches
	})
	if r := s.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err != nil {
		t.Fatalf("the hold that has the key: %v", r.Err)
	}
	if err := s.Release(t.Context(), adopted); err != nil {
		t.Fatal(err)
	}
	if next := s.spareKey(&store.Claim{Name: "a", ID: me.NewID(), Limit: store.Full, Weight: store.Full}); next == key {
		t.Error("another claim takes the key that a late ask may put")
	}
	again()
	until(t, "nothing of it is left", func() bool { return len(entriesOf(t, s, "a").Entries) == 0 })
}

// A hold that was lost, because somebody has deleted it, may have an ask on its way.
func TestALateAskOfALostHoldIsTakenOut(t *testing.T) {
	t.Parallel()
	s, kv := lossy(t)
	hold, again := unanswered(t, s, kv)
	c := mutex("kept")
	c.TTL = hold.TTL
	kept := mustHold(t, s, c) // so that its session stays
	s.mu.Lock()
	key := s.mine[hold.ID].key
	s.mu.Unlock()
	if _, err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; r.Err == nil {
		t.Fatal("a hold that was deleted is renewed")
	}
	again()
	until(t, "what arrived late is gone", func() bool {
		if r := s.Renew(t.Context(), []store.Hold{kept})[0]; r.Err != nil {
			t.Fatalf("the hold beside it: %v", r.Err)
		}
		return len(entriesOf(t, s, "a").Entries) == 0
	})
}

// A session can end while a claim is asked for in it, between two attempts. What a
// later attempt puts in the next session would be granted to nobody.
func TestAnAskWhoseSessionEndedMeanwhileLeavesNothing(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	kv := &afterEach{KV: client.KV}
	client.KV = kv
	s := closing(t, storeOn(t, client, apart()))
	c, kept := mutexTry("a"), mutex("kept")
	c.Limit, c.Weight = 3, 1
	c.TTL, kept.TTL = lateTTL, lateTTL
	first := c
	first.Try, first.ID = false, store.NewProcess().NewID()
	mustHold(t, closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), &Options{Prefix: s.prefix})), first)
	if err := s.Release(t.Context(), mustHold(t, s, kept)); err != nil { // the session is there
		t.Fatal(err)
	}
	kept.ID = me.NewID()
	n := 0
	do := func() error {
		switch n++; n {
		case 1: // a try beside another first lists the name
			s.mu.Lock()
			defer s.mu.Unlock()
			s.died(s.sessions[c.TTL])
		case 2:
			return context.DeadlineExceeded
		}
		return nil
	}
	kv.do.Store(&do)
	if _, err := s.Ask(t.Context(), c); err == nil {
		t.Fatal("granted in a session that has ended")
	}
	kv.do.Store(nil)
	if err := s.Release(t.Context(), store.Hold{Name: "a", ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	hold := mustHold(t, s, kept) // so that the next session stays
	until(t, "nothing of it is there", func() bool {
		if r := s.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
			t.Fatalf("the hold beside it: %v", r.Err)
		}
		for _, e := range entriesOf(t, s, "a").Entries {
			if e.ID == c.ID {
				return false
			}
		}
		return true
	})
}

// So can it while its place is looked at: the claim is lost, whatever the look shows,
// as all that the session has is about to be deleted.
func TestAWaiterWhoseSessionEndedMeanwhileIsLost(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	kv := &afterEach{KV: client.KV}
	client.KV = kv
	s := closing(t, storeOn(t, client, apart()))
	other := closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), &Options{Prefix: s.prefix}))
	hold := mustHold(t, other, storetest.Mutex(store.NewProcess(), "a"))
	c := mutex("a")
	c.TTL = lateTTL
	if a := mustAsk(t, s, c); a.Granted {
		t.Fatal("granted beside another")
	}
	s.mu.Lock()
	sess := s.mine[c.ID].sess
	s.mu.Unlock()
	do := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.died(sess)
		return nil
	}
	kv.do.Store(&do)
	_, err := s.Ask(t.Context(), c)
	kv.do.Store(nil)
	if !errors.Is(err, store.ErrLost) {
		t.Fatalf("asked while its session ended: %v, want ErrLost", err)
	}
	if err := other.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Ask(t.Context(), c); err == nil {
		t.Errorf("asked again: %+v, with what was in a session that has ended", a)
	}
}

// afterEach does something when a transaction or a read was done, which may lose its
// answer.
type afterEach struct {
	clientv3.KV
	do atomic.Pointer[func() error]
}

func (k *afterEach) Txn(ctx context.Context) clientv3.Txn { return afterTxn{k.KV.Txn(ctx), k} }

func (k *afterEach) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r, err := k.KV.Get(ctx, key, opts...)
	return r, k.done(err)
}

func (k *afterEach) done(err error) error {
	if do := k.do.Load(); err == nil && do != nil {
		err = (*do)()
	}
	return err
}

type afterTxn struct {
	clientv3.Txn
	k *afterEach
}

func (t afterTxn) If(c ...clientv3.Cmp) clientv3.Txn { return afterTxn{t.Txn.If(c...), t.k} }

func (t afterTxn) Then(o ...clientv3.Op) clientv3.Txn { return afterTxn{t.Txn.Then(o...), t.k} }

func (t afterTxn) Else(o ...clientv3.Op) clientv3.Txn { return afterTxn{t.Txn.Else(o...), t.k} }

func (t afterTxn) Commit() (*clientv3.TxnResponse, error) {
	r, err := t.Txn.Commit()
	return r, t.k.done(err)
}
