package s3store

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// withoutTime is a proxy before a server, which drops the times that it tells.
func withoutTime(t testing.TB, addr string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Date")
			r.Header.Del("Last-Modified")
			return nil
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil // else it is that of the proxy
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// run is a job that cron starts, as holdfast run -n: a process of its own, which tries. It reports whether it got the name, which it holds until the
// test ends.
func run(t *testing.T, addr string, o *Options) bool {
	t.Helper()
	locks, err := holdfast.New(storeOn(t, addr, o), &holdfast.Options{TTL: object.MinTTL, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	_, err = locks.Mutex("nightly").TryLock(t.Context())
	if err != nil && !errors.Is(err, holdfast.ErrHeld) {
		t.Fatal(err)
	}
	return err == nil
}

// Each try sees the dead holder's session for the first time, and there is no time by which to judge it.
func TestACronOfTriesGetsWhatADeadProcessHeldThoughNoTimeIsTold(t *testing.T) {
	t.Parallel()
	addr, o := withoutTime(t, testserver.SharedS3(t)), apart()
	const period = 2 * time.Second
	link := testserver.NewLink(t, addr)
	if !run(t, link.Addr(), o) {
		t.Fatal("refused")
	}
	if run(t, addr, o) {
		t.Fatal("two hold it")
	}
	link.Cut() // nothing of it is heard any more
	began := time.Now()
	refused := 0
	for ; !run(t, addr, o); refused++ {
		time.Sleep(period - time.Since(began)%period)
		if time.Since(began) > testPatience {
			t.Fatal("it is not granted")
		}
	}
	// How long it takes at the most is tested in package object, where no machine stalls.
	t.Logf("granted %v after the last answer, once %d were refused", time.Since(began), refused)
}

func TestWithoutTimeAMinimumHoldIsRefused(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, withoutTime(t, testserver.SharedS3(t)), apart()))
	for _, with := range []func(*store.Claim){func(c *store.Claim) { c.MinHold = time.Minute }, func(c *store.Claim) { c.LockDelay = time.Minute }} {
		c := storetest.Mutex(me, "a")
		with(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%v, want an ErrUnsupported", err)
		}
	}
}

// untimed lacks what a server without time cannot count.
type untimed struct{ patient }

func (u untimed) Describe() store.Description {
	d := u.patient.Describe()
	const why = "the server tells no time"
	d.Lacks[store.PromiseMinHold], d.Lacks[store.PromiseLockDelay] = why, why
	return d
}

// Whatever does not count by the server's time is as on one that tells it.
func TestStoreWithoutTime(t *testing.T) {
	testserver.AtNight(t)
	t.Parallel()
	addr, o := withoutTime(t, testserver.SharedS3(t)), apart()
	storetest.Run(t, func(t *testing.T) store.Store { return untimed{patient{storeOn(t, addr, o)}} })
}
