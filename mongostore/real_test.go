package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// These tests show what a stand-in cannot show, or shows only as its author understood the manual. A test is skipped on
// a server that does not allow what it needs. They run one after another, as some make the server fail.

// One claim makes the document. The unique index of _id refuses the others, and they leave a note in the document.
func TestFirstClaimsOfANameThatMeetAreAllAnswered(t *testing.T) {
	const claims, rounds = 32, 3
	client := clientOf(t, serverURI(t))
	o := apart()
	var stores []*Store
	for range claims {
		s := storeOn(t, client.Database(database), o)
		t.Cleanup(func() { drop(s) })
		tried(t, s.b)
		stores = append(stores, s)
	}
	for round, told := 0, 0; told < rounds; round++ {
		if round == 10*rounds {
			t.Fatal("this machine is too slow: each time positions expired before all claims got an answer")
		}
		name, began := fmt.Sprint("n", round), store.Now()
		var granted atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for _, s := range stores {
			c := storetest.Mutex(store.NewProcess(), name)
			all.Go(func() {
				<-start
				a, err := s.Ask(t.Context(), c)
				for again := store.Now(); errors.Is(err, store.ErrUnavailable) && store.Now().Sub(again) < patience; {
					a, err = s.Ask(t.Context(), c) // the stand-in is in this process, and a busy machine leaves an ask without an answer
				}
				if err != nil && (!errors.Is(err, store.ErrLost) || store.Now().Sub(began) < c.PositionTTL) {
					t.Error(err)
				}
				if a.Granted {
					granted.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		st := storetest.MustList(t, stores[0], name)
		if len(st.Entries) != claims && store.Now().Sub(began) >= mutex(name).PositionTTL {
			continue // some claims have expired
		}
		if granted.Load() != 1 || len(st.Entries) != claims {
			t.Errorf("got %d granted and %d entries, want 1 and %d", granted.Load(), len(st.Entries), claims)
		}
		told++
	}
}

func TestTheServerDeletesDocumentsUnusedForADay(t *testing.T) {
	client := realClient(t)
	s := storeOn(t, client.Database(database), apart())
	t.Cleanup(func() { drop(s) })
	for _, name := range []string{"idle", "used"} {
		if err := s.Release(t.Context(), storetest.MustHold(t, s, mutex(name))); err != nil {
			t.Fatal(err)
		}
	}
	s.b.tasks.Wait() // until the index exists
	old := object("$set", object(expires, bson.NewDateTimeFromTime(time.Now().Add(-48*time.Hour))))
	if _, err := s.b.modify(t.Context(), object("_id", nameID("idle")), old, false); err != nil {
		t.Fatal(err)
	}
	// The TTL index is applied once a minute, unless the server is configured otherwise.
	for end := time.Now().Add(2*time.Minute + patience); documentOf(t, s, "idle") != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the unused document is still there")
		}
	}
	if documentOf(t, s, "used") == nil {
		t.Error("the used document is gone, too")
	}
}

// Names and sessions are binary, so no collation affects them.
func TestACollationKeepsNamesDistinct(t *testing.T) {
	db := realClient(t).Database(database)
	for strength := 1; strength <= 5; strength++ {
		o := apart()
		if err := db.CreateCollection(t.Context(), o.Collection, options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: strength})); err != nil {
			t.Skipf("this MongoDB server does not let the tests create a collection with a collation: %v", err)
		}
		s := storeOn(t, db, o)
		for _, name := range []string{"\u00e9", "e\u0301", "e", "E"} {
			storetest.MustHold(t, s, mutex(name))
		}
		drop(s)
	}
}

// The primary steps down. Then a member, perhaps the same one, is primary again.
func TestALeaseOutlivesAStepDown(t *testing.T) {
	client := realClient(t)
	if set, _ := kind(t, client); !set {
		t.Skip("this MongoDB server does not let the tests replSetStepDown: it is not a replica set")
	}
	s := storeOn(t, client.Database(database), apart())
	t.Cleanup(func() { drop(s) })
	c := mutex("n")
	c.TTL = 10 * time.Minute
	h := storetest.MustHold(t, s, c)
	mustRenew(t, s, h)
	waits := mutex("n")
	storetest.MustAsk(t, s, waits)
	command(t, client.Database("admin"), object("replSetStepDown", int32(5), "secondaryCatchUpPeriodSecs", int32(1), "force", true))
	// An election can take longer than anything else in these tests.
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		r := s.Renew(ctx, []store.Hold{h})[0]
		cancel()
		if r.Err == nil {
			break
		}
		if isIndeterminate(t, r.Err); time.Now().After(end) {
			t.Fatal(r.Err)
		}
	}
	try := mutex("n")
	try.Try = true
	if a := storetest.MustAsk(t, s, try); a.Granted {
		t.Error("two claims hold the lock")
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
	if next := storetest.MustHold(t, s, mutex("n2")); next.Token <= 0 {
		t.Errorf("%+v", next)
	}
	for _, id := range []store.Claim{waits, mutex("n")} { // its queue position may have expired
		if a, err := s.Ask(t.Context(), id); err == nil && a.Granted {
			if a.Token <= h.Token {
				t.Errorf("got token %d after %d, want a larger one", a.Token, h.Token)
			}
			return
		}
	}
	t.Error("no claim is granted after the release")
}

