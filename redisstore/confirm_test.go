package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// given holds what a Store can report as its caller's own, in each way in which it can be there already.
type given struct {
	ask, placed     store.Claim // granted to the ask itself, and by another process's release
	up              store.Hold  // upgraded by another process's release, by its change 1
	detached        store.Hold  // renewed under another id
	reader, blocker store.Hold  // released by another process: then up and placed are granted
}

// newGiven prepares a given on a Store whose replicas confirm.
func newGiven(t testing.TB, s *Store) *given {
	t.Helper()
	up, reader := mutex("upgraded"), mutex("upgraded")
	up.Weight, reader.Weight = store.Upgradeable, 1
	g := &given{ask: mutex("asked"), placed: mutex("placed")}
	soonHold(t, s, g.ask)
	g.up, g.reader = soonHold(t, s, up), soonHold(t, s, reader)
	g.detached, g.blocker = soonHold(t, s, mutex("detached")), soonHold(t, s, mutex("placed"))
	g.detached.NewID = store.Process{}.NewID()
	until(t, "the hold is detached", func() bool { return s.Renew(t.Context(), []store.Hold{g.detached})[0].Err == nil })
	if a, err := s.Change(t.Context(), g.up, 1, store.Full); err != nil || a.Granted {
		t.Fatalf("upgrade beside a reader: got %+v, %v", a, err)
	}
	if a := mustAsk(t, s, g.placed); a.Granted {
		t.Fatal("two claims hold the lock")
	}
	return g
}

// release frees the names by a process that waits for no replica.
func (g *given) release(t testing.TB, s *Store) {
	t.Helper()
	for _, h := range []store.Hold{g.reader, g.blocker} {
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
}

// each calls f for each call that reports what is there, with the name of that call.
func (g *given) each(t testing.TB, f func(what string, tell func(*Store) error)) {
	change := func(turn int32, weight int64) func(*Store) error {
		return func(s *Store) error {
			a, err := s.Change(t.Context(), g.up, turn, weight)
			if err == nil && !a.Granted {
				t.Errorf("change %d: got %+v, want it granted", turn, a)
			}
			return err
		}
	}
	ask := func(c store.Claim) func(*Store) error {
		return func(s *Store) error { _, err := s.Ask(t.Context(), c); return err }
	}
	f("an ask that a release has granted", ask(g.placed)) // first: until an ask has returned it, it lasts no longer than a queue position
	f("an ask that was granted before", ask(g.ask))
	f("a renewal under another id, done before", func(s *Store) error { return s.Renew(t.Context(), []store.Hold{g.detached})[0].Err })
	f("an upgrade that a release has granted", change(1, store.Full))
	f("an upgrade that was reported before", change(1, store.Full))
	f("a downgrade", change(2, store.Upgradeable))
	f("a downgrade that was done before", change(2, store.Upgradeable))
	f("an upgrade", change(3, store.Full))
	f("an upgrade that was granted before", change(3, store.Full))
}

// Since Redis 7.2 WAIT covers only the writes of its own connection, and returns at once on a connection that has written nothing. So each
// answer that gives something is also a write on the caller's connection, even if it is there already.
func TestEachAnswerThatGivesSomethingIsWrittenForIt(t *testing.T) {
	t.Parallel()
	client := clientOf(t, newCouple(t).primary.Addr, func(o *redis.Options) { o.ReadTimeout = 4 * longAnswer }) // so a replica has that long
	s := confirmed(t, client, 1)
	g := newGiven(t, s)
	g.release(t, s)
	written := func() (n int) {
		info, err := client.Info(t.Context(), "commandstats").Result()
		if err == nil {
			_, err = fmt.Sscanf(redisinfo.Field(info, "cmdstat_set"), "calls=%d,", &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	g.each(t, func(what string, tell func(*Store) error) {
		before := written()
		if err := tell(s); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if written() == before {
			t.Errorf("%s: nothing was written", what)
		}
	})
}

// The replica is connected but hangs: writes since then are on the primary alone, whoever wrote them. Each answer comes over a connection that
// has written nothing yet.
func TestAHungReplicaConfirmsNoGrant(t *testing.T) {
	t.Parallel()
	onOne := func(start func(testing.TB, ...string) *testserver.Server) func(*testing.T) (func() redis.UniversalClient, []*testserver.Server) {
		return func(t *testing.T) (func() redis.UniversalClient, []*testserver.Server) {
			c := coupleOf(t, start)
			return func() redis.UniversalClient { return clientOf(t, c.primary.Addr) }, []*testserver.Server{c.replica}
		}
	}
	for _, setup := range []struct {
		name  string
		start func(*testing.T) (open func() redis.UniversalClient, replicas []*testserver.Server)
	}{
		{"on one server", onOne(testserver.Redis7)},
		{"on one server of Redis 8", onOne(testserver.Redis8)},
		{"on one server of Valkey 9", onOne(testserver.Valkey9)},
		{"behind Sentinel", func(t *testing.T) (func() redis.UniversalClient, []*testserver.Server) {
			c := newCouple(t)
			sentinel := testserver.RedisCalmSentinels(t, c.primary, 1)[0]
			return func() redis.UniversalClient {
				s := openAt(t, "redis+sentinel://"+sentinel.Addr+"/primary")
				t.Cleanup(func() { s.Close() })
				return s.client
			}, []*testserver.Server{c.replica}
		}},
		{"on a cluster", func(t *testing.T) (func() redis.UniversalClient, []*testserver.Server) {
			masters, replicas := testserver.RedisCalmClusterWithReplicas(t, 3)
			return func() redis.UniversalClient { return clusterClient(t, masters) }, replicas
		}},
	} {
		t.Run(setup.name, func(t *testing.T) {
			t.Parallel()
			open, replicas := setup.start(t)
			s, other := confirmed(t, open(), 1), confirmed(t, open(), 0)
			g := newGiven(t, s)
			freeze := func() {
				for _, r := range replicas {
					r.Freeze()
				}
			}
			thaw := func() {
				for _, r := range replicas {
					r.Thaw()
				}
			}
			defer thaw()
			freeze()
			g.release(t, other)
			g.each(t, func(what string, tell func(*Store) error) {
				fresh := confirmed(t, open(), 1)
				fresh.confirmTime = 100 * time.Millisecond
				indeterminate(t, what, tell(fresh))
				thaw()
				until(t, what+" is confirmed", func() bool { return tell(s) == nil })
				freeze()
			})
		})
	}
}
