package azblobstore

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A meter counts what a client sends, in Azure's classes of operations: a listing is billed as a write, and a delete
// is free.
type meter struct {
	http.RoundTripper
	counts                 *recordtest.Counts
	writes, reads, deletes *atomic.Int64
}

func newMeter() meter {
	return meter{nil, &recordtest.Counts{}, new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)}
}

func (m meter) RoundTrip(r *http.Request) (*http.Response, error) {
	m.counts.Add(r.Method)
	switch {
	case r.Method == http.MethodDelete:
		m.deletes.Add(1)
	case r.Method == http.MethodPut, r.URL.Query().Get("comp") == "list":
		m.writes.Add(1)
	default:
		m.reads.Add(1)
	}
	return m.RoundTripper.RoundTrip(r)
}

func metered(t *testing.T, addr, prefix string, m meter) *backend {
	t.Helper()
	return backendBy(t, addr, prefix, testserver.AzureContainer, func(next http.RoundTripper) http.RoundTripper {
		m.RoundTripper = next
		return m
	})
}

// The costs in docs/stores.md rely on this. One goroutine does everything.
func TestALockCostsSoManyRequests(t *testing.T) {
	t.Parallel()
	m := newMeter()
	b := metered(t, testserver.SharedAzure(t), apart(), m)
	b.Swept() // a sweep would be counted, whenever it comes
	s := opened(t, b)
	cost := func(what, want string, f func()) {
		t.Helper()
		b.Finish()
		m.writes.Store(0)
		m.reads.Store(0)
		m.deletes.Store(0)
		f()
		b.Finish()
		if got := fmt.Sprintf("%d writes, %d reads, %d deletes", m.writes.Load(), m.reads.Load(), m.deletes.Load()); got != want {
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
	cost("a new process: its trial, its session, and its first lock", "15 writes, 4 reads, 2 deletes", func() { cycle("a") })
	cost("a lock on a name that this process has locked before", "3 writes, 0 reads, 0 deletes", func() { cycle("a") })
	cost("a renewal", "1 writes, 1 reads, 0 deletes", func() {
		if _, err := b.Renew(t.Context(), s.Sessions()[0]); err != nil {
			t.Fatal(err)
		}
	})
}

// Many processes claim one name at once. What each costs does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, prefix := testserver.SharedAzure(t), apart()
	m := newMeter()
	recordtest.Crowd(t, recordtest.CrowdSize(30), m.counts, func(t *testing.T) store.Store { return storeOf(metered(t, addr, prefix, m)) })
}
