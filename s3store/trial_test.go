package s3store

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A server that would grant a lock twice, or that would delete or keep what it must not, is refused before anything is
// granted. Package objecttest tests what else the trial finds.
func TestAServerThatIsUnfitIsRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		f   *fake
		why string
	}{
		"it ignores If-None-Match": {&fake{ignores: func(r *http.Request) bool { return r.Header.Get("If-None-Match") != "" }}, "If-None-Match"},
		"it ignores If-Match":      {&fake{ignores: func(r *http.Request) bool { return r.Header.Get("If-Match") != "" }}, "If-Match"},
		"it creates missing objects": {&fake{ignores: func(r *http.Request) bool {
			return r.Header.Get("If-Match") != "" && strings.HasSuffix(r.URL.Path, "-none")
		}}, "was not there"},
		"it has two clocks": {&fake{written: func(at time.Time) time.Time { return at.Add(-time.Hour) }}, "two clocks"},
		"a rule deletes objects": {&fake{spoils: func(r *http.Request, h http.Header) {
			if r.Method == http.MethodPut {
				h.Set("x-amz-expiration", `expiry-date="Fri, 21 Dec 2029 00:00:00 GMT", rule-id="all"`)
			}
		}}, "lifecycle rule"},
		"it keeps versions": {&fake{spoils: func(r *http.Request, h http.Header) { h.Set("x-amz-version-id", "3HL4kqtJlcpXroDTDmJ") }}, "versioning"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := &Store{b: c.f.on(t)}
			s.Store = record.New(s.b)
			closing(t, s)
			_, err := s.b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")})
			if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), testserver.S3Bucket) {
				t.Errorf("a swap: %v, want ErrUnsupported with the bucket and %q", err, c.why)
			}
			if all := s.Check(t.Context()); len(all) != 1 || !errors.Is(all[0].Err, store.ErrUnsupported) {
				t.Errorf("Check: got %+v", all)
			}
		})
	}
}

// The server is used, and the check reports what that costs.
func TestAServerWithoutTimesIsUsed(t *testing.T) {
	t.Parallel()
	for what, spoils := range map[string]func(*http.Request, http.Header){
		"no Date":          func(_ *http.Request, h http.Header) { h["Date"] = nil },
		"no Last-Modified": func(_ *http.Request, h http.Header) { h.Del("Last-Modified") },
	} {
		b := (&fake{spoils: spoils}).on(t)
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil || !out.Done {
			t.Errorf("%s: a swap: got %+v, %v", what, out, err)
		}
		told := false
		for _, f := range b.Check(t.Context()) {
			if f.Err != nil {
				t.Errorf("%s: %s: %v", what, f.About, f.Err)
			}
			told = told || f.About == "clock" && f.Warning && strings.Contains(f.Found, "TTL")
		}
		if !told {
			t.Errorf("%s: Check does not report that tries take long", what)
		}
	}
}

// A real server that answers slowly is not taken for one with two clocks, and the objects of the trial are deleted.
func TestATrialLeavesNothing(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := f.on(t)
	if err := b.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Finish()
	f.mu.Lock()
	for key := range f.objects {
		if !strings.HasSuffix(key, "/keep") {
			t.Errorf("%s is left", key)
		}
	}
	f.mu.Unlock()
	before := len(f.asked)
	if err := b.Prepare(t.Context()); err != nil || len(f.asked) != before {
		t.Errorf("the trial was repeated: %v", err)
	}
}

func TestABucketWithVersioningIsRefused(t *testing.T) {
	t.Parallel()
	server := testserver.S3(t, "--versioning-dir", t.TempDir())
	bucket := testserver.S3Bucket
	if _, err := client(t, server.Addr).PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	s := closing(t, storeOn(t, server.Addr, nil))
	if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "versioning") {
		t.Errorf("%v, want ErrUnsupported", err)
	}
}

// The ETag of an object under a KMS key is not the MD5 of its body. The object is read all the same if the bucket now
// has other keys, so that new ETags are. No stand-in has KMS, so the fake shows its header.
func TestAnObjectUnderAKMSKeyIsRead(t *testing.T) {
	t.Parallel()
	for under, reads := range map[string]bool{"aws:kms": true, "aws:kms:dsse": true, "AES256": false, "": false} {
		f := &fake{spoils: func(_ *http.Request, h http.Header) {
			if under != "" {
				h.Set("x-amz-server-side-encryption", under)
			}
		}}
		s := f.on(t).server
		if _, what, err := s.Put(t.Context(), "a", []byte("x"), ""); err != nil || what != object.Done {
			t.Fatal(err)
		}
		s.digests.Store(true) // as after a write in the bucket as it is now
		if o, err := s.Get(t.Context(), "a"); (err == nil) != reads || reads && string(o.Body) != "x" {
			t.Errorf("%q: got %q, %v", under, o.Body, err)
		}
	}
}

