package s3store

import (
	"crypto/rand"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// subject is this store, for the tests of all object stores. A place is an address and a prefix.
var subject = objecttest.Subject{
	Place: func(t testing.TB) string { return testserver.SharedS3(t) + " " + apart().Prefix },
	Open: func(t testing.TB, place string) *objecttest.Process {
		addr, prefix, _ := strings.Cut(place, " ")
		b := newBackendOn(t, addr, &Options{Prefix: prefix})
		return &objecttest.Process{Backend: b, Objects: b.Backend, Server: b.server}
	},
	Linked: func(t testing.TB, place string) (string, objecttest.Link) {
		addr, prefix, _ := strings.Cut(place, " ")
		link := testserver.NewLink(t, addr)
		return link.Addr() + " " + prefix, link
	},
	Untimed: func(t testing.TB, place string) string {
		addr, prefix, _ := strings.Cut(place, " ")
		return withoutTime(t, addr) + " " + prefix
	},
	Freeze: func(t *testing.T) (string, func()) {
		server := testserver.S3(t)
		t.Cleanup(server.Thaw)
		return server.Addr + " " + DefaultPrefix, server.Freeze
	},
}

func newBackendOn(t testing.TB, addr string, o *Options) *backend {
	t.Helper()
	b, err := newBackend(client(t, addr), testserver.S3Bucket, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withoutTime is a proxy in front of a server. It drops the times from the answers.
func withoutTime(t testing.TB, addr string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Host = r.In.Host // the request is signed with the host
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Date")
			r.Header.Del("Last-Modified")
			return nil
		},
		ErrorLog: log.New(io.Discard, "", 0), // it would report clients that have left
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil // otherwise the proxy adds its own
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestBackend(t *testing.T) {
	t.Parallel()
	objecttest.Backend(t, subject)
}

func TestStore(t *testing.T) {
	t.Parallel() // it waits most of the time
	objecttest.Suite(t, subject)
}

func TestStoreWithoutTime(t *testing.T) {
	testserver.AtNight(t) // not beside the other suite, which loads the server as much
	objecttest.SuiteWithoutTime(t, subject)
}

func TestWithoutTimeAMinimumHoldIsRefused(t *testing.T) {
	t.Parallel()
	objecttest.WithoutTime(t, subject)
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	objecttest.Differential(t, subject)
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	objecttest.Faults(t, subject)
}

// The process of a holder is killed: the name is free within the holder's TTL plus a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	objecttest.Killed(t, subject)
}

func TestACronOfTriesGetsWhatADeadProcessHeld(t *testing.T) {
	t.Parallel()
	objecttest.Cron(t, subject)
}

func TestOnlyTheNameIsLeft(t *testing.T) {
	t.Parallel()
	objecttest.NothingIsLeft(t, subject)
}

func TestForeignAndNewerObjectsAreLeftAlone(t *testing.T) {
	t.Parallel()
	objecttest.ForeignIsLeftAlone(t, subject)
}

func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	objecttest.ARefusedTryWritesNothing(t, subject)
}

// versitygw with --sidecar answers some reads with the old body and the new ETag. Two clients count in one object, and
// each answered write is counted.
func TestNoWriteIsLostWhereETagsAreKeptApart(t *testing.T) {
	t.Parallel()
	addr := testserver.S3(t, "--sidecar", t.TempDir()).Addr
	var all sync.WaitGroup
	var written atomic.Int64
	for range 2 {
		p := newBackendOn(t, addr, nil)
		if err := p.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 300 {
				o, err := p.server.Get(t.Context(), "count")
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(string(o.Body))
				switch _, what, err := p.server.Put(t.Context(), "count", []byte(strconv.Itoa(n+1)), o.Version); {
				case err != nil:
					t.Error(err)
					return
				case what == object.Done:
					written.Add(1)
				}
			}
		})
	}
	all.Wait()
	o, err := newBackendOn(t, addr, nil).server.Get(t.Context(), "count")
	if n, _ := strconv.Atoi(string(o.Body)); err != nil || int64(n) != written.Load() {
		t.Errorf("got the count %d after %d writes, with the error %v", n, written.Load(), err)
	}
}

// versitygw refuses some writes into a directory that it is about to delete, and reports a few as done that are not.
// The store leaves no directory empty, so versitygw deletes none. That shows only where nothing else is below the
// prefix, as here.
func TestNoWriteMeetsADirectoryThatGoes(t *testing.T) {
	t.Parallel()
	place := subject.Place(t)
	var all sync.WaitGroup
	for range 2 {
		p := subject.Open(t, place)
		if err := p.Objects.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 1000 {
				key := p.Objects.Prefix + "s/" + rand.Text()
				if _, what, err := p.Server.Put(t.Context(), key, []byte("x"), ""); err != nil || what != object.Done {
					t.Errorf("a write was refused (%d), with the error %v", what, err)
				} else if o, err := p.Server.Get(t.Context(), key); err != nil || o.Version == "" {
					t.Errorf("the written object is missing, with the error %v", err)
				}
				if err := p.Server.Delete(t.Context(), key, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestServer(t *testing.T) {
	t.Parallel()
	objecttest.Server(t, subject)
}
