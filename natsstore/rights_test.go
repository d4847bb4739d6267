package natsstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// withUsers starts a server with three users. "locks" has just the rights that the package comment lists, "maker" may
// make the bucket as well, and "other" has none of these rights.
func withUsers(t *testing.T) string {
	t.Helper()
	locks, hears := listed(t, "publish"), listed(t, "subscribe")
	user := func(name, publish string) string {
		return fmt.Sprintf(`{ user: %s, password: secret, permissions: { publish: [%s], subscribe: [%s] } }`, name, publish, hears)
	}
	config := "authorization { users: [\n" + user("locks", locks) + "\n" + user("maker", locks+`, "$JS.API.STREAM.CREATE.KV_holdfast"`) + "\n" + user("other", `"elsewhere"`) + "\n] }"
	return testserver.NATS(t, config).Addr
}

// listed returns the subjects that the package comment lists for a right, for the bucket holdfast.
func listed(t *testing.T, right string) string {
	t.Helper()
	source, err := os.ReadFile("natsstore.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		if subjects, is := strings.CutPrefix(line, "//\t"+right+" "); is {
			bucket := strings.NewReplacer("$KV.B.", "$KV.holdfast.", "KV_B", "KV_holdfast", "hint.B.", "hint.holdfast.")
			return `"` + strings.Join(strings.Fields(bucket.Replace(subjects)), `", "`) + `"`
		}
	}
	t.Fatalf("the package comment lists no rights to %s", right)
	return ""
}

func openAs(t *testing.T, user, addr string) *Store {
	t.Helper()
	s, err := Open("nats://" + user + ":secret@" + addr)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

func TestTheLeastRightsSuffice(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	storetest.MustHold(t, openAs(t, "maker", addr), storetest.Mutex(me, "made"))
	a, b := openAs(t, "locks", addr), openAs(t, "locks", addr)
	woken := make(chan store.Notification, 10)
	if err := b.Watch(t.Context(), me, func(h store.Notification) { woken <- h }); err != nil {
		t.Fatal(err)
	}
	c := storetest.Mutex(me, "a")
	c.MinHold = time.Second
	hold, waits := storetest.MustHold(t, a, c), storetest.Mutex(me, "a")
	if r := a.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil { // it has a minimum hold, too
		t.Fatal(r.Err)
	}
	if storetest.MustAsk(t, b, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	if err := a.BreakHold(t.Context(), store.Break{Name: "a", ID: hold.ID, Token: hold.Token, Reason: "because", Now: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case h := <-woken:
		if h.ID != waits.ID || h.Name != "a" || h.Token <= hold.Token {
			t.Errorf("got notification %+v", h)
		}
	case <-time.After(patience):
		t.Fatal("the waiter got no notification")
	}
	if !storetest.MustAsk(t, b, waits).Granted {
		t.Error("notified, but not granted")
	}
	names := 0
	for _, err := range a.List(t.Context(), "") {
		if names++; err != nil {
			t.Error(err)
		}
	}
	if names != 2 {
		t.Errorf("got %d names listed, want 2", names)
	}
	u := storetest.Mutex(me, "b")
	u.Weight = store.Upgradeable
	up := storetest.MustHold(t, a, u)
	if r, err := a.Change(t.Context(), up, 1, store.Full); err != nil || !r.Granted {
		t.Errorf("Change: got %+v, %v", r, err)
	}
	up.NewID = store.Process{}.NewID()
	if r := a.Renew(t.Context(), []store.Hold{up})[0]; r.Err != nil { // it has a session of its own
		t.Error(r.Err)
	}
	for _, f := range a.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.About, f.Err)
		}
	}
}

// NATS does not answer a request that its user may not make. It reports the missing right on the connection instead.
func TestAMissingRightIsReported(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	s := openAs(t, "other", addr)
	var err error
	until(t, "the missing right is reported", func() bool { // a machine that stalls reports nothing in time
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = s.Ask(ctx, storetest.Mutex(me, "a"))
		return err == nil || store.Definite(err)
	})
	if !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), addr) {
		t.Errorf("%v, want ErrDenied with name and store", err)
	}
	wrong, err := Open("nats://other:swordfish@" + addr)
	if err == nil {
		defer wrong.Close()
		until(t, "the reason of the missing connection is reported", func() bool { // there is no reason while a connection is being made
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err = wrong.Ask(ctx, storetest.Mutex(me, "a"))
			return errors.Is(err, store.ErrDenied)
		})
	}
	if !errors.Is(err, store.ErrDenied) || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("a wrong password: %v, want ErrDenied without it", err)
	}
}

