package k8sstore

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A meter counts what a client sends.
type meter struct {
	http.RoundTripper
	counts        *recordtest.Counts
	writes, reads *atomic.Int64
}

func (m meter) RoundTrip(r *http.Request) (*http.Response, error) {
	m.counts.Add(r.Method)
	if r.Method == http.MethodGet {
		m.reads.Add(1)
	} else {
		m.writes.Add(1)
	}
	return m.RoundTripper.RoundTrip(r)
}

func metered(addr string, m meter) *rest.Config {
	c := at(addr)
	c.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		m.RoundTripper = next
		return m
	}
	return c
}

// The costs in docs/stores.md rely on this. One goroutine does everything.
func TestALockCostsSoManyRequests(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	m := meter{counts: &recordtest.Counts{}, writes: new(atomic.Int64), reads: new(atomic.Int64)}
	b := backendOn(t, metered(addr, m), namespace)
	b.objects.Swept() // a sweep would be counted, whenever it comes
	s := &Store{record.New(b), b}
	t.Cleanup(func() { s.Close() })
	cost := func(what, want string, f func()) {
		t.Helper()
		b.objects.Finish()
		m.writes.Store(0)
		m.reads.Store(0)
		f()
		b.objects.Finish()
		if got := fmt.Sprintf("%d writes, %d reads", m.writes.Load(), m.reads.Load()); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	cycle := func(name string) {
		c := storetest.Mutex(me, name)
		c.TTL = object.MaxTTL // long enough that no renewal comes between
		if err := s.Release(t.Context(), storetest.MustHold(t, s, c)); err != nil {
			t.Fatal(err)
		}
	}
	cost("a new process: its trial, its session, and its first lock", "16 writes, 4 reads", func() { cycle("a") })
	cost("a lock on a new name", "2 writes, 0 reads", func() { cycle("b") })
	cost("a lock on a name that this process has locked before", "2 writes, 0 reads", func() { cycle("b") })
	cost("a renewal", "1 writes, 1 reads", func() {
		if _, err := b.Renew(t.Context(), s.Sessions()[0]); err != nil {
			t.Fatal(err)
		}
	})
	sweeper := backendOn(t, metered(addr, m), namespace)
	t.Cleanup(func() { sweeper.Close() })
	cost("a sweep", "1 writes, 2 reads", objecttest.Sweeping(t, sweeper, sweeper.objects))
}

// Many processes claim one name at once. What each costs does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, namespace := namespace(t)
	m := meter{counts: &recordtest.Counts{}, writes: new(atomic.Int64), reads: new(atomic.Int64)}
	recordtest.Crowd(t, recordtest.CrowdSize(30), m.counts, func(t *testing.T) store.Store {
		b := backendOn(t, metered(addr, m), namespace)
		return &Store{record.New(b), b}
	})
}