// The fail points of a real server, where the faults of mongosim follow the manual.
func TestFaultsOfTheServerAreMet(t *testing.T) {
	client := realClient(t)
	set, routed := kind(t, client)
	s := storeOn(t, client.Database(database), apart())
	t.Cleanup(func() { drop(s) })
	storetest.MustHold(t, s, mutex("there")) // this makes the collection and the index
	s.b.tasks.Wait()
	fail := func(t *testing.T, data ...any) {
		command(t, client.Database("admin"), object("configureFailPoint", "failCommand", "mode", object("times", int32(1)),
			"data", append(object("failCommands", bson.A{"findAndModify"}), object(data...)...)))
		t.Cleanup(func() {
			client.Database("admin").RunCommand(context.Background(), object("configureFailPoint", "failCommand", "mode", "off"))
		})
	}
	// ask repeats the ask by the same id until it is answered.
	ask := func(t *testing.T, name string, first func(error)) {
		c := mutex(name)
		a, err := s.Ask(t.Context(), c)
		first(err)
		if err != nil {
			a = storetest.MustAsk(t, s, c)
		}
		if st := storetest.MustList(t, s, name); !a.Granted || len(st.Entries) != 1 || st.Entries[0].Token != a.Token {
			t.Errorf("got %+v, %+v, want one granted entry", a, st)
		}
	}
	for what, data := range map[string][]any{
		"the connection is cut":               {"closeConnection", true},
		"no majority has confirmed the write": {"writeConcernError", object("code", int32(64), "errmsg", "waiting for replication timed out")},
		"the server is no longer primary":     {"errorCode", int32(10107)},
	} {
		t.Run(what, func(t *testing.T) {
			if !set && !routed && what == "the server is no longer primary" {
				t.Skip("this MongoDB server does not let the tests have it step down: it is not a replica set")
			}
			fail(t, data...)
			ask(t, what, func(err error) { isIndeterminate(t, err) })
		})
	}
}

// Each router has a clock of its own, and both serve the same names.
func TestTwoRoutersAgree(t *testing.T) {
	client := realClient(t)
	uri := realURI(t)
	plain, query, _ := strings.Cut(strings.TrimPrefix(uri, "mongodb://"), "?")
	hosts, _, _ := strings.Cut(plain, "/")
	user := ""
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, hosts = hosts[:at+1], hosts[at+1:]
	}
	all := strings.Split(hosts, ",")
	if _, routed := kind(t, client); !routed || len(all) < 2 || !strings.HasPrefix(uri, "mongodb://") {
		t.Skip("this MongoDB server does not let the tests reach two mongos: its URI does not name them")
	}
	o := apart()
	var stores []*Store
	for _, host := range all[:2] {
		s := storeOn(t, clientOf(t, "mongodb://"+user+host+"/?"+query).Database(database), o)
		defer s.Close()
		stores = append(stores, s)
	}
	t.Cleanup(func() { client.Database(database).Collection(o.Collection).Drop(context.Background()) })
	a, b := stores[0], stores[1]
	var last int64
	for range 10 {
		h := storetest.MustHold(t, a, mutex("n"))
		if h.Token <= last {
			t.Errorf("got token %d after %d, want a larger one", h.Token, last)
		}
		last = h.Token
		c := mutex("n")
		c.Try = true
		if storetest.MustAsk(t, b, c).Granted {
			t.Error("two claims hold the lock")
		}
		mustRenew(t, a, h)
		if err := a.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
		a, b = b, a
	}
}

