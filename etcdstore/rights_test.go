package etcdstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// withUsers starts a server with a user "locks", who has just the rights that the package comment lists, and a user
// "other", who has none of them.
func withUsers(t *testing.T) string {
	t.Helper()
	addr := testserver.Etcd(t, "--bcrypt-cost", "4").Addr
	c := clientOf(t, addr)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.RoleAdd(ctx, "root"))
	must(c.UserAdd(ctx, "root", "r"))
	must(c.UserGrantRole(ctx, "root", "root"))
	for user, prefix := range map[string]string{"locks": "holdfast/", "other": "elsewhere/"} {
		must(c.RoleAdd(ctx, user))
		must(c.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)))
		must(c.UserAdd(ctx, user, "secret"))
		must(c.UserGrantRole(ctx, user, user))
	}
	must(c.AuthEnable(ctx))
	return addr
}

func TestTheLeastRightsSuffice(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	a, b := openURL(t, "etcd://locks:secret@"+addr), openURL(t, "etcd://locks:secret@"+addr)
	woken := make(chan store.Notification, 10)
	if err := b.Watch(t.Context(), me, func(h store.Notification) { woken <- h }); err != nil {
		t.Fatal(err)
	}
	c := mutex("a")
	c.MinHold = time.Second
	hold, waits := mustHold(t, a, c), mutex("a")
	if r := a.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil { // it has a minimum hold, too
		t.Fatal(r.Err)
	}
	if mustAsk(t, b, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	if err := a.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	until(t, "the waiter is notified and granted", func() bool {
		select {
		case <-woken:
			return mustAsk(t, b, waits).Granted
		default:
			return false
		}
	})
	if err := a.BreakHold(t.Context(), store.Break{Name: "a", ID: waits.ID, Token: mustAsk(t, b, waits).Token, Reason: "because"}); err != nil {
		t.Fatal(err)
	}
	if st := entriesOf(t, a, ""); len(st.Entries) != 1 || st.Entries[0].Broken != "because" {
		t.Errorf("got %+v listed", st)
	}
	u := mutex("b")
	u.Weight = store.Upgradeable
	up := mustHold(t, a, u)
	if r, err := a.Change(t.Context(), up, 1, store.Full); err != nil || !r.Granted {
		t.Errorf("Change: got %+v, %v", r, err)
	}
	up.NewID = store.Process{}.NewID()
	if r := a.Renew(t.Context(), []store.Hold{up})[0]; r.Err != nil { // it has a lease of its own
		t.Error(r.Err)
	}
	for _, f := range a.Check(t.Context()) {
		if f.Err != nil || f.Warning && !strings.Contains(f.Found, "fix it") {
			t.Errorf("%s: %s %q", f.About, f.Level(), f.Text())
		}
	}
}

// A member may report its status to administrators only. It counts as up; a member that cannot be reached does not.
func TestAMemberThatHidesItsStatusIsNotDown(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{rpctypes.ErrPermissionDenied: true, context.DeadlineExceeded: false} {
		if f, answers := findingOf(nil, err); answers != want || f.Warning == want || f.Err != nil {
			t.Errorf("%v: %s %q, got answers: %v", err, f.Level(), f.Found, answers)
		}
	}
}

// Versions in which a hung leader ends leases get a warning, and no others do.
func TestAVersionThatLosesLeasesIsWarnedOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.4.23": true, "3.4.30": true, "3.4.31": false, "3.5.0": true, "3.5.12": true, "3.5.13": false, "3.5.13-rc.1": false, "3.6.0": false, "3.3.1": false, "4.4.1": false, "main": false, "": false,
	} {
		if got := hasFault(version); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
	all := openURL(t, "etcd://"+testserver.SharedEtcd(t)).Check(t.Context())
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(all[0].Found, "etcd "), ":")
	if f := all[0]; f.Warning != hasFault(version) || f.Warning != strings.Contains(f.Found, "fix it") {
		t.Errorf("%s: %s %q", version, f.Level(), f.Found)
	}
}

func TestAMissingRightIsReported(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	_, err := openURL(t, "etcd://other:secret@"+addr).Ask(t.Context(), mutex("a"))
	if !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), addr) {
		t.Errorf("%v, want ErrDenied with name and store", err)
	}
	if _, err := opened("etcd://other:swordfish@" + addr); !errors.Is(err, store.ErrDenied) || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("a wrong password: %v, want ErrDenied without it", err)
	}
}

