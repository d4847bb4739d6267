//go:build linux || darwin

package prove

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// A front is the address by which clients know a store. It leads to one server at a time.
type front struct {
	l     net.Listener
	tasks sync.WaitGroup

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{l: l, to: to, conns: map[net.Conn]bool{}}
	f.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.tasks.Go(func() { f.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.lead("")
		f.tasks.Wait()
	})
	return f
}

// lead ends all connections. New ones go to that server, or end if it is empty.
func (f *front) lead(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
	for c := range f.conns {
		abort(c)
	}
	clear(f.conns)
}

func (f *front) carry(client net.Conn) {
	defer client.Close()
	f.mu.Lock()
	to := f.to
	f.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	f.mu.Lock()
	if f.to != to {
		f.mu.Unlock()
		return
	}
	f.conns[client], f.conns[server] = true, true
	f.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(server, client); server.Close() })
	both.Go(func() { io.Copy(client, server); client.Close() })
	both.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, client)
	delete(f.conns, server)
}

// A couple is a primary and its one replica, which follows it over a link of its own, and the front that leads to the
// primary.
type couple struct {
	t                *testing.T
	primary, replica *testserver.Server
	link             *testserver.Link // from the replica to the primary
	front            *front
	silent           time.Duration // how long the replica receives nothing at most
}

func newCouple(t *testing.T, start func(testing.TB, ...string) *testserver.Server) *couple {
	t.Helper()
	args := []string{"--repl-diskless-sync-delay", "0"}
	p := &couple{t: t, primary: start(t, args...), replica: start(t, args...), silent: 1200 * time.Millisecond}
	p.front = newFront(t, p.primary.Addr)
	p.follow()
	return p
}

// follow makes the replica follow the primary, and waits until it has all data.
func (p *couple) follow() {
	p.link = testserver.NewLink(p.t, p.primary.Addr)
	host, port, _ := net.SplitHostPort(p.link.Addr())
	tell(p.t, []*testserver.Server{p.replica}, "REPLICAOF", host, port)
	comes(p.t, "the replica follows", func() bool { return role(p.t, p.replica) == "replica" })
}

// replace keeps all data from the replica until a holder was upgraded, though the replica looks connected. Then the
// replica replaces the primary, which dies and restarts as its replica. So each grant that waits for the replica
// survives, and no other that was made meanwhile does.
func (p *couple) replace() (mend func()) {
	before := p.upgraded()
	p.link.Mute()
	for end := time.Now().Add(p.silent); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if slices.ContainsFunc(p.upgraded(), func(fence int64) bool { return !slices.Contains(before, fence) }) {
			time.Sleep(p.silent / 3) // the worst moment, once its owner was notified
			break
		}
	}
	p.primary.Kill()
	p.link.Cut() // what the primary has not replicated is lost
	tell(p.t, []*testserver.Server{p.replica}, "REPLICAOF", "NO", "ONE")
	p.primary, p.replica = p.replica, p.primary
	p.front.lead(p.primary.Addr)
	p.replica.Restart()
	p.follow()
	return func() {}
}

// upgraded are the upgrade tokens of the upgraded holds, as the primary lists them.
func (p *couple) upgraded() (upgradeTokens []int64) {
	s, err := redisstore.Open("redis://"+p.primary.Addr, nil)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	defer s.Close()
	for state, err := range s.List(context.Background(), "") {
		if err != nil {
			p.t.Error(err)
			return nil
		}
		for _, e := range state.Entries {
			if e.Weight == store.Full && e.UpgradeToken != 0 {
				upgradeTokens = append(upgradeTokens, e.UpgradeToken)
			}
		}
	}
	return upgradeTokens
}

// newest are servers whose WAIT counts only the writes of its own connection.
var newest = map[string]func(testing.TB, ...string) *testserver.Server{
	"Redis": testserver.Redis7, "Redis 8": testserver.Redis8, "Valkey 9": testserver.Valkey9,
}

// replaced are the options of a run on a couple that is replaced again and again. Most holds are upgraded, and all
// grants wait for the replica.
func (p *couple) replaced(seed uint64) *Options {
	// Connections are used in turn, so a connection that has not written is asked, too.
	o := options("redis://"+p.front.l.Addr().String()+"?replicas=1&read_timeout=300ms&pool_fifo=true&min_idle_conns=8", seed)
	o.Mode, o.Names, o.Processes, o.TTL, o.For = "upgrade", 6, 6, 3*time.Second, 12*time.Second
	o.Faults = []Fault{}
	o.Server = map[Fault]func() func(){failover: p.replace}
	o.Survives = []Fault{failover}
	return o
}

// If all replicas must confirm, a fail-over voids nothing. A holder whose upgrade was confirmed is alone, whichever
// server replaces the primary.
func TestConfirmedUpgradesSurviveEachFailOver(t *testing.T) {
	t.Parallel()
	for name, start := range newest {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newCouple(t, start).replaced(1)
			o.Stop = true
			r := proved(t, o)
			if r.Verdict.Figures.Faults[string(failover)] == 0 || r.Verdict.Figures.Changes == 0 {
				t.Errorf("got %v, %d changes of weight, want some of both", r.Verdict.Figures.Faults, r.Verdict.Figures.Changes)
			}
		})
	}
}

// A server without memory for new data still renews what is held: no lease is lost, however long it is full.
func TestNoLeaseIsLostToAFullServer(t *testing.T) {
	t.Parallel()
	for name, start := range newest {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := proved(t, fullNow(t, start, 1))
			losesNothing(t, r)
			if f := r.Verdict.Figures; f.Faults[string(full)] == 0 || f.Kept == 0 {
				t.Errorf("got %v, %d holds longer than a renewal", f.Faults, f.Kept)
			}
		})
	}
}

// fullNow are the options of a run on a server that is full again and again.
func fullNow(t *testing.T, start func(testing.TB, ...string) *testserver.Server, seed uint64) *Options {
	t.Helper()
	s := start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { rdb.Close() })
	most := func(bytes string) {
		if err := rdb.ConfigSet(context.Background(), "maxmemory", bytes).Err(); err != nil {
			t.Error(err)
		}
	}
	o := options("redis://"+s.Addr, seed)
	o.Mode, o.TTL, o.For, o.Faults = "upgrade", 2*time.Second, 10*time.Second, []Fault{}
	o.Server = map[Fault]func() func(){full: func() func() { most("1"); return func() { most("0") } }}
	return o
}

// losesNothing fails the test for each lease that was lost in the run.
func losesNothing(t *testing.T, r *Report) {
	t.Helper()
	if lost := lostWithoutStall(r.history); len(lost) > 0 {
		t.Errorf("got %d leases lost, want none:\n%s", len(lost), strings.Join(lost, "\n"))
	}
}

// lostWithoutStall are the leases that were to be renewed, and were lost though their process did not stall.
func lostWithoutStall(h *History) (all []string) {
	v := newView(h)
	for _, c := range v.claims {
		gone := min(c.lost, c.over)
		if !c.granted || c.raced || gone == never || v.life(c).stalled(gone-h.Run.TTL, gone) > h.Run.TTL/4 {
			continue
		}
		all = append(all, fmt.Sprintf("%s of %s at %v", c.who(c.token), c.name, gone))
	}
	return all
}
