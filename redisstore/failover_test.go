package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

// holding is the work that goes on while a server is replaced: names that are held, and a waiter for the first of them.
type holding struct {
	t      *testing.T
	ttl    time.Duration
	leases []*holdfast.Lease
	waiter chan *holdfast.Lease
}

func hold(t *testing.T, here, there *holdfast.Locker, ttl time.Duration, names ...string) *holding {
	t.Helper()
	h := &holding{t: t, ttl: ttl, waiter: make(chan *holdfast.Lease, 1)}
	for _, n := range names {
		l, err := here.Mutex(n).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.leases = append(h.leases, l)
	}
	go func() {
		for begun := time.Now(); ; {
			l, err := there.Mutex(names[0]).Lock(t.Context())
			switch {
			case err == nil:
				h.waiter <- l
				return
			case !errors.Is(err, holdfast.ErrUnavailable) || time.Since(begun) > patience: // a fail-over may last longer than a call keeps trying
				t.Error("the waiter:", err)
				close(h.waiter)
				return
			}
		}
	}()
	return h
}

// outlive waits until each lease was renewed after at, and then releases all of them: the waiter is granted, with a larger token.
func (h *holding) outlive(at time.Time) {
	h.t.Helper()
	until(h.t, "the new server has renewed all", func() bool {
		for _, l := range h.leases {
			if !l.Valid() {
				h.t.Fatalf("%s was lost", l.Name())
			}
			if !l.Deadline().After(at.Add(h.ttl)) {
				return false
			}
		}
		return true
	})
	select {
	case <-h.waiter:
		h.t.Fatal("the waiter is granted while the lock is held")
	default:
	}
	for _, l := range h.leases {
		if err := l.Release(); err != nil {
			h.t.Errorf("release of %s: %v", l.Name(), err)
		}
	}
	select {
	case l, ok := <-h.waiter:
		if !ok {
			return
		}
		if l.Token() <= h.leases[0].Token() {
			h.t.Errorf("the waiter has token %d after %d, want a larger one", l.Token(), h.leases[0].Token())
		}
		if err := l.Release(); err != nil {
			h.t.Error(err)
		}
	case <-time.After(patience):
		h.t.Fatal("the waiter is not granted")
	}
}

// queued waits until there is a waiter for the name.
func queued(t testing.TB, s *Store, name string) {
	t.Helper()
	until(t, "a claim waits", func() bool { return len(state(t, s, name).Entries) == 2 })
}

func TestAClusterFailOverLosesNoReplicatedLease(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	masters, replicas := testserver.RedisCalmClusterWithReplicas(t, 3)
	client := clusterClient(t, masters)
	eyes := storeOn(t, client, nil)
	defer eyes.Close()
	here := lockerOn(t, storeOn(t, clusterClient(t, masters), nil), ttl)
	there := lockerOn(t, storeOn(t, clusterClient(t, masters), nil), ttl)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("name ", i))
	}
	h := hold(t, here, there, ttl, names...)
	queued(t, eyes, names[0])
	node, err := client.MasterForKey(t.Context(), eyes.key(names[0]))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range masters {
		if m.Addr == node.Options().Addr {
			follows(t, m, replicas[i])
			testserver.TakeOverSoon(masters...)
			testserver.TakeOverSoon(replicas...)
			m.Kill()
			h.outlive(time.Now())
			if role, err := clientOf(t, replicas[i].Addr).Do(t.Context(), "ROLE").Slice(); err != nil || role[0] != "master" {
				t.Errorf("got role %v of the replica, %v", role, err)
			}
			return
		}
	}
	t.Fatalf("no server has the address %s", node.Options().Addr)
}