// The check reports a user that may read and not write, a user that may do neither, and that rights are unknown before
// there is a bucket. It writes nothing to find that out.
func TestTheCheckFindsAUserWithoutWriteRights(t *testing.T) {
	t.Parallel()
	reads := `"$JS.API.STREAM.INFO.KV_holdfast", "$JS.API.STREAM.MSG.GET.KV_holdfast"`
	locks := listed(t, "publish") + `, "$JS.API.STREAM.CREATE.KV_holdfast"`
	user := func(name, publish string) string {
		return fmt.Sprintf(`{ user: %s, password: secret, permissions: { publish: [%s], subscribe: [%s] } }`, name, publish, listed(t, "subscribe"))
	}
	addr := testserver.NATS(t, "authorization { users: [\n"+user("locks", locks)+"\n"+user("reads", reads)+"\n"+user("other", `"elsewhere"`)+"\n] }").Addr
	found := func(who, about string) store.Finding {
		t.Helper()
		all := openAs(t, who, addr).Check(t.Context())
		for _, f := range all {
			if f.About == about {
				return f
			}
		}
		t.Fatalf("%s: no finding about %s in %+v", who, about, all)
		return store.Finding{}
	}
	if f := found("locks", "rights"); f.Level() != store.LevelWarning || !strings.Contains(f.Text(), "not checked") {
		t.Errorf("without a bucket: %s %q", f.Level(), f.Text())
	}
	s := openAs(t, "locks", addr)
	storetest.MustHold(t, s, storetest.Mutex(me, "made"))
	last := func() uint64 {
		stream, err := s.b.js.Stream(t.Context(), s.b.streamName())
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	before := last()
	for who, want := range map[string]store.Level{"locks": store.LevelOK, "reads": store.LevelFailure} {
		until(t, "the missing right is reported", func() bool { // a machine that stalls reports nothing in time
			f := found(who, "rights")
			return f.Level() == want && (want == store.LevelOK || errors.Is(f.Err, store.ErrDenied))
		})
	}
	until(t, "the missing right is reported", func() bool { return errors.Is(found("other", "bucket holdfast").Err, store.ErrDenied) })
	if after := last(); after != before {
		t.Errorf("Check wrote: got %d messages, and %d before", after, before)
	}
}

// A check that follows the first claim sends nothing: the claim has just returned what the check needs.
func TestACheckAfterTheFirstClaimSendsNothing(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	counted := connect(t, addr)
	s, err := New(counted, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	storetest.MustHold(t, s, storetest.Mutex(me, "made"))
	before := counted.Stats().OutMsgs
	for _, f := range s.Check(t.Context()) {
		if f.Level() != store.LevelOK {
			t.Errorf("%s: %s", f.About, f.Text())
		}
	}
	if sent := counted.Stats().OutMsgs - before; sent != 0 {
		t.Errorf("got %d messages, want none", sent)
	}
}

// NATS reports a denied request once. The newest error of the connection still returns it when a later request gets no
// answer for another reason.
func TestADeniedDeleteOfNotesDoesNotFailALaterRead(t *testing.T) {
	t.Parallel()
	rights := strings.ReplaceAll(listed(t, "publish"), "STREAM.PURGE", "STREAM.CREATE")
	server := testserver.NATS(t, fmt.Sprintf(`authorization { users: [ { user: keeps, password: secret, permissions: { publish: [%s], subscribe: [%s] } } ] }`, rights, listed(t, "subscribe")))
	link := testserver.NewLink(t, server.Addr)
	s := openAs(t, "keeps", link.Addr())
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	s.b.took("a", mark{seq: 1})
	until(t, "the missing right is reported", func() bool { return errors.Is(s.b.nc.LastError(), nats.ErrPermissionViolation) })
	server.Freeze()
	if err := link.Sent(t.Context(), func(ctx context.Context) error { _, err := s.Poll(ctx, storetest.Mutex(me, "a")); return err }); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrDenied) {
		t.Errorf("an unanswered read: %v, want ErrUnavailable", err)
	}
	server.Thaw()
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s, err := Open("nats://127.0.0.1:1") // nothing listens there
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ok := storetest.Mutex(me, "a")
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
	if r := s.Renew(t.Context(), []store.Hold{{Name: "a", ID: ok.ID, Token: 1}})[0]; !errors.Is(r.Err, store.ErrInvalid) {
		t.Errorf("renewal for a TTL of 0: %v, want ErrInvalid", r.Err)
	}
	if err := s.BreakHold(t.Context(), store.Break{Name: "a", ID: ok.ID, Token: 1, Reason: strings.Repeat("x", store.MaxReason+1)}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a long reason: %v, want ErrInvalid", err)
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a connection: %v, want ErrInvalid", err)
	}
	for _, o := range []Options{{Bucket: "a.b"}, {Bucket: "ü"}, {Domain: "a.b"}, {Replicas: 6}, {Replicas: -1}} {
		if _, err := New(s.b.nc, &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", o, err)
		}
	}
	if _, err := s.Ask(t.Context(), ok); err == nil || store.Definite(err) {
		t.Errorf("without a server: %v, want it indeterminate", err)
	}
}

// Neither a refused try nor a read writes anything.
func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	for range s.List(t.Context(), "") {
		t.Error("got a name listed without a bucket")
	}
	if _, err := s.Poll(t.Context(), storetest.Mutex(me, "a")); err != nil {
		t.Error(err)
	}
	if _, err := s.b.js.Stream(t.Context(), s.b.streamName()); !isNotFound(err) {
		t.Errorf("a read created the bucket: %v", err)
	}
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	last := func() uint64 {
		stream, err := s.b.js.Stream(t.Context(), s.b.streamName())
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	try := storetest.Mutex(me, "a")
	try.Try = true
	before := last()
	for range 5 {
		if storetest.MustAsk(t, s, try).Granted {
			t.Fatal("two claims hold the lock")
		}
	}
	if after := last(); after != before {
		t.Errorf("the refused try changed the revision from %d to %d", before, after)
	}
}

func TestForeignAndNewerRecordsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	storetest.MustHold(t, s, storetest.Mutex(me, "warm"))
	for name, c := range map[string]struct {
		value string
		want  error
	}{
		"a": {"\x01nonsense", store.ErrCorrupt},
		"b": {"\x7fnewer", store.ErrUnsupported},
		"c": {"\x00", store.ErrCorrupt},
		"d": {`{"v":1}`, store.ErrUnsupported},
	} {
		if _, err := s.b.js.Publish(t.Context(), s.b.subject(keyOf(name)), []byte(c.value)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Ask(t.Context(), storetest.Mutex(me, name)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: Ask: %v, want %v with the name", name, err, c.want)
		}
		if r, err := s.b.Load(t.Context(), name); err != nil || string(r.Data) != c.value {
			t.Errorf("%s has changed: got %s, %v", name, r.Data, err)
		}
	}
	if _, err := s.b.js.Publish(t.Context(), s.b.subject("n.a=zz"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	corrupt, fine := 0, 0
	for st, err := range s.List(t.Context(), "") {
		switch {
		case err == nil && st.Name == "warm":
			fine++
		case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrUnsupported):
			corrupt++
		default:
			t.Errorf("got %+v listed, %v", st, err)
		}
	}
	if fine != 1 || corrupt != 5 {
		t.Errorf("got %d names listed and %d reported as foreign, want 1 and 5", fine, corrupt)
	}
}

// A bucket that would lose locks, or that answers with old data, is refused.
func TestABucketThatWouldLoseLocksIsRefused(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	for what, spoil := range map[string]func(*jetstream.KeyValueConfig){
		"a plain bucket":        func(*jetstream.KeyValueConfig) {},
		"a bucket with history": func(c *jetstream.KeyValueConfig) { c.History = 5 },
		"a bucket with a TTL":   func(c *jetstream.KeyValueConfig) { c.TTL = time.Hour },
		"a bucket without TTLs": func(c *jetstream.KeyValueConfig) { c.LimitMarkerTTL = 0 },
	} {
		o := apart()
		c := jetstream.KeyValueConfig{Bucket: o.Bucket, LimitMarkerTTL: time.Minute}
		spoil(&c)
		if _, err := s.b.js.CreateKeyValue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if what != "a plain bucket" { // except for direct gets
			stream, err := s.b.js.Stream(t.Context(), "KV_"+o.Bucket)
			if err != nil {
				t.Fatal(err)
			}
			no := stream.CachedInfo().Config
			no.AllowDirect = false
			if _, err := s.b.js.UpdateStream(t.Context(), no); err != nil {
				t.Fatal(err)
			}
		}
		_, err := closing(t, storeOn(t, s.b.nc, o)).Ask(t.Context(), storetest.Mutex(me, "a"))
		if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), o.Bucket) {
			t.Errorf("%s: %v, want ErrUnsupported with the bucket", what, err)
		}
	}
}

