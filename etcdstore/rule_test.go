package etcdstore

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// The time left of a hold counts from the instant before its session was requested or renewed, however late the answer
// comes.
func TestASessionCountsFromTheSendingOfItsRenewal(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	client := clientOf(t, server.Addr)
	s := closing(t, storeOn(t, client, nil))
	if err := s.Release(t.Context(), mustHold(t, s, mutex("warm"))); err != nil { // now the store is connected
		t.Fatal(err)
	}
	const hang = 300 * time.Millisecond
	// counts makes the server hang while f is called, and checks that the returned time counts from before that. If the
	// machine stalled for as long, the try shows nothing and is done again.
	counts := func(what string, f func() store.Instant) {
		t.Helper()
		var late time.Duration
		for range 10 {
			server.Freeze()
			sent := store.Now()
			thaw := time.AfterFunc(hang, server.Thaw)
			from := f()
			if thaw.Stop() {
				t.Fatal("the frozen server answered")
			}
			if late = from.Sub(sent); late < hang {
				return
			}
		}
		t.Errorf("%s counts from %v after it was sent", what, late)
	}
	c := mutex("a")
	var token int64
	counts("a new session", func() store.Instant {
		ttl := c.TTL + time.Second // each has a TTL of its own, so a session of its own
		c = mutex("a" + ttl.String())
		c.TTL = ttl
		a := mustAsk(t, s, c)
		token = a.Token
		return a.From
	})
	counts("a renewed session", func() store.Instant {
		r := s.Renew(t.Context(), []store.Hold{{Name: c.Name, ID: c.ID, Token: token, TTL: c.TTL}})[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.From
	})
}

// A writer that waited while another hold was upgraded has the larger token, though its entry is the older one.
func TestAWaiterIsGrantedATokenAboveTheUpgrades(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), apart()))
	up, waits := mutex("a"), mutex("a")
	up.Weight = store.Upgradeable
	hold := mustHold(t, s, up)
	if mustAsk(t, s, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	mustHold(t, s, mutex("b")) // so that the revision grows
	a, err := s.Change(t.Context(), hold, 1, store.Full)
	if err != nil || a.UpgradeToken <= hold.Token {
		t.Fatalf("Change: got %+v, %v", a, err)
	}
	if err := s.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if next := mustAsk(t, s, waits); !next.Granted || next.Token <= a.UpgradeToken {
		t.Errorf("after the upgrade token %d: got %+v for the writer", a.UpgradeToken, next)
	}
}

func TestTokensStillGrowOnAServerWithNoData(t *testing.T) {
	t.Parallel()
	before := mustHold(t, closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), apart())), mutex("a"))
	after := mustHold(t, closing(t, storeOn(t, clientOf(t, testserver.Etcd(t).Addr), nil)), mutex("a"))
	if after.Token <= before.Token {
		t.Errorf("got token %d after %d, want a larger one", after.Token, before.Token)
	}
}
