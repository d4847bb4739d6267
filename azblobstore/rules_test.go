package azblobstore

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// An account with versioning would keep each renewal. Azurite has no versions, so the front answers as Azure does.
func TestAnAccountWithVersioningIsRefused(t *testing.T) {
	t.Parallel()
	for what, unfit := range map[string]bool{"with": true, "without": false} {
		f := &front{answer: func(h http.Header) {
			if unfit {
				h.Set("x-ms-version-id", "2026-01-01T00:00:00.0000000Z")
			}
		}}
		s := opened(t, backendOn(t, f.on(t, testserver.SharedAzure(t)), apart()))
		a, err := s.Ask(t.Context(), storetest.Mutex(me, "a"))
		if refused := errors.Is(err, store.ErrUnsupported) && strings.Contains(err.Error(), "versioning"); refused != unfit || a.Granted == unfit {
			t.Errorf("%s versioning: got %+v, %v", what, a, err)
		}
		if all := s.Check(t.Context()); errors.Is(all[0].Err, store.ErrUnsupported) != unfit {
			t.Errorf("%s versioning: Check: got %+v", what, all)
		}
	}
}

// The server is used, and the check reports what that costs.
func TestAServerWithoutTimesIsUsed(t *testing.T) {
	t.Parallel()
	for what, without := range map[string]string{"no Date": "Date", "no Last-Modified": "Last-Modified"} {
		f := &front{answer: func(h http.Header) { h.Del(without) }}
		b := backendOn(t, f.on(t, testserver.SharedAzure(t)), apart())
		t.Cleanup(func() { b.Close() })
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil || !out.Done {
			t.Errorf("%s: a swap: got %+v, %v", what, out, err)
		}
		reported := false
		for _, f := range b.Check(t.Context()) {
			reported = reported || f.About == "clock" && f.Warning && strings.Contains(f.Found, "TTL")
		}
		if !reported {
			t.Errorf("%s: Check does not report that tries take long", what)
		}
	}
}

func TestTheCheckOfAGoodServer(t *testing.T) {
	t.Parallel()
	all := opened(t, backendOn(t, testserver.SharedAzure(t), apart())).Check(t.Context())
	if len(all) != 3 {
		t.Fatalf("got %+v", all)
	}
	for _, f := range all {
		if f.Err != nil || f.Warning || f.Text() == "" {
			t.Errorf("%+v", f)
		}
	}
}

// Locks do without the right to delete, for a while. So only the check tells of it.
func TestTheCheckTriesADelete(t *testing.T) {
	t.Parallel()
	f := &front{instead: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		w.Header().Set("x-ms-error-code", "AuthorizationPermissionMismatch")
		w.WriteHeader(http.StatusForbidden)
		return true
	}}
	b := backendOn(t, f.on(t, testserver.SharedAzure(t)), apart())
	t.Cleanup(func() { b.Close() })
	objecttest.CheckDeletes(t, b, store.LevelWarning, "Storage Blob Data Contributor")
}

// No request is sent twice, whatever the client's settings: the outcome would be that of the second one.
func TestEachRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	f := &front{instead: func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}}
	s := backendOn(t, f.on(t, testserver.SharedAzure(t)), apart()).server
	for what, send := range map[string]func() error{
		"a read":   func() error { _, err := s.Get(t.Context(), "a"); return err },
		"a write":  func() error { _, _, err := s.Put(t.Context(), "a", []byte("x"), ""); return err },
		"a delete": func() error { return s.Delete(t.Context(), "a", "") },
		"a list": func() error {
			for _, err := range s.List(t.Context(), "", "", 10) {
				return err
			}
			return nil
		},
	} {
		before := f.asked.Load()
		if err := send(); err == nil || store.Definite(err) {
			t.Errorf("%s: %v, want it indeterminate", what, err)
		}
		if n := f.asked.Load() - before; n != 1 {
			t.Errorf("%s was sent %d times, want once", what, n)
		}
	}
}

func TestAMissingContainerAndAWrongKeyAreReported(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedAzure(t)
	missing := opened(t, backendBy(t, addr, apart(), "missing", nil))
	if _, err := missing.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("a missing container: %v, want ErrUnsupported with what to do", err)
	}
	wrong := opened(t, backendBy(t, addr, apart(), testserver.AzureContainer, func(next http.RoundTripper) http.RoundTripper { return wrongly{next} }))
	if _, err := wrong.Ask(t.Context(), storetest.Mutex(me, "a")); !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "Storage Blob Data Contributor") {
		t.Errorf("a wrong key: %v, want ErrDenied with the rights", err)
	}
}

// wrongly signs requests with a wrong key.
type wrongly struct{ http.RoundTripper }

func (w wrongly) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "SharedKey "+testserver.AzureAccount+":d3Jvbmc=")
	return w.RoundTripper.RoundTrip(r)
}

func TestBadInputIsAnErrorBeforeAnyIO(t *testing.T) {
	s := opened(t, backendOn(t, "127.0.0.1:1", "a")) // nothing listens there
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
	for _, prefix := range []string{"/a", "a//b", "ü", "a b", ".", "a/../b", strings.Repeat("x", 200)} {
		if _, err := New(s.b.server.client, &Options{Prefix: prefix}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("the prefix %q: %v, want ErrInvalid", prefix, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a client: %v, want ErrInvalid", err)
	}
	if _, err := s.Ask(t.Context(), ok); err == nil || store.Definite(err) {
		t.Errorf("without a server: %v, want it indeterminate", err)
	}
}