// A user that may not subscribe to the bucket gets an error that says so, and polls: it would wait in vain.
func TestAUserThatCannotSubscribeCannotWatchAName(t *testing.T) {
	t.Parallel()
	locks := listed(t, "publish")
	user := func(name, hears string) string {
		return fmt.Sprintf(`{ user: %s, password: secret, permissions: { publish: [%s, "$JS.API.STREAM.CREATE.KV_holdfast"], subscribe: [%s] } }`, name, locks, hears)
	}
	addr := testserver.NATS(t, "authorization { users: [\n"+user("hears", listed(t, "subscribe"))+"\n"+user("deaf", `"_INBOX.>", "holdfast.hint.holdfast.*"`)+"\n] }").Addr
	s := openAs(t, "hears", addr)
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	changed := make(chan bool, 100)
	stop, err := s.WatchName(t.Context(), "b", func() { changed <- true })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	deaf := openAs(t, "deaf", addr)
	if _, err := deaf.WatchName(t.Context(), "b", func() {}); !errors.Is(err, store.ErrDenied) {
		t.Errorf("%v, want ErrDenied", err)
	}
	storetest.MustHold(t, deaf, storetest.Mutex(me, "b")) // everything else works
	select {
	case <-changed:
	case <-time.After(patience):
		t.Error("the user with the right gets no notification")
	}
}