// The user has only the rights of the package comment, on a server that enforces them.
func TestTheRightsThatAreListedSuffice(t *testing.T) {
	uri := guardedURI(t)
	client := clientOf(t, uri)
	db, o := client.Database(database), apart()
	set, routed := kind(t, client)
	watches := set || routed
	as := func(name string, actions ...any) *Store {
		role := name + "_" + o.Collection
		command(t, db, object("createRole", role, "roles", bson.A{}, "privileges", bson.A{
			object("resource", object("db", database, "collection", o.Collection), "actions", bson.A(actions)),
		}))
		t.Cleanup(func() { db.RunCommand(context.Background(), object("dropRole", role)) })
		command(t, db, object("createUser", role, "pwd", "secret", "roles", bson.A{object("role", role, "db", database)}))
		t.Cleanup(func() { db.RunCommand(context.Background(), object("dropUser", role)) })
		opened := options.Client().ApplyURI(uri).SetAuth(options.Credential{Username: role, Password: "secret", AuthSource: database})
		user, err := mongo.Connect(opened)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { user.Disconnect(context.Background()) })
		s := storeOn(t, user.Database(database), o)
		t.Cleanup(func() { s.Close() })
		return s
	}
	t.Cleanup(func() { db.Collection(o.Collection).Drop(context.Background()) })

	s := as("locks", "find", "insert", "update")
	if err := s.b.locks.Drop(t.Context()); err == nil {
		t.Skip("this MongoDB server does not let the tests show rights: it has no access control")
	}
	h, other := storetest.MustHold(t, s, mutex("n")), storetest.MustHold(t, s, mutex("m"))
	mustRenew(t, s, h)
	mustRenew(t, s, h, other)
	waits := mutex("n")
	storetest.MustAsk(t, s, waits)
	if _, err := s.Poll(t.Context(), waits); err != nil {
		t.Error(err)
	}
	if st := storetest.MustList(t, s, "n"); len(st.Entries) != 2 {
		t.Errorf("%+v", st)
	}
	if err := s.BreakHold(t.Context(), store.Break{Name: "m", ID: other.ID, Token: other.Token, Reason: "why"}); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
	for _, f := range s.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%+v", f)
		}
	}
	s.b.tasks.Wait() // the index is not made, and that does no harm
	if watches {
		if err := s.Watch(t.Context(), me, func(store.Notification) {}); !errors.Is(err, store.ErrDenied) {
			t.Errorf("watch: %v, want ErrDenied", err)
		}
	}

	none := as("nothing", "collStats")
	if _, err := none.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("ask: %v, want ErrDenied", err)
	}

	more := as("all", "find", "insert", "update", "changeStream", "createIndex")
	if watches {
		notifications := make(chan store.Notification, 100)
		if err := more.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
			t.Fatal(err)
		}
		h, waits := storetest.MustHold(t, more, mutex("w")), mutex("w")
		storetest.MustAsk(t, more, waits)
		if err := more.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		for heard := false; !heard; {
			select {
			case notification := <-notifications:
				heard = notification.ID == waits.ID
			case <-time.After(patience):
				t.Fatal("no waiter got a notification")
			}
		}
	} else {
		storetest.MustHold(t, more, mutex("w"))
	}
	waitFor(t, "the index exists: "+indexName, func() bool {
		all, err := db.Collection(o.Collection).Indexes().ListSpecifications(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(i mongo.IndexSpecification) bool { return i.Name == indexName })
	})
}

// guardedURI is how an administrator reaches a server with access control, as far as is known. It is the named server,
// or else a mongod with a key file, whose first user is made from this host without a password.
func guardedURI(t *testing.T) string {
	t.Helper()
	uri := realURI(t)
	if uri == "" {
		realClient(t) // this skips the test
	}
	if os.Getenv("HOLDFAST_TEST_MONGODB") == "" {
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, []byte("aG9sZGZhc3QgZm9yIHRlc3Rz"), 0o600); err != nil {
			t.Fatal(err)
		}
		addr := testserver.Mongod(t, "--replSet", "holdfast", "--keyFile", key).Addr
		initiate(t, addr)
		admin := clientOf(t, "mongodb://"+addr+"/?directConnection=true").Database("admin")
		first := object("createUser", "root", "pwd", "secret", "roles", bson.A{object("role", "root", "db", "admin")})
		if err := admin.RunCommand(t.Context(), first).Err(); err != nil {
			t.Fatal(err)
		}
		uri = "mongodb://root:" + url.QueryEscape("secret") + "@" + addr + "/?replicaSet=holdfast&authSource=admin"
	}
	return uri
}
