package zkstore

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// In a path that belongs to its user alone a store works fully, makes nothing that others can read, and needs no right
// above it. Others get an error that they lack the rights.
func TestTheRightsOfItsPathSuffice(t *testing.T) {
	t.Parallel()
	addr, above := testserver.SharedZooKeeper(t), apart().Path
	c := connOf(t, addr)
	if _, err := c.Create(above, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(above+"/team", nil, 0, zk.DigestACL(zk.PermAll, "locks", "secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetACL(above, nobody, -1); err != nil {
		t.Fatal(err)
	}
	open := func(user string) *Store {
		s, err := Open("zk://" + user + "@" + addr + above + "/team/locks")
		if err != nil {
			t.Fatal(err)
		}
		return closing(t, s)
	}
	a, b := open("locks:secret"), open("locks:secret")
	hold, waits := mustHold(t, a, mutex("a")), mutex("a")
	if mustAsk(t, b, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	if r := a.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := a.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	token := mustAsk(t, b, waits).Token
	if err := a.BreakHold(t.Context(), store.Break{Name: "a", ID: waits.ID, Token: token, Reason: "because"}); err != nil {
		t.Fatal(err)
	}
	if st := entriesOf(t, a, ""); len(st.Entries) != 1 || st.Entries[0].Broken != "because" {
		t.Errorf("got %+v listed", st)
	}
	for _, f := range a.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.About, f.Err)
		}
	}
	if _, _, err := c.Children(above + "/team/locks/n/a"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another user may read the record: %v", err)
	}
	_, err := open("other:swordfish").Ask(t.Context(), mutex("a"))
	if !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("%v, want ErrDenied with name and store, and no password", err)
	}
}

// nobody is an ACL that allows nothing: its user does not exist.
var nobody = zk.DigestACL(zk.PermAll, "nobody", store.NewProcess().String())

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s := closing(t, storeOn(t, nil, "127.0.0.1:1")) // nothing listens there
	ok := mutex("a")
	for what, spoil := range map[string]func(*store.Claim){
		"no name":         func(c *store.Claim) { c.Name = "" },
		"a long name":     func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"no limit":        func(c *store.Claim) { c.Limit = 0 },
		"too much weight": func(c *store.Claim) { c.Limit, c.Weight = 2, 3 },
		"a short TTL":     func(c *store.Claim) { c.TTL = 999 * time.Millisecond },
		"a long TTL":      func(c *store.Claim) { c.TTL = maxTTL + 1 },
		"a long owner":    func(c *store.Claim) { c.Owner = strings.Repeat("x", math.MaxUint16+1) },
	} {
		c := ok
		spoil(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: ask: %v, want ErrInvalid", what, err)
		}
	}
	if r := s.Renew(t.Context(), []store.Hold{{Name: "a", ID: ok.ID, Token: 1}})[0]; !errors.Is(r.Err, store.ErrInvalid) {
		t.Errorf("renewal for a TTL of 0: %v, want ErrInvalid", r.Err)
	}
	for _, path := range []string{"locks", "/a//b", "/a/../b", "/a\x00"} {
		if _, err := New([]string{"h:1"}, &Options{Path: path}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("path %q: %v, want ErrInvalid", path, err)
		}
	}
	for _, servers := range [][]string{nil, {"host"}} {
		if _, err := New(servers, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("servers %q: %v, want ErrInvalid", servers, err)
		}
	}
}

func TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, apart(), testserver.SharedZooKeeper(t)))
	// The test server grants everything that Ask allows.
	for ttl, want := range map[time.Duration]time.Duration{minTTL - 100*time.Millisecond: minTTL, maxTTL + time.Hour: maxTTL} {
		var err error
		until(t, "the TTL is refused", func() bool { // the driver soon gives up such a short session
			_, err = s.backend.Begin(t.Context(), session.NewID(), ttl)
			return err == nil || store.Definite(err)
		})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "grants is "+want.String()) {
			t.Errorf("a TTL of %v: %v, want ErrInvalid with the granted TTL", ttl, err)
		}
	}
	for ttl, session := range map[time.Duration]time.Duration{
		2 * time.Second: 2 * time.Second, 3 * time.Second: 2500 * time.Millisecond, 3001 * time.Millisecond: 2501 * time.Millisecond,
		4 * time.Second: 3 * time.Second, 10 * time.Second: 9 * time.Second, maxTTL: maxTTL - time.Second,
	} {
		c := mutex(ttl.String())
		c.TTL, c.PositionTTL = ttl, time.Second
		var a store.Answer
		until(t, "the ask is answered", func() bool { // a short session ends if the machine stalls
			var err error
			a, err = s.Ask(t.Context(), c)
			if errors.Is(err, store.ErrLost) {
				c.ID = me.NewID()
			} else if err != nil && store.Definite(err) {
				t.Fatalf("a TTL of %v: %v", ttl, err)
			}
			return err == nil
		})
		if !a.Granted || a.TTL != session*3/4 {
			t.Errorf("a TTL of %v: got %+v, want a grant, and three quarters of %v as TTL", ttl, a, session)
		}
	}
}

func TestNoTwoNamesHaveTheSameNode(t *testing.T) {
	for name, node := range map[string]string{
		"a/b": "a%2Fb", ".": "%2E", "..": "%2E%2E", "%2F": "%252F", "\x00\xff": "%00%FF", "ü": "%C3%BC", "A": "A", "a": "a",
	} {
		if got := escape(name); got != node {
			t.Errorf("%q: got node %q, want %q", name, got, node)
		}
		if back, ok := unescape(node); !ok || back != name {
			t.Errorf("%q: got name %q, %v", node, back, ok)
		}
	}
	for _, node := range []string{"", "%", "%2", "%2f", "%41", "a b"} {
		if name, ok := unescape(node); ok {
			t.Errorf("%q: got name %q, want it refused", node, name)
		}
	}
}
