package etcdstore

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// What is told of a hold counts from the instant before its session was asked
// for or renewed, however late the answer is.
func TestASessionCountsFromTheSendingOfItsRenewal(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	client := clientOf(t, server.Addr)
	s := closing(t, storeOn(t, client, nil))
	if _, err := s.base(t.Context()); err != nil { // it is connected
		t.Fatal(err)
	}
	const hang = 300 * time.Millisecond
	// slowly has the server hang when f is called, and checks that it took that
	// long.
	slowly := func(f func()) (sent store.Instant) {
		server.Freeze()
		thaw := time.AfterFunc(hang, server.Thaw)
		defer thaw.Stop()
		sent = store.Now()
		f()
		if store.Now().Sub(sent) < hang {
			t.Fatal("a frozen server has answered")
		}
		return sent
	}
	c := mutex("a")
	var a store.Answer
	if sent := slowly(func() { a = mustAsk(t, s, c) }); a.From.Sub(sent) > hang/2 {
		t.Errorf("a new session counts from %v after it was asked for", a.From.Sub(sent))
	}
	s.mu.Lock()
	sess := s.mine[c.ID].sess
	sess.renewed -= store.Instant(sess.ttl / 5) // so that it is due
	s.mu.Unlock()
	hold := store.Hold{Name: "a", ID: c.ID, Token: a.Token, TTL: c.TTL}
	var r store.Renewal
	if sent := slowly(func() { r = s.Renew(t.Context(), []store.Hold{hold})[0] }); r.Err != nil || r.From.Sub(sent) > hang/2 {
		t.Errorf("renewed %v after it was sent, %v", r.From.Sub(sent), r.Err)
	}
}

// A writer that has waited while another hold was upgraded has the larger token,
// though its entry is the older one.
func TestTheTokenIsOfTheLookThatShowedTheGrant(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), apart()))
	up, waits := mutex("a"), mutex("a")
	up.Weight = store.Upgradeable
	hold := mustHold(t, s, up)
	if mustAsk(t, s, waits).Granted {
		t.Fatal("two hold it")
	}
	mustHold(t, s, mutex("b")) // so that the revision goes on
	a, err := s.Change(t.Context(), hold, 1, store.Full)
	if err != nil || a.Fence <= hold.Token {
		t.Fatalf("upgrade: %+v, %v", a, err)
	}
	if err := s.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if next := mustAsk(t, s, waits); !next.Granted || next.Token <= a.Fence {
		t.Errorf("after the fence %d the writer has %+v", a.Fence, next)
	}
}

// A server that has lost all its data counts its revisions from one.
func TestTokensBeginWithTheTime(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.Etcd(t).Addr)
	var others sync.WaitGroup
	for range 8 { // 8,000 revisions of 64 tokens each are half a second
		others.Go(func() {
			for range 1000 {
				if _, err := client.Put(t.Context(), "of others", ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	others.Wait()
	h := mustHold(t, closing(t, storeOn(t, client, nil)), mutex("a"))
	if now := time.Now().UnixMicro(); h.Token > now+100*maxBlock {
		t.Errorf("the first token is %d, at %d", h.Token, now)
	}
}

func TestTokensGoOnUpwardsOnAServerWithNoData(t *testing.T) {
	t.Parallel()
	before := mustHold(t, closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), apart())), mutex("a"))
	after := mustHold(t, closing(t, storeOn(t, clientOf(t, testserver.Etcd(t).Addr), nil)), mutex("a"))
	if after.Token <= before.Token {
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
}