// S3 answers 409 to a conditional write while another is under way. The write was not done, and the answer says nothing
// of the current object.
func TestAConflictingWriteIsNotDoneAndNoLoss(t *testing.T) {
	t.Parallel()
	beside := false
	f := &fake{answers: func(r *http.Request) (string, int) {
		if beside && r.Method == http.MethodPut {
			beside = false
			return "ConditionalRequestConflict", http.StatusConflict
		}
		return "", 0
	}}
	b := f.on(t)
	id := session.NewID()
	if _, err := b.Begin(t.Context(), id, object.MinTTL); err != nil {
		t.Fatal(err)
	}
	conflicts := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		beside = true
	}
	conflicts()
	if _, err := b.Renew(t.Context(), id); err != nil {
		t.Errorf("renew beside another write: %v", err)
	}
	conflicts()
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil || out.Done {
		t.Errorf("a swap beside another: got %+v, %v, want it refused", out, err)
	}
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil || !out.Done {
		t.Errorf("a swap after that: got %+v, %v", out, err)
	}
}

// The SDK repeats failed requests. A write that was done would then be refused because of itself.
func TestEachRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	fails := false
	f := &fake{answers: func(*http.Request) (string, int) {
		if fails {
			return "InternalError", http.StatusInternalServerError
		}
		return "", 0
	}}
	b := f.on(t)
	if err := b.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Finish()
	fails = true
	_, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")})
	if err == nil || store.Definite(err) {
		t.Errorf("a swap: %v, want it indeterminate", err)
	}
	if _, err := b.Peek(t.Context(), "b"); err == nil {
		t.Error("the read got an answer")
	}
	for key, n := range map[string]int{"PUT /locks/holdfast/n/a.lock": f.asked["PUT /locks/holdfast/n/a.lock"], "GET /locks/holdfast/n/b.lock": f.asked["GET /locks/holdfast/n/b.lock"]} {
		if n != 1 {
			t.Errorf("%s was sent %d times, want once", key, n)
		}
	}
}

// Locks do without the right to delete, for a while. So only the check tells of it.
func TestTheCheckTriesADelete(t *testing.T) {
	t.Parallel()
	for may, want := range map[bool]store.Level{true: store.LevelOK, false: store.LevelWarning} {
		f := &fake{answers: func(r *http.Request) (string, int) {
			if r.Method == http.MethodDelete && !may {
				return "AccessDenied", http.StatusForbidden
			}
			return "", 0
		}}
		objecttest.CheckDeletes(t, f.on(t), want, "s3:DeleteObject")
	}
}

// A rule that deletes what is below the prefix is found by the check, even if the trial has not met it.
func TestTheCheckReadsTheRules(t *testing.T) {
	at := func(s string) *string { return &s }
	expires := &types.LifecycleExpiration{}
	for _, c := range []struct {
		rule   types.LifecycleRule
		prefix string
		is     bool
	}{
		{types.LifecycleRule{Status: types.ExpirationStatusEnabled, Expiration: expires}, "", true},
		//lint:ignore SA1019 older rules have it there
		{types.LifecycleRule{Status: types.ExpirationStatusEnabled, Expiration: expires, Prefix: at("logs/")}, "logs/", true},
		{types.LifecycleRule{Status: types.ExpirationStatusEnabled, Expiration: expires, Filter: &types.LifecycleRuleFilter{Prefix: at("a")}}, "a", true},
		{types.LifecycleRule{Status: types.ExpirationStatusEnabled, Expiration: expires, Filter: &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{Prefix: at("b")}}}, "b", true},
		{types.LifecycleRule{Status: types.ExpirationStatusDisabled, Expiration: expires}, "", false},
		{types.LifecycleRule{Status: types.ExpirationStatusEnabled}, "", false},
	} {
		if prefix, is := deletes(&c.rule); prefix != c.prefix || is != c.is {
			t.Errorf("%+v: got %q, %v", c.rule, prefix, is)
		}
	}
	f := &fake{answers: func(r *http.Request) (string, int) {
		if r.URL.Query().Has("lifecycle") {
			return "AccessDenied", http.StatusForbidden
		}
		return "", 0
	}}
	for _, found := range f.on(t).Check(t.Context()) {
		if found.Err != nil || found.About == "lifecycle rules" && !strings.Contains(found.Found, "s3:GetLifecycleConfiguration") {
			t.Errorf("%+v", found)
		}
	}
	for prefix, bad := range map[string]bool{"": true, "hold": true, "holdfast/n/": true, "logs/": false} {
		f := &fake{rules: "<LifecycleConfiguration><Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix>" + prefix + "</Prefix></Filter><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>"}
		for _, found := range f.on(t).Check(t.Context()) {
			if found.About != "lifecycle rules" {
				continue
			}
			if errors.Is(found.Err, store.ErrUnsupported) != bad || bad && !strings.Contains(found.Err.Error(), "tidy") {
				t.Errorf("a rule for %q: got %+v", prefix, found)
			}
		}
	}
}
