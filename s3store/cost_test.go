package s3store

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A meter counts what a client sends. Each PUT and LIST has the price of a write, each GET that of a read, and a DELETE
// costs nothing.
type meter struct {
	s3.HTTPClient
	counts *recordtest.Counts
	sum    *[5]atomic.Int64 // writes and lists, reads, deletes; then writes and lists, and reads, of sweeps, which run at any time
}

func (m meter) Do(r *http.Request) (*http.Response, error) {
	_, rest, _ := strings.Cut(r.URL.Query().Get("prefix")+r.URL.Path, "test-")
	of, known := map[string]string{"n": "record", "j": "note", "s": "session", "c": "calls", "t": "trial", "w": "sweep"}[strings.Split(rest+"//", "/")[1]]
	if !known {
		of = "all"
	}
	kind, at := "read", 1
	switch {
	case r.Method == http.MethodPut:
		kind, at = "write", 0
	case r.Method == http.MethodDelete:
		kind, at = "delete", 2
	case r.URL.Query().Has("list-type"):
		kind, at = "list", 0
	}
	if of == "all" || of == "sweep" {
		at += 3
	}
	m.sum[at].Add(1)
	m.counts.Add(kind + " " + of)
	return m.HTTPClient.Do(r)
}

func metered(t *testing.T, addr string, o *Options, m meter) *Store {
	t.Helper()
	options := client(t, addr).Options()
	m.HTTPClient = options.HTTPClient
	options.HTTPClient = m
	s, err := New(s3.New(options), testserver.S3Bucket, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trusted is how long a store assumes that the session of another process lives on.
const trusted = time.Second

// The prices in docs/stores.md rely on this. One goroutine does everything.
func TestALockCostsSoManyRequests(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedS3(t), apart()
	var sum [5]atomic.Int64
	m := meter{counts: &recordtest.Counts{}, sum: &sum}
	a := closing(t, metered(t, addr, o, m))
	costOf := func(f func()) string {
		a.b.Finish()
		for i := range sum {
			sum[i].Store(0)
		}
		f()
		a.b.Finish()
		return fmt.Sprintf("%d writes and lists, %d reads", sum[0].Load(), sum[1].Load())
	}
	is := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	cost := func(what, want string, f func()) {
		t.Helper()
		is(what, costOf(f), want)
	}
	claim := func(name string) store.Claim {
		c := storetest.Mutex(me, name)
		c.TTL = object.MaxTTL // long enough that no renewal comes between
		return c
	}
	cycle := func(name string) {
		h := storetest.MustHold(t, a, claim(name))
		if err := a.ReleaseAll(t.Context(), []store.Hold{h})[0]; err != nil {
			t.Fatal(err)
		}
	}
	cost("what is written once below a prefix, which keeps its directories, and the trial", "21 writes and lists, 3 reads", func() {
		p := closing(t, metered(t, addr, o, m))
		if err := p.b.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	cost("a new process: its trial, its session, and its first lock", "15 writes and lists, 4 reads", func() { cycle("a") })
	cost("a lock on a new name", "3 writes and lists, 0 reads", func() { cycle("b") })
	cost("a lock on a name that this process has locked before", "3 writes and lists, 0 reads", func() { cycle("b") })
	other := closing(t, storeOn(t, addr, o))
	for round := 0; ; round++ {
		name := fmt.Sprint("c", round)
		storetest.MustHold(t, other, claim(name))
		try, began := claim(name), store.Now()
		try.Try = true
		first := costOf(func() { storetest.MustAsk(t, a, try) })
		next := costOf(func() { storetest.MustAsk(t, a, try) })
		poll := costOf(func() {
			if _, err := a.Poll(t.Context(), claim(name)); err != nil {
				t.Fatal(err)
			}
		})
		if store.Now().Sub(began) >= trusted { // it may have read the holder's session again: the try shows nothing
			time.Sleep(trusted) // so that the first reads it the next time, too
			continue
		}
		is("a try that is refused", first, "1 writes and lists, 2 reads")
		is("one more refused try", next, "0 writes and lists, 1 reads")
		is("a poll", poll, "1 writes and lists, 1 reads")
		break
	}
	cost("a lock of a new process on a used name: its trial, its session, the lock", "15 writes and lists, 4 reads", func() {
		p := metered(t, addr, o, m)
		h := storetest.MustHold(t, p, claim("b"))
		if err := p.ReleaseAll(t.Context(), []store.Hold{h})[0]; err != nil {
			t.Fatal(err)
		}
		p.Close()
	})
	for what, want := range map[string]string{"a sweep": "2 writes and lists, 1 reads", "a read whose turn it is": "0 writes and lists, 1 reads"} {
		p := apart()
		if what != "a sweep" { // another store has just swept
			other := closing(t, storeOn(t, addr, p)).b
			objecttest.Sweeping(t, other, other.Backend)()
		}
		b := closing(t, metered(t, addr, p, meter{counts: m.counts, sum: new([5]atomic.Int64)})).b
		sum := b.server.client.Options().HTTPClient.(meter).sum
		objecttest.Sweeping(t, b, b.Backend)()
		if got := fmt.Sprintf("%d writes and lists, %d reads", sum[3].Load(), sum[4].Load()); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	ids := a.Sessions()
	cost("a renewal", "1 writes and lists, 1 reads", func() {
		if _, err := a.b.Renew(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
	})
}

// Many processes claim one name at once. What each costs does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, o := testserver.SharedS3(t), apart()
	counts := &recordtest.Counts{}
	recordtest.Crowd(t, recordtest.CrowdSize(30), counts, func(t *testing.T) store.Store {
		return metered(t, addr, o, meter{counts: counts, sum: new([5]atomic.Int64)})
	})
}
