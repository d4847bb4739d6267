package pgstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// tallied counts statements by what they are.
type tallied struct {
	db
	counts *recordtest.Counts
	do     *statements
}

func (c *tallied) query(ctx context.Context, statement string, args []any, how how, row func(scan func(...any) error) error) error {
	c.counts.Add(kindOf(c.do, statement))
	return c.db.query(ctx, statement, args, how, row)
}

// kindOf says what a statement is.
func kindOf(do *statements, statement string) string {
	for kind, text := range map[string]string{
		"ask free": do.askFast, "ask idle": do.askIdle, "ask": do.ask, "ask behind": do.askBehind, "look": do.ahead, "renew": do.renewFast, "renew one": do.renew,
		"release": do.releaseFast, "release next": do.releaseNext, "release full": do.release, "sweep": do.sweep, "stands": do.stands, "begin": do.session.begin,
		"renew session": do.session.renew, "left": do.session.left, "end": do.session.end, "sweep sessions": do.session.sweep,
	} {
		if statement == text {
			return kind
		}
	}
	return "other"
}

// With HOLDFAST_TEST_CROWD=300 it tells more.
func TestACrowdCostsFewStatementsALock(t *testing.T) {
	t.Parallel()
	n := recordtest.CrowdSize(30)
	server := testserver.Postgres(t, "-c", fmt.Sprintf("max_connections=%d", n+100))
	pool := poolOn(t, server.Addr, func(c *pgxpool.Config) { c.MaxConns = 32 })
	var counts recordtest.Counts
	each, unanswered := recordtest.Crowd(t, n, &counts, func(t *testing.T) store.Store {
		s := tableOn(t, pool, nil)
		s.db = &tallied{s.db, &counts, s.do}
		return s
	})
	if each > 15 || unanswered > 0 {
		t.Errorf("%.1f statements a lock, want at most 15; %d were not answered", each, unanswered)
	}
}

// With HOLDFAST_TEST_CROWD=10000 it tells more.
func TestManyLeasesAreRenewedByFewStatements(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	var counts recordtest.Counts
	writes := &counted{db: s.db, renew: "none"}
	s.db = &tallied{writes, &counts, s.do}
	const ttl = 6 * time.Second
	locks, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	n := recordtest.CrowdSize(500)
	names := make(chan string, n)
	for i := range n {
		names <- fmt.Sprint("lease ", i)
	}
	close(names)
	var all sync.WaitGroup
	var mu sync.Mutex
	var leases []*holdfast.Lease
	for range 8 {
		all.Go(func() {
			for name := range names {
				lease, err := locks.Mutex(name).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				leases = append(leases, lease)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	until(t, "all are kept by a session", func() bool {
		s.claims.mu.Lock()
		defer s.claims.mu.Unlock()
		for _, m := range s.claims.of {
			if m.sess == nil {
				return false
			}
		}
		return true
	})
	begun, before := time.Now(), writes.n.Load()
	row := version(t, s, "lease 0")
	time.Sleep(ttl)
	each := float64(writes.n.Load()-before) / time.Since(begun).Seconds()
	t.Logf("%d leases: %.1f statements a second", n, each)
	if each > 10 {
		t.Errorf("%d leases: %.1f statements a second, want at most 10", n, each)
	}
	if now := version(t, s, "lease 0"); now != row {
		t.Error("a row was written")
	}
	for _, lease := range leases {
		if !lease.Valid() {
			t.Fatal("a lease is lost")
		}
	}
}
