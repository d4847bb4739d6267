package holdfasthttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfasthttp"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		serves(dir)
	}
	goleak.VerifyTestMain(m)
}

func lockerOn(t testing.TB, s store.Store) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// byPath names the lock after the path; "/" names no lock.
func byPath(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// A logged is the destination of a Logger.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// handled returns what a handler behind the middleware answers.
func handled(ctx context.Context, locks *holdfast.Locker, o *holdfasthttp.Options, path string, fn http.HandlerFunc) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	holdfasthttp.Locked(locks, byPath, o)(fn).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "PUT", path, nil))
	return w
}

func TestAHandlerRunsWhileTheLockIsHeld(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		together, served := 0, 0
		var all sync.WaitGroup
		for range 3 { // processes
			locks := lockerOn(t, s)
			for range 3 { // requests of each
				all.Go(func() {
					w := handled(t.Context(), locks, &holdfasthttp.Options{Wait: time.Hour}, "/a", func(w http.ResponseWriter, r *http.Request) {
						if together++; together > 1 {
							t.Error("two handlers run at once")
						}
						if l := holdfast.LeaseFrom(r.Context()); l == nil || !l.Valid() || l.Name() != "a" || l.Token() == 0 {
							t.Error("the handler got no valid lease")
						}
						time.Sleep(time.Second)
						together--
						served++
						w.WriteHeader(http.StatusNoContent)
					})
					if w.Code != http.StatusNoContent {
						t.Errorf("got status %d, want 204", w.Code)
					}
				})
			}
		}
		all.Wait()
		if served != 9 {
			t.Errorf("got %d requests served, want 9", served)
		}
	})
}

func TestARequestWaitsNoLongerThanItsOption(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		locks := lockerOn(t, s)
		lease, err := locks.Mutex("a").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		for _, c := range []struct {
			o          holdfasthttp.Options
			status     int
			retryAfter string
		}{
			{holdfasthttp.Options{}, http.StatusLocked, "1"},
			{holdfasthttp.Options{Wait: 3 * time.Second, Status: http.StatusConflict, RetryAfter: 1500 * time.Millisecond}, http.StatusConflict, "2"},
			{holdfasthttp.Options{Wait: time.Minute, Status: http.StatusServiceUnavailable, RetryAfter: time.Minute}, http.StatusServiceUnavailable, "60"},
		} {
			began := time.Now()
			w := handled(t.Context(), lockerOn(t, s), &c.o, "/a", func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
			if d := time.Since(began); d < c.o.Wait || d > c.o.Wait+time.Second {
				t.Errorf("answered after %v, want after %v", d, c.o.Wait)
			}
			if r := w.Result(); r.StatusCode != c.status || r.Header.Get("Retry-After") != c.retryAfter {
				t.Errorf("got status %d, Retry-After %q; want %d, %q", r.StatusCode, r.Header.Get("Retry-After"), c.status, c.retryAfter)
			}
		}
	})
}

func TestARefusalIsAnsweredByYours(t *testing.T) {
	locks := lockerOn(t, memstore.New())
	lease, err := locks.Mutex("a").TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	w := handled(t.Context(), locks, &holdfasthttp.Options{Refused: func(w http.ResponseWriter, r *http.Request, status int, err error) {
		held := (*holdfast.HeldError)(nil)
		fmt.Fprint(w, r.URL.Path, " ", status, " ", errors.As(err, &held))
	}}, "/a", nil)
	if got := w.Body.String(); got != "/a 423 true" {
		t.Errorf("answered %q", got)
	}
}

func TestAStoreThatIsAwayIsAnsweredBy503(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		defer s.Fail(nil)
		var log logged
		w := handled(t.Context(), lockerOn(t, s), &holdfasthttp.Options{Logger: log.logger()}, "/a", func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		if r := w.Result(); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("got status %d, Retry-After %q; want 503 and a Retry-After", r.StatusCode, r.Header.Get("Retry-After"))
		}
		if !strings.Contains(log.String(), "the lock cannot be asked for") {
			t.Errorf("logged: %s", log.String())
		}
	})
}

func TestAnInvalidNameIsAnsweredBy400(t *testing.T) {
	w := handled(t.Context(), lockerOn(t, memstore.New()), nil, "/"+strings.Repeat("x", 513), func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	if r := w.Result(); r.StatusCode != http.StatusBadRequest || r.Header.Get("Retry-After") != "" {
		t.Errorf("got status %d, Retry-After %q; want 400 and none", r.StatusCode, r.Header.Get("Retry-After"))
	}
}

func TestWithoutANameNoLockIsTaken(t *testing.T) {
	called := false
	handled(t.Context(), lockerOn(t, memstore.New()), nil, "/", func(w http.ResponseWriter, r *http.Request) {
		called = holdfast.LeaseFrom(r.Context()) == nil
	})
	if !called {
		t.Error("the handler was not called, or it got a lease")
	}
}

func TestALossEndsTheContextOfTheRequest(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		w := handled(t.Context(), lockerOn(t, s), &holdfasthttp.Options{Logger: log.logger()}, "/a", func(w http.ResponseWriter, r *http.Request) {
			s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
			<-r.Context().Done()
			if err := context.Cause(r.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("the context ended with %v, want ErrLost", err)
			}
			http.Error(w, "lost", http.StatusServiceUnavailable)
		})
		s.Fail(nil)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("got status %d, want the handler's", w.Code)
		}
		if !strings.Contains(log.String(), "the lock was lost during the request") {
			t.Errorf("logged: %s", log.String())
		}
	})
}

func TestAPanicReleasesTheLock(t *testing.T) {
	locks := lockerOn(t, memstore.New())
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("recovered %v, want the handler's panic", p)
			}
		}()
		handled(t.Context(), locks, nil, "/a", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}()
	lease, err := locks.Mutex("a").TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
}

// A client that leaves while it waits gets no answer, and blocks no other client.
func TestAClientThatGoesWaitsNoMore(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		locks := lockerOn(t, s)
		lease, err := locks.Mutex("a").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, gone := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			gone()
		}()
		w := handled(ctx, lockerOn(t, s), &holdfasthttp.Options{Wait: time.Hour}, "/a", func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		if len(w.Header()) > 0 || w.Body.Len() > 0 {
			t.Errorf("got %v %q, want no answer", w.Header(), w.Body)
		}
		lease.Release()
		next, err := locks.Mutex("a").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next.Release()
	})
}

// serves is the other process: a server, which prints its address, and never answers.
func serves(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	http.Serve(l, holdfasthttp.Locked(locks, byPath, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("handles")
		select {}
	})))
}

func TestARequestOfAKilledServerIsServedElsewhere(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	addr := other.Line()
	answered := make(chan error, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		_, err := client.Get("http://" + addr + "/a")
		answered <- err
	}()
	other.Says("handles")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	locks := lockerOn(t, s)
	if w := handled(t.Context(), locks, nil, "/a", nil); w.Code != http.StatusLocked {
		t.Fatalf("while the other server serves the path: got %d, want 423", w.Code)
	}
	other.Kill()
	if err := <-answered; err == nil {
		t.Error("the killed server answered")
	}
	w := handled(t.Context(), locks, &holdfasthttp.Options{Wait: time.Minute}, "/a", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	if w.Code != http.StatusNoContent {
		t.Errorf("after the other server was killed: got %d, want 204", w.Code)
	}
}
