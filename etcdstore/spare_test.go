package etcdstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// keyOf is where the claim is kept.
func keyOf(s *Store, id store.ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mine[id].key
}

// etcd remembers each key that there ever was until it is compacted, and whoever
// lists a name goes through all of them.
func TestANameThatIsLockedOverAndOverHasFewKeys(t *testing.T) {
	t.Parallel()
	o := apart()
	client := clientOf(t, testserver.SharedEtcd(t))
	s := closing(t, storeOn(t, client, o))
	waits := mutex("a")
	var before int64
	for i := range 20 {
		hold := mustHold(t, s, mutex("a"))
		if i == 0 {
			r, err := client.Get(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			before = r.Header.Revision // its own entry was put at it, or before
		}
		if waits = mutex("a"); mustAsk(t, s, waits).Granted {
			t.Fatal("two hold it")
		}
		if err := s.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		// One is granted, the next is given up.
		if i%2 == 0 {
			a := mustAsk(t, s, waits)
			if !a.Granted || a.Token <= hold.Token {
				t.Fatalf("after %+v: %+v", hold, a)
			}
			hold = store.Hold{Name: "a", ID: waits.ID, Token: a.Token}
		} else {
			hold = store.Hold{Name: "a", ID: waits.ID}
		}
		if err := s.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keys, puts := map[string]bool{}, 0
	for r := range client.Watch(ctx, s.keys("a"), clientv3.WithPrefix(), clientv3.WithRev(before)) {
		for _, e := range r.Events {
			if e.Type == clientv3.EventTypePut {
				keys[string(e.Kv.Key)] = true
				puts++
			}
		}
		if puts >= 39 {
			break
		}
	}
	if puts < 39 || len(keys) > 2 {
		t.Errorf("%d claims, two at once, had %d keys: want 2", puts, len(keys))
	}
}

// A deletion that etcd has not answered may be done at any time: what comes after
// it must not be there.
func TestAKeyThatMayYetBeDeletedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	lossy := &losing{KV: client.KV}
	client.KV = lossy
	s := closing(t, storeOn(t, client, apart()))
	for _, token := range []bool{true, false} {
		hold := mustHold(t, s, mutex("a"))
		key := keyOf(s, hold.ID)
		if !token {
			hold.Token = 0
		}
		lossy.lose.Store(true)
		if err := s.Release(t.Context(), hold); err == nil || store.Definite(err) {
			t.Fatalf("a release that was not answered: %v, want it unclear", err)
		}
		if err := s.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		next := mustHold(t, s, mutex("a"))
		if keyOf(s, next.ID) == key {
			t.Error("the next claim has the key that may yet be deleted")
		}
		if err := s.Release(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
}

// losing has no answer to one transaction.
type losing struct {
	clientv3.KV
	lose atomic.Bool
}

func (k *losing) Txn(ctx context.Context) clientv3.Txn {
	if k.lose.Swap(false) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	return k.KV.Txn(ctx)
}

// Nor is one beside which a minimum hold goes on.
func TestAKeyWithAMinimumHoldIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), apart()))
	c := mutex("a")
	c.Keep = 300 * time.Millisecond // its key lasts for a second
	hold := mustHold(t, s, c)
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	key := keyOf(s, hold.ID)
	time.Sleep(c.Keep)
	if err := s.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	next := mutex("a")
	mustAsk(t, s, next)
	if keyOf(s, next.ID) == key {
		t.Error("the next claim has the key that has a minimum hold beside it")
	}
}

// A process that gives back what another has asked for takes nothing that has come
// in its place.
func TestAnotherProcessDeletesNoLaterClaimOfTheSameKey(t *testing.T) {
	t.Parallel()
	client, o := clientOf(t, testserver.SharedEtcd(t)), apart()
	s := closing(t, storeOn(t, client, o))
	first := mustHold(t, s, mutex("a"))
	other := closing(t, storeOn(t, between{client, func() {
		if err := s.Release(context.WithoutCancel(t.Context()), first); err != nil {
			t.Error(err)
		}
		mustHold(t, s, mutex("a"))
	}}.client(t), o))
	if err := other.Release(t.Context(), store.Hold{Name: "a", ID: first.ID}); err != nil {
		t.Error(err)
	}
	if st := entriesOf(t, s, "a"); len(st.Entries) != 1 || st.Entries[0].ID == first.ID {
		t.Errorf("of the later claim is left: %+v", st)
	}
}

// between is a client that does something once, after it has read a range.
type between struct {
	*clientv3.Client
	then func()
}

func (b between) client(t *testing.T) *clientv3.Client {
	c := clientOf(t, b.Endpoints()...)
	c.KV = &afterRead{KV: c.KV, then: b.then}
	return c
}

type afterRead struct {
	clientv3.KV
	then func()
}

func (k *afterRead) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r, err := k.KV.Get(ctx, key, opts...)
	if then := k.then; then != nil && len(opts) > 0 {
		k.then = nil
		then()
	}
	return r, err
}
