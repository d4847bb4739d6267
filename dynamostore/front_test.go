package dynamostore

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A front is a proxy in front of the server. It changes what passes.
type front struct {
	sent   func(operation string, in map[string]any)                    // a request, before the server gets it
	answer func(operation string, h http.Header, out map[string]any)    // an answer, before the client gets it
	before func(operation string, w http.ResponseWriter) (answers bool) // before the server; true: it has answered instead

	mu    sync.Mutex
	asked map[string]int // by operation
}

// on starts the front in front of a server, and returns its address.
func (f *front) on(t *testing.T, server string) string {
	t.Helper()
	f.asked = map[string]int{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server})
	proxy.ModifyResponse = func(r *http.Response) error {
		if f.answer == nil {
			return nil
		}
		out, raw := parsed(r.Body)
		f.answer(operation(r.Request), r.Header, out)
		if out != nil {
			raw, _ = json.Marshal(out)
			r.Header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(raw)), 10))
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		r.Header.Set("Content-Length", strconv.Itoa(len(raw)))
		return nil
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := operation(r)
		f.mu.Lock()
		f.asked[of]++
		f.mu.Unlock()
		if f.before != nil && f.before(of, w) {
			return
		}
		if f.sent != nil {
			in, raw := parsed(r.Body)
			if f.sent(of, in); in != nil {
				raw, _ = json.Marshal(in)
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// answer answers as DynamoDB does, and returns true.
func answer(w http.ResponseWriter, status int, body string) bool {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	io.WriteString(w, body)
	return true
}

func operation(r *http.Request) string {
	_, of, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return of
}

// parsed reads a body to its end and parses it; nil: it is not an object.
func parsed(body io.ReadCloser) (of map[string]any, raw []byte) {
	raw, _ = io.ReadAll(body)
	body.Close()
	if json.Unmarshal(raw, &of) != nil {
		return nil, raw
	}
	return of, raw
}

// times returns how often an operation was requested.
func (f *front) times(of string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[of]
}

// behind returns a backend behind the front, on the shared server.
func (f *front) behind(t *testing.T) *backend {
	t.Helper()
	return backendOn(t, f.on(t, testserver.SharedDynamoDB(t)), apart())
}
