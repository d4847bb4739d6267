package s3store

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A fake is a server that answers requests for single objects as S3 does, except for what a test makes it do wrong. No
// real server does all of that on demand.
type fake struct {
	ignores func(r *http.Request) bool                // the server ignores the condition
	spoils  func(r *http.Request, answer http.Header) // it changes the answer
	answers func(r *http.Request) (code string, status int)
	rules   string                       // lifecycle rules of the bucket
	written func(at time.Time) time.Time // Last-Modified

	mu      sync.Mutex
	objects map[string]*kept
	asked   map[string]int // by method and key
}

type kept struct {
	body []byte
	etag string
	at   time.Time
}

// start starts the server and returns its address.
func (f *fake) start(t *testing.T) string {
	t.Helper()
	f.objects, f.asked = map[string]*kept{}, map[string]int{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.URL.Path
	f.asked[r.Method+" "+key]++
	status, out := f.answer(r, key, body, w.Header())
	w.Header().Set("Server", "fake")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if f.spoils != nil {
		f.spoils(r, w.Header())
	}
	w.WriteHeader(status)
	w.Write(out)
}

func (f *fake) answer(r *http.Request, key string, body []byte, h http.Header) (int, []byte) {
	failed := func(code string, status int) (int, []byte) {
		return status, fmt.Appendf(nil, "<Error><Code>%s</Code><Message>as configured</Message></Error>", code)
	}
	if f.answers != nil {
		if code, status := f.answers(r); status != 0 {
			return failed(code, status)
		}
	}
	if f.rules != "" && r.URL.Query().Has("lifecycle") {
		return http.StatusOK, []byte(f.rules)
	}
	o := f.objects[key]
	heeds := f.ignores == nil || !f.ignores(r)
	switch match := r.Header.Get("If-Match"); {
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		return http.StatusNoContent, nil
	case heeds && match != "" && o == nil, r.Method == http.MethodGet && o == nil:
		return failed("NoSuchKey", http.StatusNotFound)
	case heeds && match != "" && o.etag != match, heeds && r.Header.Get("If-None-Match") != "" && o != nil:
		return failed("PreconditionFailed", http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		o = &kept{body, `"` + rand.Text() + `"`, time.Now()}
		f.objects[key] = o
	}
	h.Set("ETag", o.etag)
	if r.Method == http.MethodPut {
		return http.StatusOK, nil
	}
	at := o.at
	if f.written != nil {
		at = f.written(at)
	}
	h.Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	return http.StatusOK, o.body
}

// on is a backend on the fake.
func (f *fake) on(t *testing.T) *backend {
	t.Helper()
	b, err := newBackend(client(t, f.start(t)), testserver.S3Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
