package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// resharder moves slots between the servers of a cluster, as redis-cli --cluster reshard does.
type resharder struct {
	t       testing.TB
	servers []*testserver.Server
	clients []*redis.Client
	ids     []string
}

func newResharder(t testing.TB, servers []*testserver.Server) *resharder {
	r := &resharder{t: t, servers: servers}
	for _, s := range servers {
		c := clientOf(t, s.Addr)
		r.clients = append(r.clients, c)
		r.ids = append(r.ids, r.do(c, "CLUSTER", "MYID").(string))
	}
	return r
}

func (r *resharder) do(c *redis.Client, args ...any) any {
	r.t.Helper()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// owner returns the server that has the slot, once all servers agree.
func (r *resharder) owner(slot int64) (owner int) {
	r.t.Helper()
	until(r.t, fmt.Sprint("a server has slot ", slot), func() (found bool) {
		owner, found = r.claims(slot)
		return found
	})
	return owner
}

func (r *resharder) claims(slot int64) (owner int, found bool) {
	for i, c := range r.clients {
		for line := range strings.Lines(r.do(c, "CLUSTER", "NODES").(string)) {
			words := strings.Fields(line)
			if !strings.Contains(words[2], "myself") {
				continue
			}
			for _, w := range words[8:] {
				from, to, isRange := strings.Cut(w, "-")
				a, err := strconv.ParseInt(from, 10, 64)
				if err != nil {
					continue // being moved
				}
				b := a
				if isRange {
					b, _ = strconv.ParseInt(to, 10, 64)
				}
				if a <= slot && slot <= b {
					return i, true
				}
			}
		}
	}
	return 0, false
}

// move moves the slot to another server. It calls halfway when the keys have been moved, and the servers still report the old owner.
func (r *resharder) move(slot int64, to int, halfway func()) {
	r.t.Helper()
	from := r.owner(slot)
	if from == to {
		return
	}
	source, target := r.clients[from], r.clients[to]
	r.do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", r.ids[from])
	r.do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", r.ids[to])
	host, port, _ := strings.Cut(r.servers[to].Addr, ":")
	for {
		keys := r.do(source, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			r.do(source, "MIGRATE", host, port, key, 0, 60_000)
		}
	}
	halfway()
	for i := range r.clients { // the target first
		r.do(r.clients[(to+i)%len(r.clients)], "CLUSTER", "SETSLOT", slot, "NODE", r.ids[to])
	}
}

// settle waits until the servers agree on the epoch.
func (r *resharder) settle() {
	r.t.Helper()
	until(r.t, "the servers agree", func() bool {
		epochs := map[string]bool{}
		for _, c := range r.clients {
			epochs[redisinfo.Field(r.do(c, "CLUSTER", "INFO").(string), "cluster_current_epoch")] = true
		}
		return len(epochs) == 1
	})
}

// redirects returns how often the servers have redirected a request, for a slot that has moved and for one that is being moved.
func (r *resharder) redirects() (moved, ask int) {
	for _, c := range r.clients {
		for line := range strings.Lines(r.do(c, "INFO", "errorstats").(string)) {
			var n int
			if _, err := fmt.Sscanf(line, "errorstat_MOVED:count=%d", &n); err == nil {
				moved += n
			}
			if _, err := fmt.Sscanf(line, "errorstat_ASK:count=%d", &n); err == nil {
				ask += n
			}
		}
	}
	return moved, ask
}

func slotOf(t testing.TB, client *redis.ClusterClient, key string) int64 {
	t.Helper()
	slot, err := client.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// Slots are moved back and forth under names that are held all the time, under names that two crowds pass on, and under waiters. Nobody loses
// its lock, and there are never two holders. One of the two stores requires replicas to confirm.
func TestNamesThatMoveToAnotherServerAreNeitherLostNorHeldTwice(t *testing.T) {
	t.Parallel()
	const names, rounds, ttl = 6, 3, time.Minute
	masters, _ := testserver.RedisCalmClusterWithReplicas(t, 3)
	client := clusterClient(t, masters)
	var lockers []*holdfast.Locker
	for replicas := range 2 {
		s := storeOn(t, clusterClient(t, masters), &Options{Replicas: replicas})
		s.confirmTime = longAnswer // as long as the client waits: replicas may be busy
		lockers = append(lockers, lockerOn(t, s, ttl))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var held []*holdfast.Lease
	var slots []int64
	key := func(name string) string { return DefaultPrefix + "{" + name + "}" }
	for i := range names {
		name := fmt.Sprint("held ", i)
		l, err := lockers[i%2].Mutex(name).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		slots = append(slots, slotOf(t, client, key(name)))
	}

	var crowd, waiters sync.WaitGroup
	var inside [names]atomic.Int64
	var newest [names]int64 // guarded by the names' locks, as the race detector verifies
	var turns atomic.Int64
	var unreleased atomic.Bool
	enough := make(chan struct{})
	for i := range names {
		name := fmt.Sprint("busy ", i)
		slots = append(slots, slotOf(t, client, key(name)))
		for _, l := range lockers {
			crowd.Go(func() {
				for {
					select {
					case <-enough:
						return
					default:
					}
					asked := time.Now()
					lease, err := l.Mutex(name).Lock(ctx)
					if stoodStill(asked, err) {
						continue
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if n := inside[i].Add(1); n != 1 || lease.Token() <= newest[i] {
						t.Errorf("%s: got %d holders, token %d after %d", name, n, lease.Token(), newest[i])
					}
					newest[i] = lease.Token()
					turns.Add(1)
					inside[i].Add(-1)
					asked = time.Now()
					if err := lease.Release(); stoodStill(asked, err) {
						unreleased.Store(true) // it is free after its TTL
					} else if err != nil {
						t.Errorf("%s: release: %v", name, err)
						return
					}
				}
			})
		}
	}
	got := make(chan *holdfast.Lease, names)
	for i := range names {
		waiters.Go(func() {
			for {
				asked := time.Now()
				l, err := lockers[1-i%2].Mutex(fmt.Sprint("held ", i)).Lock(ctx)
				switch {
				case stoodStill(asked, err):
					continue
				case err != nil:
					t.Errorf("waiter %d: %v", i, err)
				default:
					got <- l
				}
				return
			}
		})
	}

	r := newResharder(t, masters)
	for round := range rounds {
		// All slots move to one server at a time: two servers that took slots at once would conflict.
		r.settle()
		for _, slot := range slots {
			before := turns.Load()
			r.move(slot, round%len(masters), func() {
				until(t, "claims are granted while a slot moves", func() bool { return turns.Load() > before || t.Failed() })
				if round == rounds-1 { // renewals too
					for _, l := range held {
						if asked, err := time.Now(), l.Renew(ctx, ttl); err != nil && !stoodStill(asked, err) {
							t.Errorf("renewal while a slot moves: %v", err)
						}
					}
				}
			})
		}
	}
	close(enough)
	crowd.Wait()
	for _, l := range held {
		if !l.Valid() {
			t.Errorf("%s was lost", l.Name())
		}
		if err := l.Release(); err != nil {
			t.Errorf("%s: %v", l.Name(), err)
		}
	}
	waiters.Wait()
	for range names {
		if t.Failed() {
			return
		}
		l := <-got
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	moved, ask := r.redirects()
	t.Logf("%d turns, %d slots moved, the servers returned MOVED %d and ASK %d times", turns.Load(), rounds*len(slots), moved, ask)
	if moved == 0 || ask == 0 {
		t.Errorf("the servers returned MOVED %d and ASK %d times, want both", moved, ask)
	}
	all := storeOn(t, client, nil)
	if unreleased.Load() {
		testwait.UntilPast(t, ttl, "unreleased holds have expired", func() bool {
			left := 0
			for range all.List(t.Context(), "") {
				left++
			}
			return left == 0
		})
	}
	for st, err := range all.List(t.Context(), "") {
		t.Errorf("got %q with %d entries left, error %v", st.Name, len(st.Entries), err)
	}
}

// A node leaves its cluster properly, and still answers those who are connected to it. A mailbox that is open there receives nothing any more.
func TestAMailboxAtALeavingClusterServerIsReopenedElsewhere(t *testing.T) {
	t.Parallel()
	masters := testserver.RedisCluster(t, 3)
	s := storeOn(t, clusterClient(t, masters), nil)
	defer s.Close()
	s.pingEvery = 200 * time.Millisecond
	notifications := make(chan store.Notification, 1000)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	r := newResharder(t, masters)
	at := func() int {
		t.Helper()
		found := -1
		until(t, "one server has the mailbox", func() bool {
			for i, m := range masters {
				if c := r.clients[i]; m.PID != 0 && len(c.PubSubChannels(t.Context(), s.channel(me)).Val()) > 0 {
					found = i
				}
			}
			return found >= 0
		})
		return found
	}
	reported := func(what string) {
		t.Helper()
		until(t, what+" all waiters are notified", func() bool {
			select {
			case h := <-notifications:
				return h == store.Notification{}
			default:
				return false
			}
		})
	}
	leaves := at()
	stays, other := (leaves+1)%3, (leaves+2)%3
	from, to := 1<<14*leaves/3, 1<<14*(leaves+1)/3-1
	r.do(r.clients[leaves], "FLUSHALL")
	r.do(r.clients[leaves], "CLUSTER", "RESET", "SOFT")
	for _, i := range []int{stays, other} {
		r.do(r.clients[i], "CLUSTER", "FORGET", r.ids[leaves])
	}
	r.do(r.clients[stays], "CLUSTER", "ADDSLOTSRANGE", from, to)
	reported("after the server left")
	until(t, "the mailbox is at another server", func() bool { return at() != leaves })

	h, w := store.Hold{}, mutex("n")
	until(t, "the cluster works without it", func() bool {
		a, err := s.Ask(t.Context(), w)
		h = store.Hold{Name: "n", ID: w.ID, Token: a.Token}
		return err == nil && a.Granted
	})
	next := mutex("n")
	until(t, "another claim waits", func() bool {
		_, err := s.Ask(t.Context(), next)
		return err == nil
	})
	until(t, "the hold is released", func() bool { // also by a call that was not answered
		err := s.Release(t.Context(), h)
		return err == nil || errors.Is(err, store.ErrLost)
	})
	until(t, "the waiter is notified", func() bool {
		select {
		case got := <-notifications:
			return got.ID == next.ID || got == store.Notification{}
		default:
			return false
		}
	})

	// A server that dies takes its share of the names with it. Notifications for the other names still arrive.
	for len(notifications) > 0 {
		<-notifications
	}
	masters[at()].Kill()
	reported("after the server died")
}

// stoodStill reports whether a call was given up because no server answered for seconds, as on a machine that stands still. A name
// that moves pauses nothing for as long.
func stoodStill(asked time.Time, err error) bool {
	return errors.Is(err, holdfast.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded) && time.Since(asked) > 4*time.Second
}

// lockerOn returns a locker on the store that renews often. The test closes it at its end.
func lockerOn(t testing.TB, s *Store, ttl time.Duration) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, RenewEvery: min(ttl/3, time.Second), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return l
}