// A client that may read from replicas still sends them nothing: a replica may not have received who holds a name.
func TestNoReplicaIsAskedAtAnyRoutingOfTheClient(t *testing.T) {
	t.Parallel()
	masters, replicas := testserver.RedisCalmClusterWithReplicas(t, 3)
	client := clusterClient(t, masters[:1], func(o *redis.ClusterOptions) { o.ReadOnly, o.RouteRandomly = true, true })
	s := storeOn(t, client, nil)
	defer s.Close()
	for i := range 50 {
		c := mutex(fmt.Sprint("name ", i))
		h := mustHold(t, s, c)
		if a, err := s.Poll(t.Context(), mutex(c.Name)); err != nil || a.Granted {
			t.Errorf("Poll: got %+v, %v", a, err)
		}
		if r := s.Renew(t.Context(), []store.Hold{h, h}); r[0].Err != nil || r[1].Err != nil {
			t.Errorf("Renew: %v, %v", r[0].Err, r[1].Err)
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
	}
	asked := 0
	for _, m := range masters {
		asked += runs(t, clientOf(t, m.Addr))
	}
	for _, r := range replicas {
		if n := runs(t, clientOf(t, r.Addr)); n > 0 {
			t.Errorf("a replica ran %d scripts, want none", n)
		}
	}
	if asked < 250 {
		t.Errorf("the masters ran %d scripts, want 250 or more", asked)
	}
}

// sentinels starts a primary, a replica and three patient Sentinels, and returns the URL that leads to them.
func sentinels(t testing.TB) (c *couple, url string, watching []*testserver.Server) {
	t.Helper()
	c = newCouple(t)
	watching = testserver.RedisCalmSentinels(t, c.primary, 3)
	var hosts []string
	for _, s := range watching {
		hosts = append(hosts, s.Addr)
	}
	return c, "redis+sentinel://" + strings.Join(hosts, ",") + "/primary", watching
}

// openAt opens the URL. Unless the URL sets a read timeout, it waits long enough for a machine that stalls.
func openAt(t testing.TB, url string) *Store {
	t.Helper()
	if !strings.Contains(url, "read_timeout=") {
		sep := "?"
		if strings.Contains(url, "?") {
			sep = "&"
		}
		url += sep + "read_timeout=10s"
	}
	s, err := Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheContractHoldsBehindSentinelWithReplicas(t *testing.T) {
	t.Parallel()
	_, url, _ := sentinels(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		s := openAt(t, url+"?replicas=1&read_timeout=1m")
		s.confirmTime = 10 * time.Second // the suite asks once, and the replica may be busy
		return s
	})
}

// The primary is killed while there are holders and a waiter. Later it returns as a replica that refuses to write.
func TestASentinelFailOverLosesNoReplicatedLease(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	c, url, watching := sentinels(t)
	eyes := openAt(t, url)
	defer eyes.Close()
	here, there := lockerOn(t, openAt(t, url), ttl), lockerOn(t, openAt(t, url), ttl)
	h := hold(t, here, there, ttl, "a", "b", "c")
	queued(t, eyes, "a")
	follows(t, c.primary, c.replica)
	testserver.TakeOverSoon(watching...)
	c.primary.Kill()
	h.outlive(time.Now())
	if role, err := clientOf(t, c.replica.Addr).Do(t.Context(), "ROLE").Slice(); err != nil || role[0] != "master" {
		t.Errorf("got role %v of the replica, %v", role, err)
	}

	c.primary.Restart()
	old := clientOf(t, c.primary.Addr)
	until(t, "the old primary follows the new one", func() bool {
		role, err := old.Do(t.Context(), "ROLE").Slice()
		return err == nil && role[0] == "slave"
	})
	late := storeOn(t, old, nil)
	defer late.Close()
	if _, err := late.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("Ask of the old primary: %v, want READONLY", err)
	}
}

// The Sentinel that the client used before hangs, and the primary is killed: the client asks another Sentinel in time.
func TestAHungSentinelDoesNotHideTheNewPrimary(t *testing.T) {
	t.Parallel()
	const ttl = 90 * time.Second
	c, url, watching := sentinels(t)
	l := lockerOn(t, openAt(t, url+"?read_timeout=2s"), ttl) // bounds the wait for the Sentinel that hangs
	lease, err := l.Mutex("n").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	follows(t, c.primary, c.replica)
	// go-redis subscribes at the Sentinel that it asks.
	asked := 0
	var clients []*redis.Client
	for _, s := range watching {
		clients = append(clients, clientOf(t, s.Addr))
	}
	until(t, "the client listens to a Sentinel", func() bool {
		for i, c := range clients {
			info, err := c.Info(t.Context(), "stats").Result()
			if err == nil && redisinfo.Field(info, "pubsub_channels") != "0" && strings.Contains(c.ClientList(t.Context()).Val(), "sub=2") {
				asked = i
				return true
			}
		}
		return false
	})
	testserver.TakeOverSoon(watching...)
	watching[asked].Freeze()
	c.primary.Kill()
	killed := time.Now()
	until(t, "the new primary renews the lease", func() bool {
		if !lease.Valid() {
			t.Fatal("the lease was lost")
		}
		return lease.Renew(t.Context(), ttl) == nil
	})
	t.Logf("after %v", time.Since(killed).Round(time.Millisecond))
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	watching[asked].Thaw()
}

