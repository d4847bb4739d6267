package s3store

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Each is a process of its own, which has seen nothing before: the server's time tells that the holder is dead.
func TestACronOfTriesGetsWhatADeadProcessHeld(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedS3(t), apart()
	link := testserver.NewLink(t, addr)
	dead := closing(t, storeOn(t, link.Addr(), o))
	c := storetest.Mutex(me, "nightly")
	c.TTL = object.MinTTL
	storetest.MustHold(t, dead, c)
	link.Cut() // nothing of it is heard any more
	refused := 0
	until(t, "a try is granted", func() bool {
		s := storeOn(t, addr, o)
		defer s.Close()
		try := storetest.Mutex(store.NewProcess(), "nightly")
		try.Try, try.TTL = true, object.MinTTL
		a := storetest.MustAsk(t, s, try)
		if !a.Granted {
			refused++
		}
		return a.Granted
	})
	if refused == 0 {
		t.Error("it was granted while the other held it")
	}
}

// Sessions and notes go with their use; of a name its object stays.
func TestNothingIsLeftButTheName(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedS3(t), apart()
	a, b := storeOn(t, addr, o), storeOn(t, addr, o)
	h := storetest.MustHold(t, a, storetest.Mutex(me, "a/b ü"))
	w := storetest.Mutex(store.NewProcess(), "a/b ü")
	storetest.MustAsk(t, b, w)
	if r := a.ReleaseAll(t.Context(), []store.Hold{h})[0]; r != nil {
		t.Fatal(r)
	}
	until(t, "it is granted", func() bool { return storetest.MustAsk(t, b, w).Granted })
	if r := b.ReleaseAll(t.Context(), []store.Hold{{Name: w.Name, ID: w.ID}})[0]; r != nil {
		t.Fatal(r)
	}
	a.Close()
	b.Close()
	left := newBackendOn(t, addr, o)
	defer left.Close()
	var all []string
	for l, err := range left.server.List(t.Context(), left.Prefix, "", 1) { // one a page
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimPrefix(l.Key, left.Prefix))
	}
	if len(all) != 1 || all[0] != "n/a%2Fb%20%C3%BC.lock" {
		t.Errorf("left: %q", all)
	}
}

func TestForeignAndNewerObjectsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	storetest.MustHold(t, s, storetest.Mutex(me, "warm"))
	for name, c := range map[string]struct {
		value string
		want  error
	}{
		"a": {"nonsense", store.ErrCorrupt},
		"b": {`{"v":99,"name":"Yg=="}` + "\nx", store.ErrUnsupported},
		"c": {`{"v":1,"name":"Yg=="}` + "\nx", store.ErrCorrupt}, // of another name
		"d": {`{"v":1,"name":"ZA=="}` + "\n\x7fnewer", store.ErrUnsupported},
		"e": {`{"v":1,"name":"ZQ=="}`, store.ErrCorrupt},
	} {
		key := s.b.Prefix + "n/" + name + ".lock"
		if _, what, err := s.b.server.Put(t.Context(), key, []byte(c.value), ""); what != object.Done {
			t.Fatal(err)
		}
		if _, err := s.Ask(t.Context(), storetest.Mutex(me, name)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: ask: %v, want %v with the name", name, err, c.want)
		}
		if o, err := s.b.server.Get(t.Context(), key); err != nil || string(o.Body) != c.value {
			t.Errorf("%s is not what it was: %s, %v", name, o.Body, err)
		}
	}
	fine, wrong := 0, 0
	for st, err := range s.List(t.Context(), "") {
		switch {
		case err == nil && st.Name == "warm":
			fine++
		case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrUnsupported):
			wrong++
		}
	}
	if fine != 1 || wrong < 4 { // of "c" the name is another's
		t.Errorf("%d names listed and %d told as not ours", fine, wrong)
	}
}

// withUsers is a server with a user who has the rights that the package comment lists, and one who has none.
func withUsers(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("s3store.go")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(source), "// This policy suffices")
	_, policy, _ = strings.Cut(policy, "//\n")
	policy, _, _ = strings.Cut(policy, "//\n// Without")
	policy = strings.NewReplacer("//\t", "", "BUCKET", testserver.S3Bucket, "PREFIX", DefaultPrefix, `"Effect": "Allow",`, `"Effect": "Allow", "Principal": {"AWS": ["least"]},`).Replace(policy)
	server := testserver.S3Users(t, "least", "other")
	if _, err := client(t, server.Addr).PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String(testserver.S3Bucket), Policy: &policy}); err != nil {
		t.Fatalf("%v: %s", err, policy)
	}
	return server.Addr
}

