package k8sstore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// role returns the Role in the package comment.
func role(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("k8sstore.go")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "// This Role suffices:\n//\n")
	part, _, _ = strings.Cut(part, "//\n// list is for")
	raw, err := yaml.ToJSON([]byte(strings.ReplaceAll(part, "//\t", "")))
	if err != nil {
		t.Fatal(err)
	}
	var of map[string]any
	if err := json.Unmarshal(raw, &of); err != nil || of["kind"] != "Role" {
		t.Fatalf("%v, %v", of, err)
	}
	return of
}

// account creates a service account with the rights of the Role, without one of them, and returns the configuration
// of a client with its token, as a pod has it.
func account(t *testing.T, addr, namespace, without string) *rest.Config {
	t.Helper()
	create := func(path string, object map[string]any) []byte {
		t.Helper()
		answer, err := testserver.KubernetesCreate(addr, path, object)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	name := "worker-without-" + without
	create("/api/v1/namespaces/"+namespace+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": name}})
	r := role(t)
	r["metadata"] = map[string]any{"name": name}
	rule := r["rules"].([]any)[0].(map[string]any)
	rule["verbs"] = slices.DeleteFunc(rule["verbs"].([]any), func(verb any) bool { return verb == without })
	create("/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/roles", r)
	create("/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/rolebindings", map[string]any{
		"metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
	})
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal(create("/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}), &token); err != nil {
		t.Fatal(err)
	}
	c := at(addr)
	c.BearerToken = token.Status.Token
	return c
}

// The Role of the package comment suffices for a pod. Without one of its rights the error names them.
func TestTheRoleInTheDocsSuffices(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	for without, works := range map[string]bool{"none": true, "get": false, "list": true, "create": false, "patch": false, "delete": true} {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			b := backendOn(t, account(t, addr, namespace, without), namespace)
			s := &Store{record.New(b), b}
			defer s.Close()
			c := storetest.Mutex(me, "without-"+without)
			var err error
			until(t, "the API server knows the rights", func() bool { // it learns of new ones from etcd
				_, err = s.Ask(t.Context(), c)
				return (err == nil) == works
			})
			if !works && (!errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "get, list, create, patch and delete on leases")) {
				t.Errorf("got %v, want ErrDenied with the rights", err)
			}
			if works {
				h := storetest.MustHold(t, s, c)
				if err := s.Release(t.Context(), h); err != nil {
					t.Error(err)
				}
			}
			if all := s.Check(t.Context()); (all[0].Err == nil) != (works && without != "list") {
				t.Errorf("Check: got %+v", all)
			}
			if without == "delete" { // locks do without it, so only the check tells of it
				objecttest.CheckDeletes(t, b, store.LevelWarning, "delete on leases")
			}
		})
	}
}

// twice sends the next patch twice.
type twice struct {
	http.RoundTripper
	next *atomic.Bool
}

func (d twice) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && d.next.CompareAndSwap(true, false) {
		return objecttest.SentTwice(r, d.RoundTripper.RoundTrip)
	}
	return d.RoundTripper.RoundTrip(r)
}

// A proxy may send a write twice: the first is done, and the second is refused.
func TestAReleaseThatIsSentTwiceIsNotLost(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	config, next := at(addr), &atomic.Bool{}
	config.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return twice{rt, next} }
	b := backendOn(t, config, namespace)
	s, c := &Store{record.New(b), b}, storetest.Mutex(me, "a")
	defer s.Close()
	c.TTL = object.MaxTTL // no renewal is the next patch
	h := storetest.MustHold(t, s, c)
	next.Store(true)
	if err := s.Release(t.Context(), h); err != nil || next.Load() {
		t.Errorf("release: %v", err)
	}
}

func TestAMissingNamespaceIsReported(t *testing.T) {
	t.Parallel()
	addr, _ := namespace(t)
	s := opened(t, addr, "missing")
	if _, err := s.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "create the namespace") {
		t.Errorf("%v, want ErrUnsupported with what to do", err)
	}
}

func TestTheCheckOfAGoodServer(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	all := opened(t, addr, namespace).Check(t.Context())
	if len(all) != 3 {
		t.Fatalf("got %+v", all)
	}
	for _, f := range all {
		if f.Err != nil || f.Warning || f.Text() == "" {
			t.Errorf("%+v", f)
		}
	}
}

// A record of a newer release, and one that was damaged by hand, are reported and not changed.
func TestADamagedLeaseIsReportedAndNotChanged(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	for name, c := range map[string]struct {
		annotation, value string
		want              error
	}{
		"newer":       {textForm, "2", store.ErrUnsupported},
		"newer-data":  {textData, base64.StdEncoding.EncodeToString([]byte("\x7fnewer")), store.ErrUnsupported},
		"no-base64":   {textData, "?", store.ErrCorrupt},
		"no-data":     {textData, "", store.ErrCorrupt},
		"another-rev": {textRev, "short", store.ErrCorrupt},
	} {
		if err := s.Release(t.Context(), storetest.MustHold(t, s, storetest.Mutex(me, name))); err != nil {
			t.Fatal(err)
		}
		if _, what, _, err := s.b.server.patch(t.Context(), name, []step{{Op: "add", Path: annotation(c.annotation), Value: c.value}}); what == 0 {
			t.Fatal(err)
		}
		other := opened(t, addr, namespace) // remembers nothing
		if _, err := other.Poll(t.Context(), storetest.Mutex(me, name)); !errors.Is(err, c.want) {
			t.Errorf("%s: a poll: %v, want %v", name, err, c.want)
		}
		if a, err := other.Ask(t.Context(), storetest.Mutex(me, name)); a.Granted || !errors.Is(err, c.want) {
			t.Errorf("%s: an ask: got %+v, %v, want %v", name, a, err, c.want)
		}
		if l, _, err := other.b.server.get(t.Context(), name); err != nil || l.Metadata.Annotations[c.annotation] != c.value {
			t.Errorf("%s was changed: %+v, %v", name, l, err)
		}
	}
}