// An operator orders the primary and the replica to swap roles. All servers stay alive, and connections to the old primary stay open.
func TestLocksAndNotificationsSurviveAManualFailOver(t *testing.T) {
	t.Parallel()
	c, url, watching := sentinels(t)
	s := openAt(t, url)
	defer s.Close()
	s.pingEvery = 200 * time.Millisecond
	notifications := make(chan store.Notification, 1000)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	h := mustHold(t, s, mutex("n"))
	w := mutex("n")
	mustAsk(t, s, w)
	follows(t, c.primary, c.replica)
	sentinel, replica := clientOf(t, watching[0].Addr), clientOf(t, c.replica.Addr)
	tell := func(args ...any) error { return sentinel.Do(t.Context(), args...).Err() }
	if err := tell("SENTINEL", "SET", "primary", "failover-timeout", time.Minute.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica is the primary", func() bool {
		// If a busy machine made it abandon the order, the test repeats the order, and only then: a second order would undo the first.
		is, err := sentinel.Do(t.Context(), "SENTINEL", "MASTER", "primary").Result()
		if err != nil {
			t.Fatal(err)
		}
		role, err := replica.Do(t.Context(), "ROLE").Slice()
		if err == nil && role[0] != "master" && !strings.Contains(fmt.Sprint(is), "failover_in_progress") {
			_ = tell("SENTINEL", "FAILOVER", "primary") // it may still refuse the order
		}
		return err == nil && role[0] == "master"
	})
	until(t, "the new primary renews the hold", func() bool {
		r := s.Renew(t.Context(), []store.Hold{h})[0]
		if errors.Is(r.Err, store.ErrLost) {
			t.Fatal(r.Err)
		}
		return r.Err == nil && runs(t, replica) > 0
	})
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	woken := false
	until(t, "the waiter is notified", func() bool {
		select {
		case got := <-notifications:
			woken = got == store.Notification{} || got.ID == w.ID
		default:
		}
		return woken
	})
	if a := mustAsk(t, s, w); !a.Granted || a.Token <= h.Token {
		t.Errorf("the waiter: got %+v", a)
	}
}

// The mailbox is still connected to a primary that was cut off, and moves to the primary that replaced it.
func TestAMailboxAtACutOffPrimaryIsReopenedAtTheNewOne(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	// There are two paths to the servers: the path for messages follows the fail-over, and the connection that was open stays.
	front := newProxy(t, c.primary.Addr)
	s := storeOn(t, clientOf(t, front.addr), nil)
	defer s.Close()
	s.pingEvery = 3 * time.Second // a ping is answered within that: the mailbox must not reopen just because an answer is late
	mustHold(t, s, mutex("before"))
	notifications := make(chan store.Notification, 1000)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	c.cut(t)
	if err := clientOf(t, c.replica.Addr).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	front.lead(c.replica.Addr)
	if n, err := clientOf(t, c.primary.Addr).Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Int(); err != nil || n == 0 {
		t.Fatalf("CLIENT KILL: %d, %v", n, err)
	}
	select {
	case h := <-notifications:
		if h != (store.Notification{}) {
			t.Errorf("got notification %+v, want the zero notification", h)
		}
	case <-time.After(patience):
		t.Fatal("got no notification")
	}
	names := 0
	until(t, "notifications arrive", func() bool {
		names++ // a new name each time, as the mailbox may be reopened in between where the machine stalls
		h, w := mustHold(t, s, mutex(fmt.Sprint("n", names))), mutex(fmt.Sprint("n", names))
		mustAsk(t, s, w)
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-notifications:
			return got.ID == w.ID
		case <-time.After(patience):
			return false
		}
	})
}

// A claim that waits while no server answers is indeterminate in time, and is granted later.
func TestWhileNoPrimaryAnswersATryIsIndeterminate(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	sentinel := testserver.RedisCalmSentinels(t, c.primary, 1)[0]
	l := lockerOn(t, openAt(t, "redis+sentinel://"+sentinel.Addr+"/primary"), 2*time.Second)
	sentinel.Kill() // so no replica takes over
	c.primary.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := l.Mutex("n").TryLock(ctx); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("TryLock: %v, want ErrUnavailable", err)
	}
	c.primary.Restart()
	sentinel.Restart()
	until(t, "the primary answers again", func() bool {
		lease, err := l.Mutex("n").TryLock(ctx)
		return err == nil && lease.Release() == nil
	})
}