func asUser(t *testing.T, addr, user string) *Store {
	t.Helper()
	s, err := New(clientAs(t, addr, user, "secret"+user), testserver.S3Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

func TestTheLeastRightsSuffice(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	a, b := asUser(t, addr, "least"), asUser(t, addr, "least")
	c := storetest.Mutex(me, "a")
	hold, waits := storetest.MustHold(t, a, c), storetest.Mutex(me, "a")
	if r := a.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if storetest.MustAsk(t, b, waits).Granted {
		t.Fatal("two hold it")
	}
	if err := b.BreakHold(t.Context(), store.Break{Name: "a", ID: hold.ID, Token: hold.Token, Reason: "because", Now: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "the waiter is granted", func() bool { return storetest.MustAsk(t, b, waits).Granted })
	for _, err := range a.List(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
	}
	u := storetest.Mutex(me, "b")
	u.Weight = store.Upgradeable
	up := storetest.MustHold(t, a, u)
	if r, err := a.Change(t.Context(), up, 1, store.Full); err != nil || !r.Granted {
		t.Errorf("upgrade: %+v, %v", r, err)
	}
	up.NewID = store.Process{}.NewID()
	if r := a.Renew(t.Context(), []store.Hold{up})[0]; r.Err != nil { // a session of its own
		t.Error(r.Err)
	}
	a.b.Retention = time.Millisecond
	for _, err := range a.b.List(t.Context(), time.Millisecond) { // a sweep
		if err != nil {
			t.Error(err)
		}
	}
	for _, f := range a.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.About, f.Err)
		}
	}
}

func TestWhoMayNotIsToldSo(t *testing.T) {
	t.Parallel()
	addr := withUsers(t)
	for user, secret := range map[string]string{"other": "secretother", "least": "swordfish", "nobody": "swordfish"} {
		s, err := New(clientAs(t, addr, user, secret), testserver.S3Bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		closing(t, s)
		_, err = s.Ask(t.Context(), storetest.Mutex(me, "a"))
		if !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("%s: %v, want an ErrDenied with name and store", user, err)
		}
		if all := s.Check(t.Context()); !errors.Is(all[0].Err, store.ErrDenied) {
			t.Errorf("%s: the check: %+v", user, all)
		}
	}
}

func TestABucketThatIsNotThereIsToldSo(t *testing.T) {
	t.Parallel()
	s, err := New(client(t, testserver.SharedS3(t)), "elsewhere", nil)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("%v, want an ErrUnsupported that tells what to do", err)
	}
	if _, err := s.Poll(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a poll: %v, want an ErrUnsupported", err)
	}
}

// Nothing is written for a try that is refused, nor by looking.
func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	s.b.Finish()
	etags := func() string {
		all := ""
		for l, err := range s.b.server.List(t.Context(), s.b.Prefix+"n/", "", 1000) {
			if err != nil {
				t.Fatal(err)
			}
			all += l.Key + l.Version
		}
		return all
	}
	before := etags()
	try := storetest.Mutex(me, "a")
	try.Try = true
	for range 3 {
		if storetest.MustAsk(t, s, try).Granted {
			t.Fatal("two hold it")
		}
	}
	if after := etags(); after != before {
		t.Errorf("%s, and before %s", after, before)
	}
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s := closing(t, storeOn(t, "127.0.0.1:1", nil)) // nobody is there
	ok := storetest.Mutex(me, "a")
	for what, spoil := range map[string]func(*store.Claim){
		"no name":     func(c *store.Claim) { c.Name = "" },
		"a long name": func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"a short TTL": func(c *store.Claim) { c.TTL = object.MinTTL - 1 },
		"a long TTL":  func(c *store.Claim) { c.TTL = object.MaxTTL + 1 },
	} {
		c := ok
		spoil(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: ask: %v, want ErrInvalid", what, err)
		}
	}
	for _, o := range []Options{{Prefix: "a//b"}, {Prefix: "/a"}, {Prefix: "ü"}, {Prefix: "a/../b"}, {Prefix: "."}, {Prefix: strings.Repeat("x", 300)}} {
		if _, err := New(s.b.server.client, "bucket", &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", o, err)
		}
	}
	for _, bucket := range []string{"", "a/b", "a b"} {
		if _, err := New(s.b.server.client, bucket, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("bucket %q: %v, want ErrInvalid", bucket, err)
		}
	}
	if _, err := New(nil, "bucket", nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no client: %v, want ErrInvalid", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	if _, err := s.Ask(ctx, ok); err == nil || store.Definite(err) {
		t.Errorf("with no server there: %v, want it indeterminate", err)
	}
}

// A conditional delete is one of what was read, whatever is there now.
func TestWhatWasWrittenMeanwhileIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newShared(t).b
	key := b.Prefix + "n/a.lock"
	first, _, err := b.server.Put(t.Context(), key, []byte("first"), "")
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := b.server.Put(t.Context(), key, []byte("second"), first.Version)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{first.Version, second.Version, second.Version} {
		if err := b.server.Delete(t.Context(), key, version); err != nil {
			t.Fatal(err)
		}
		o, err := b.server.Get(t.Context(), key)
		if err != nil || (string(o.Body) == "second") != (version == first.Version) {
			t.Errorf("%q is there once %s was deleted: %v", o.Body, version, err)
		}
	}
}
