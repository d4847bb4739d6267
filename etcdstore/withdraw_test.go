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
)

// Its owner withdraws once. What etcd has not answered is for the store to do
// again.
func TestAWithdrawalThatIsNotAnsweredIsDoneAgain(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	lossy := &losing{KV: client.KV}
	client.KV = lossy
	s := closing(t, storeOn(t, client, apart()))
	hold := mustHold(t, s, mutex("a"))
	lossy.lose.Store(true)
	if err := s.Release(t.Context(), store.Hold{Name: "a", ID: hold.ID}); err == nil || store.Definite(err) {
		t.Fatalf("a withdrawal that was not answered: %v, want it unclear", err)
	}
	until(t, "it is withdrawn", func() bool { return len(entriesOf(t, s, "a").Entries) == 0 })
}

// So is what its owner gave back, and may give back again: in a process that
// lives on, the name would be taken for a whole TTL.
func TestAReleaseThatIsNotAnsweredIsDoneAgain(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	lossy := &losing{KV: client.KV}
	client.KV = lossy
	s := closing(t, storeOn(t, client, apart()))
	for _, again := range []bool{true, false} {
		c := mutex("a")
		c.TTL = time.Minute
		hold := mustHold(t, s, c)
		lossy.lose.Store(true)
		if err := s.Release(t.Context(), hold); err == nil || store.Definite(err) {
			t.Fatalf("a release that was not answered: %v, want it unclear", err)
		}
		if again {
			if err := s.Release(t.Context(), hold); err != nil {
				t.Errorf("the same release again: %v", err)
			}
		}
		until(t, "it is given back", func() bool { return len(entriesOf(t, s, "a").Entries) == 0 })
	}
}

// An ask that was not answered can come to etcd at any time, also behind its
// withdrawal.
func TestWhatSlipsInBehindItsWithdrawalIsGoneAgain(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	kv := &unheard{KV: client.KV}
	client.KV = kv
	s := closing(t, storeOn(t, client, apart()))
	if err := s.Release(t.Context(), mustHold(t, s, mutex("warm"))); err != nil { // the floor is there
		t.Fatal(err)
	}
	c := mutex("a")
	kv.lose.Store(true)
	if _, err := s.Ask(t.Context(), c); err == nil || store.Definite(err) {
		t.Fatalf("an ask that was not answered: %v, want it unclear", err)
	}
	s.mu.Lock()
	key, lease := s.mine[c.ID].key, s.mine[c.ID].sess.lease
	s.mu.Unlock()
	r, err := client.Get(t.Context(), key)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("asked for, and there is %v, %v", r, err)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "a", ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	_, err = client.Put(t.Context(), key, string(r.Kvs[0].Value), clientv3.WithLease(lease))
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Fatal(err)
	}
	until(t, "what slipped in is gone", func() bool { return len(entriesOf(t, s, "a").Entries) == 0 })
}

// unheard does a transaction, and has no answer to it, once.
type unheard struct {
	clientv3.KV
	lose atomic.Bool
}

func (k *unheard) Txn(ctx context.Context) clientv3.Txn {
	t := k.KV.Txn(ctx)
	if k.lose.Swap(false) {
		return unheardTxn{t}
	}
	return t
}

type unheardTxn struct{ clientv3.Txn }

func (t unheardTxn) If(c ...clientv3.Cmp) clientv3.Txn { return unheardTxn{t.Txn.If(c...)} }

func (t unheardTxn) Then(o ...clientv3.Op) clientv3.Txn { return unheardTxn{t.Txn.Then(o...)} }

func (t unheardTxn) Else(o ...clientv3.Op) clientv3.Txn { return unheardTxn{t.Txn.Else(o...)} }

func (t unheardTxn) Commit() (*clientv3.TxnResponse, error) {
	if _, err := t.Txn.Commit(); err != nil {
		return nil, err
	}
	return nil, context.DeadlineExceeded
}