// An idle Lease is deleted if holdfast has created it. That of another program stays.
func TestTheLeaseOfAnotherProgramStays(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	const theirs, ours = "theirs", "ours"
	if _, what, _, err := s.b.server.create(t.Context(), &lease{Metadata: meta{Name: theirs, Labels: map[string]string{"app": "x"}}}); what == 0 {
		t.Fatal(err)
	}
	for _, name := range []string{theirs, ours} {
		if err := s.Release(t.Context(), storetest.MustHold(t, s, storetest.Mutex(me, name))); err != nil {
			t.Fatal(err)
		}
	}
	s.b.objects.Retention = 0
	there := func(name string) *lease {
		l, _, err := s.b.server.get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	until(t, "the idle Lease is deleted", func() bool {
		for range s.b.List(t.Context(), time.Nanosecond) {
		}
		return there(ours) == nil
	})
	if l := there(theirs); l == nil || l.Metadata.Labels["app"] != "x" {
		t.Errorf("got %+v, want the other program's Lease", l)
	}
}

// A join may be done twice, by a proxy that sends it again. The notes stay in their order.
func TestAJoinThatIsDoneTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	b := opened(t, addr, namespace).b
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil || !out.Done {
		t.Fatal(out, err)
	}
	for _, key := range []string{"one", "two", "one"} {
		if out, err := b.join(t.Context(), "a", []record.Note{{Key: key, Data: []byte(key)}}); err != nil || !out.Joined {
			t.Fatalf("%s: %+v, %v", key, out, err)
		}
	}
	r, err := b.Load(t.Context(), "a")
	if err != nil || len(r.Inbox) != 2 || r.Inbox[0].Key != "one" || r.Inbox[1].Key != "two" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A join is done again after its note was taken in: its note is there again, and the inbox can still be read.
func TestAJoinThatIsDoneAgainAfterASwapLeavesTheInboxReadable(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	b := opened(t, addr, namespace).b
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil || !out.Done {
		t.Fatal(out, err)
	}
	joins := func(key string) {
		t.Helper()
		if out, err := b.join(t.Context(), "a", []record.Note{{Key: key, Data: []byte(key)}}); err != nil || !out.Joined {
			t.Fatalf("%s: %+v, %v", key, out, err)
		}
	}
	joins("one")
	old, err := b.Load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	joins("two")
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Old: old, Data: []byte("y")}); err != nil || !out.Done {
		t.Fatal(out, err)
	}
	joins("one")
	r, err := b.Load(t.Context(), "a")
	if err != nil || len(r.Inbox) != 2 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Old: r, Data: []byte("z")}); err != nil || !out.Done {
		t.Errorf("taking the notes in: %+v, %v", out, err)
	}
}

// A join on the Lease of another program, which has no record yet, is refused and leaves nothing.
func TestAJoinWithoutARecordIsRefused(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	b := opened(t, addr, namespace).b
	if _, what, _, err := b.server.create(t.Context(), &lease{Metadata: meta{Name: "theirs", Annotations: map[string]string{"a": "b"}}}); what == 0 {
		t.Fatal(err)
	}
	if out, err := b.join(t.Context(), "theirs", []record.Note{{Key: "one", Data: []byte("one")}}); err != nil || out.Joined {
		t.Errorf("got %+v, %v", out, err)
	}
	if l, _, err := b.server.get(t.Context(), "theirs"); err != nil || len(l.Metadata.Annotations) != 1 {
		t.Errorf("got %+v, %v: it was changed", l, err)
	}
}

// Another program writes its Lease between the read and the first record.
func TestTheFirstRecordInALeaseDependsOnIt(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	b := opened(t, addr, namespace).b
	if err := b.objects.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, what, _, err := b.server.create(t.Context(), &lease{Metadata: meta{Name: "theirs"}})
	if what == 0 {
		t.Fatal(err)
	}
	texts := map[string]string{textRev: "x"}
	overtaken := func() { // after the read of adopt
		if _, what, _, err := b.server.patch(t.Context(), "theirs", []step{{Op: "add", Path: "/spec", Value: map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 15}}}); what == 0 {
			t.Fatal(err)
		}
	}
	b.server.client.Transport = between{b.server.client.Transport, overtaken}
	if _, what, _, err := b.adopt(t.Context(), "theirs", l.Metadata.ResourceVersion, nil, texts, &record.Swap{Name: "theirs", Data: []byte("x")}); err != nil || what != object.Refused {
		t.Errorf("got %v, %v, want Refused", what, err)
	}
}

// between does something after each read.
type between struct {
	http.RoundTripper
	do func()
}

func (b between) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if r.Method == http.MethodGet {
		b.do()
	}
	return answer, err
}

func TestASweepPassesWhatIsYoung(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	for r, err := range s.b.List(t.Context(), time.Hour) {
		t.Errorf("a sweep handles %q, which was just written: %v", r.Name, err)
	}
	n := 0
	for r, err := range s.b.List(t.Context(), 0) {
		if n++; err != nil || r.Name != "a" {
			t.Errorf("got %q, %v", r.Name, err)
		}
	}
	if n != 1 {
		t.Errorf("%d names are listed, want 1", n)
	}
}
