package etcdstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A replaying KV keeps the transactions that are sent, so that they can arrive once more. It can lose an answer or what
// is sent, and can do something before an answer.
type replaying struct {
	clientv3.KV
	fate atomic.Pointer[func(*sent) error] // of each transaction; nil: what etcd answers

	mu  sync.Mutex
	all []*sent
}

// A sent transaction.
type sent struct {
	kv       clientv3.KV
	ctx      context.Context
	when     []clientv3.Cmp
	then, or []clientv3.Op
	r        *clientv3.TxnResponse
}

func (s *sent) arrive(ctx context.Context) (err error) {
	s.r, err = s.kv.Txn(ctx).If(s.when...).Then(s.then...).Else(s.or...).Commit()
	return err
}

func (s *sent) writes() bool {
	for _, op := range s.then {
		if op.IsPut() || op.IsDelete() {
			return true
		}
	}
	return false
}

func (k *replaying) Txn(ctx context.Context) clientv3.Txn {
	return &replayed{k: k, sent: &sent{kv: k.KV, ctx: ctx}}
}

type replayed struct {
	k *replaying
	*sent
}

func (t *replayed) If(c ...clientv3.Cmp) clientv3.Txn  { t.when = append(t.when, c...); return t }
func (t *replayed) Then(o ...clientv3.Op) clientv3.Txn { t.then = append(t.then, o...); return t }
func (t *replayed) Else(o ...clientv3.Op) clientv3.Txn { t.or = append(t.or, o...); return t }

func (t *replayed) Commit() (*clientv3.TxnResponse, error) {
	t.k.mu.Lock()
	t.k.all = append(t.k.all, t.sent)
	t.k.mu.Unlock()
	if fate := t.k.fate.Load(); fate != nil {
		if err := (*fate)(t.sent); err != nil || t.r != nil {
			return t.r, err
		}
	}
	err := t.arrive(t.ctx)
	return t.r, err
}

// meets gives each transaction this fate from now on.
func (k *replaying) meets(fate func(*sent) error) { k.fate.Store(&fate) }

// loses drops the answers of the next n transactions that write, or the transactions themselves.
func (k *replaying) loses(n int32, itself bool) {
	var met atomic.Int32
	k.meets(func(s *sent) error {
		if !s.writes() || met.Add(1) > n {
			return nil
		}
		if !itself {
			if err := s.arrive(s.ctx); err != nil {
				return err
			}
			s.r = nil
		}
		return context.DeadlineExceeded
	})
}

// again makes everything that was sent so far arrive once more, the newest last.
func (k *replaying) again(t testing.TB) {
	t.Helper()
	k.mu.Lock()
	all := k.all
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, s := range all {
		if s.writes() {
			late := *s
			_ = late.arrive(ctx) // its lease may have ended
		}
	}
}

// lossy is a store whose transactions can be lost, and can arrive again.
func lossy(t testing.TB, addr string, o *Options) (*Store, *replaying) {
	t.Helper()
	client := clientOf(t, addr)
	kv := &replaying{KV: client.KV}
	client.KV = kv
	return closing(t, storeOn(t, client, o)), kv
}

// lateTTL is the TTL of sessions that must outlast a stall of the machine.
const lateTTL = 12 * time.Second