// Two stores in different namespaces of one client are independent. A namespace is set by the client, not by the store.
func TestANamespaceOfTheClientIsKept(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedEtcd(t)
	in := func(space string) *Store {
		c := clientOf(t, addr)
		c.KV, c.Watcher, c.Lease = namespace.NewKV(c.KV, space), namespace.NewWatcher(c.Watcher, space), namespace.NewLease(c.Lease, space)
		return closing(t, storeOn(t, c, nil))
	}
	here := "space-" + store.NewProcess().String() + "/"
	a, b, other := in(here), in(here), in("another/"+here)
	woken := make(chan store.Notification, 10)
	if err := b.Watch(t.Context(), me, func(h store.Notification) { woken <- h }); err != nil {
		t.Fatal(err)
	}
	hold, waits := mustHold(t, a, mutex("a")), mutex("a")
	if mustAsk(t, b, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	mustHold(t, other, mutex("a"))
	if err := a.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	select {
	case h := <-woken:
		if h.ID != waits.ID || h.Name != "a" {
			t.Errorf("got notification %+v", h)
		}
	case <-time.After(patience):
		t.Fatal("the waiter got no notification")
	}
	if !mustAsk(t, b, waits).Granted {
		t.Error("notified, but not granted")
	}
	plain := clientOf(t, addr)
	r, err := plain.Get(context.WithoutCancel(t.Context()), here, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || r.Count < 4 { // the base, the record, and two sessions
		t.Errorf("got %d keys in the namespace, %v, want 4 or more", r.Count, err)
	}
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, clientOf(t, "127.0.0.1:1"), nil)) // nothing listens there
	ok := mutex("a")
	for what, spoil := range map[string]func(*store.Claim){
		"no name":            func(c *store.Claim) { c.Name = "" },
		"a long name":        func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"no limit":           func(c *store.Claim) { c.Limit = 0 },
		"too much weight":    func(c *store.Claim) { c.Limit, c.Weight = 2, 3 },
		"a short TTL":        func(c *store.Claim) { c.TTL = 999 * time.Millisecond },
		"a long TTL":         func(c *store.Claim) { c.TTL = maxTTL + 1 },
		"a long owner":       func(c *store.Claim) { c.Owner = strings.Repeat("x", 1<<16) },
		"a negative minimum": func(c *store.Claim) { c.MinHold = -1 },
	} {
		c := ok
		spoil(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: ask: %v, want ErrInvalid", what, err)
		}
		if _, err := s.Poll(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: poll: %v, want ErrInvalid", what, err)
		}
	}
	delayed := ok
	delayed.LockDelay = time.Second
	if _, err := s.Ask(t.Context(), delayed); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a lock delay: %v, want ErrUnsupported", err)
	}
	if r := s.Renew(t.Context(), []store.Hold{{Name: "a", ID: ok.ID, Token: 1}})[0]; !errors.Is(r.Err, store.ErrInvalid) {
		t.Errorf("renewal for a TTL of 0: %v, want ErrInvalid", r.Err)
	}
	if err := s.BreakHold(t.Context(), store.Break{Name: "a", ID: ok.ID, Token: 1, Reason: strings.Repeat("x", store.MaxReason+1)}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a long reason: %v, want ErrInvalid", err)
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a client: %v, want ErrInvalid", err)
	}
}

// The elections of this server take longer than those of the other tests: the least TTL that it grants is three
// seconds.
func TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	addr := testserver.Etcd(t, "--heartbeat-interval", "200", "--election-timeout", "2000").Addr
	s := closing(t, storeOn(t, clientOf(t, addr), nil))
	short := mutex("a")
	short.TTL, short.PositionTTL = 2*time.Second, 2*time.Second
	_, err := s.Ask(t.Context(), short)
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "3s") || !strings.Contains(err.Error(), "2s") {
		t.Errorf("%v, want ErrInvalid with the granted TTL", err)
	}
	short.TTL = 3 * time.Second
	until(t, "a TTL that the server grants", func() bool {
		short.ID, short.Try = me.NewID(), true
		a, err := s.Ask(t.Context(), short)
		if err != nil && !errors.Is(err, store.ErrLost) { // it had ended before the answer
			t.Fatal(err)
		}
		return a.Granted
	})
}

// A refused try writes nothing.
func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.Etcd(t).Addr)
	s := closing(t, storeOn(t, client, nil))
	mustHold(t, s, mutex("a"))
	read := mutexTry("b")
	read.Weight = 1
	mustHold(t, s, read)
	revision := func() int64 {
		r, err := client.Get(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	before := revision()
	for range 5 {
		for _, name := range []string{"a", "b"} {
			if mustAsk(t, s, mutexTry(name)).Granted {
				t.Fatal("two claims hold the lock")
			}
		}
	}
	if after := revision(); after != before {
		t.Errorf("the refused try changed the revision from %d to %d", before, after)
	}
}

func TestForeignAndNewerKeysAreLeftAlone(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedEtcd(t)
	o := apart()
	client := clientOf(t, addr)
	s := closing(t, storeOn(t, client, o))
	mustHold(t, s, mutex("warm"))
	for name, c := range map[string]struct {
		value string
		want  error
	}{
		"foreign": {"x", store.ErrUnsupported}, // its first byte could be a future form
		"damaged": {"\x01nonsense", store.ErrCorrupt},
		"newer":   {"\xff", store.ErrUnsupported},
		"text":    {"\x00", store.ErrCorrupt},
	} {
		key := o.Prefix + "n/" + name
		if _, err := client.Put(t.Context(), key, c.value); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Ask(t.Context(), mutexTry(name)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Ask: %v, want %v with the name", key, err, c.want)
		}
		r, err := client.Get(t.Context(), key)
		if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != c.value || r.Kvs[0].Version != 1 {
			t.Errorf("%s has changed: got %v, %v", key, r.Kvs, err)
		}
	}
	// All are listed. A record that cannot be read is an error with its name.
	listed := 0
	for st, err := range s.List(t.Context(), "") {
		listed++
		if err == nil && st.Name != "warm" || err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrUnsupported) || err != nil && !strings.HasPrefix(err.Error(), "list \"") {
			t.Errorf("got %+v listed, %v", st, err)
		}
	}
	if listed != 5 {
		t.Errorf("got %d names listed, want 5", listed)
	}
	// The base has a newer form: nothing is written below it.
	n := apart()
	if _, err := client.Put(t.Context(), n.Prefix+"base", "3:0"); err != nil {
		t.Fatal(err)
	}
	_, err := closing(t, storeOn(t, client, n)).Ask(t.Context(), mutex("a"))
	if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "3") {
		t.Errorf("%v, want ErrUnsupported with the format", err)
	}
}
