package dynamostore

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A meter counts what a client sends. An item below 1 KiB costs one unit of write capacity for each write, even if that
// is refused, and one unit of read capacity for each read.
type meter struct {
	dynamodb.HTTPClient
	counts        *recordtest.Counts
	writes, reads *atomic.Int64
}

func (m meter) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	m.counts.Add(operation)
	switch operation {
	case "UpdateItem", "DeleteItem":
		m.writes.Add(1)
	default:
		m.reads.Add(1)
	}
	return m.HTTPClient.Do(r)
}

func metered(t *testing.T, addr, prefix string, m meter) *backend {
	t.Helper()
	o := client(t, addr).Options()
	m.HTTPClient = o.HTTPClient
	o.HTTPClient = m
	b, err := newBackend(dynamodb.New(o), &Options{Table: testserver.DynamoDBTable, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The prices in docs/stores.md rely on this. One goroutine does everything.
func TestALockCostsSoManyRequests(t *testing.T) {
	t.Parallel()
	addr, prefix := testserver.SharedDynamoDB(t), apart()
	var writes, reads atomic.Int64
	m := meter{counts: &recordtest.Counts{}, writes: &writes, reads: &reads}
	start := func() *Store {
		b := metered(t, addr, prefix, m)
		b.objects.Swept() // a sweep would be counted, whenever it comes
		s := &Store{record.New(b), b}
		t.Cleanup(func() { s.Close() })
		return s
	}
	a := start()
	cost := func(what, want string, f func()) {
		t.Helper()
		a.b.objects.Finish()
		writes.Store(0)
		reads.Store(0)
		f()
		a.b.objects.Finish()
		if got := fmt.Sprintf("%d writes, %d reads", writes.Load(), reads.Load()); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	claim := func(name string) store.Claim {
		c := storetest.Mutex(me, name)
		c.TTL = object.MaxTTL // long enough that no renewal comes between
		return c
	}
	cycle := func(s *Store, name string) {
		h := storetest.MustHold(t, s, claim(name))
		if err := s.ReleaseAll(t.Context(), []store.Hold{h})[0]; err != nil {
			t.Fatal(err)
		}
	}
	cost("a new process: its trial, its session, and its first lock", "16 writes, 4 reads", func() { cycle(a, "a") })
	cost("a lock on a new name", "2 writes, 0 reads", func() { cycle(a, "b") })
	cost("a lock on a name that this process has locked before", "2 writes, 0 reads", func() { cycle(a, "b") })
	cost("a renewal", "1 writes, 1 reads", func() {
		if _, err := a.b.Renew(t.Context(), a.Sessions()[0]); err != nil {
			t.Fatal(err)
		}
	})
	b := metered(t, addr, prefix, m)
	t.Cleanup(func() { b.Close() })
	cost("a sweep", "1 writes, 2 reads", objecttest.Sweeping(t, b, b.objects))
}

// Many processes claim one name at once. What each costs does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, prefix := testserver.SharedDynamoDB(t), apart()
	m := meter{counts: &recordtest.Counts{}, writes: new(atomic.Int64), reads: new(atomic.Int64)}
	recordtest.Crowd(t, recordtest.CrowdSize(30), m.counts, func(t *testing.T) store.Store {
		b := metered(t, addr, prefix, m)
		return &Store{record.New(b), b}
	})
}
