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
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// withUsers is a server with two users: one has the rights that the package comment lists, the other has none.
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
	if _, err := storetest.UntilAnswered(func() error { return a.Renew(t.Context(), []store.Hold{hold})[0].Err }); err != nil {
		t.Fatal(err)
	}
	if storetest.MustAsk(t, b, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	breaks := func() error {
		return b.BreakHold(t.Context(), store.Break{Name: "a", ID: hold.ID, Token: hold.Token, Reason: "because", Now: true})
	}
	if calls, err := storetest.UntilAnswered(breaks); err != nil && calls == 1 { // else it may be broken before
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
	var upgrade store.Answer
	if _, err := storetest.UntilAnswered(func() (err error) { upgrade, err = a.Change(t.Context(), up, 1, store.Full); return err }); err != nil || !upgrade.Granted {
		t.Errorf("Change: got %+v, %v", upgrade, err)
	}
	up.NewID = store.Process{}.NewID()
	if _, err := storetest.UntilAnswered(func() error { return a.Renew(t.Context(), []store.Hold{up})[0].Err }); err != nil { // it has a session of its own
		t.Error(err)
	}
	a.b.Retention = time.Millisecond
	for _, err := range a.b.List(t.Context(), time.Millisecond) { // this is what a sweep does
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

func TestAMissingRightIsReported(t *testing.T) {
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
			t.Errorf("%s: %v, want ErrDenied with name and store", user, err)
		}
		if all := s.Check(t.Context()); !errors.Is(all[0].Err, store.ErrDenied) {
			t.Errorf("%s: Check: got %+v", user, all)
		}
	}
}

func TestAMissingBucketIsReported(t *testing.T) {
	t.Parallel()
	s, err := New(client(t, testserver.SharedS3(t)), "elsewhere", nil)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("%v, want ErrUnsupported with what to do", err)
	}
	if _, err := s.Poll(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a poll: %v, want ErrUnsupported", err)
	}
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s := closing(t, storeOn(t, "127.0.0.1:1", nil)) // nothing listens there
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
		t.Errorf("without a client: %v, want ErrInvalid", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Patience)
	defer cancel()
	if _, err := s.Ask(ctx, ok); err == nil || store.Definite(err) {
		t.Errorf("without a server: %v, want it indeterminate", err)
	}
}
