package azblobstore

import (
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "12") // most of them wait most of the time
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// backendOn returns a backend on a server. Its connections are closed when the test ends.
func backendOn(t testing.TB, addr, prefix string) *backend {
	t.Helper()
	return backendBy(t, addr, prefix, testserver.AzureContainer, nil)
}

// backendBy is backendOn for another container, and with a transport on top of the client's own.
func backendBy(t testing.TB, addr, prefix, container string, on func(http.RoundTripper) http.RoundTripper) *backend {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	if on != nil {
		client.Transport = on(transport)
	}
	at := location{account: testserver.AzureAccount, container: container, endpoint: testserver.AzureEndpoint(addr)}
	c, err := at.client(client)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBackend(c, &Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func opened(t testing.TB, b *backend) *Store {
	t.Helper()
	s := storeOf(b)
	t.Cleanup(func() { s.Close() })
	return s
}

func init() { testserver.AzureURL("") } // puts the key into the environment

// apart returns a prefix that no other test uses.
func apart() string { return "test-" + store.NewProcess().String() }

var me = store.NewProcess()

// A front is a proxy in front of the server. It changes answers, or answers instead.
type front struct {
	answer  func(h http.Header)
	instead func(w http.ResponseWriter, r *http.Request) bool
	asked   atomic.Int64
}

// on starts the front, and returns its address.
func (f *front) on(t testing.TB, addr string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if f.answer != nil {
				f.answer(r.Header)
			}
			return nil
		},
		ErrorLog: log.New(io.Discard, "", 0), // it would report clients that have left
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		if f.instead != nil && f.instead(w, r) {
			return
		}
		w.Header()["Date"] = nil // otherwise the proxy adds its own
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
