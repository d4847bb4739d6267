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
	// counts has the server hang when f is called, and checks that what it returns is
	// counted from before that. A machine that was busy for as long as that tells
	// nothing: it is done again.
	counts := func(what string, f func() store.Instant) {
		t.Helper()
		var late time.Duration
		for range 10 {
			server.Freeze()
			sent := store.Now()
			thaw := time.AfterFunc(hang, server.Thaw)
			from := f()
			if thaw.Stop() {
				t.Fatal("a frozen server has answered")
			}
			if late = from.Sub(sent); late < hang {
				return
			}
		}
		t.Errorf("%s counts from %v after it was asked for", what, late)
	}
	c := mutex("a")
	counts("a new session", func() store.Instant {
		ttl := c.TTL + time.Second // each has its own
		c = mutex("a" + ttl.String())
		c.TTL = ttl
		return mustAsk(t, s, c).From
	})
	counts("a renewed session", func() store.Instant {
		s.mu.Lock()
		sess, token := s.mine[c.ID].sess, s.mine[c.ID].token
		sess.renewed -= store.Instant(sess.ttl / 5) // so that it is due
		s.mu.Unlock()
		r := s.Renew(t.Context(), []store.Hold{{Name: c.Name, ID: c.ID, Token: token, TTL: c.TTL}})[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.From
	})
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
	client := clientOf(t, testserver.SharedEtcd(t))
	const revisions = 1000 // of 64 tokens each, which are microseconds
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			for range revisions / 8 {
				if _, err := client.Put(t.Context(), "of others", ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	others.Wait()
	for range 20 { // if it takes so long that it tells nothing
		before := time.Now().UnixMicro()
		token := mustHold(t, closing(t, storeOn(t, client, apart())), mutex("a")).Token
		now := time.Now().UnixMicro()
		if token > now+100*maxBlock {
			t.Fatalf("the first token is %d, at %d", token, now)
		}
		if now-before < revisions*maxBlock/2 {
			return
		}
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
