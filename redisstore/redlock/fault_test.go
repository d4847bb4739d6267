package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// With two good nodes and one whose connections never complete, everything works, and no call stalls, as the dead node is dialed in the
// background only. Without it every operation needs both good nodes. So the test waits for them patiently: on a loaded machine either can be
// slow to answer.
func TestTwoGoodNodesAndADeadOneKeepEveryPromise(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	dead := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second): // a check dials the dead node itself, and waits this long
		case <-over:
		}
		return nil, net.ErrClosed
	}})
	t.Cleanup(func() {
		close(over)
		dead.Close()
	})
	clients := append(clientsOf(t, testserver.SharedRedises(t, 2)...), dead)
	var sent sentScripts
	storetest.Run(t, func(t *testing.T) store.Store {
		s := trusting(t, clients, nil)
		s.straggle = straggle // every operation needs both good nodes, so wait for them
		s.nodes[2].client.AddHook(&sent)
		return slowly(t, s)
	})
	if n := sent.Load(); n > 0 {
		t.Errorf("the dead node's client got %d operations, each of which would dial, want none", n)
	}
}

// sentScripts counts the operations that a client sends. Each is a script; the check of a node runs none.
type sentScripts struct{ atomic.Int32 }

func (c *sentScripts) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if cmd.Name() == "evalsha" {
			c.Add(1)
		}
	}
}

func (*sentScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *sentScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *sentScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func TestAFrozenNodeDelaysNoCallAndIsRejoined(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{Timeout: 10 * time.Second}) // the machine is loaded
	held := holdOnAll(t, s, mutex("held"))
	servers[1].Freeze()
	for i := range 30 {
		free(t, s, fmt.Sprint(i))
		if err := s.Renew(t.Context(), []store.Hold{held})[0].Err; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	servers[1].Thaw()
	until(t, "the frozen node is in use again", func() bool { return nodesUp(s) == 3 })
	direct := clientsOf(t, servers[1].Addr)[0]
	until(t, "the missed release is done there, too", func() bool {
		value, err := direct.Get(t.Context(), s.key("held")).Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(value) == headSize
	})
}

func TestTwoOfThreeNodesFrozenAreUnavailableAndLoseNothing(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	held := mustHold(t, s, mutex("held"))
	free(t, s, "x") // so that there is a newest token, and late requests are accepted
	idle(t, s)
	s.timeout = 1500 * time.Millisecond
	servers[0].Freeze()
	servers[2].Freeze()
	c := mutex("x")
	c.Try = true
	_, err := s.Ask(t.Context(), c)
	var of *NodeError
	if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
		t.Errorf("Ask: %v, want indeterminate", err)
	}
	until(t, "an error names a frozen node", func() bool {
		_, err := s.Ask(t.Context(), mutex("y"))
		return errors.As(err, &of) && (of.Node == servers[0].Addr || of.Node == servers[2].Addr)
	})
	if err := s.Renew(t.Context(), []store.Hold{held})[0].Err; !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
		t.Errorf("Renew: %v, want indeterminate", err)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "held", ID: me.NewID()}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("release without a majority: %v, want ErrUnavailable", err)
	}
	servers[0].Thaw()
	servers[2].Thaw()
	until(t, "the nodes are in use again", func() bool { return nodesUp(s) == 3 })
	until(t, "the hold is renewed", func() bool {
		err := s.Renew(t.Context(), []store.Hold{held})[0].Err
		if err != nil && store.Definite(err) {
			t.Fatalf("renew: %v", err)
		}
		return err == nil
	})
	until(t, "the indeterminate ask is withdrawn", func() bool {
		return len(listed(t, s, "x").Entries) == 0
	})
}

// A restarted node may have lost its votes: A holds the lock by nodes 1 and 2, node 2 restarts, and then B could get nodes 2 and 3.
func TestARestartedNodeGrantsNothingUntilItsGrantsExpired(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"restarted", "restarted with an old record", "wiped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			forgets(t, how, time.Minute, func(ask func() bool, since func() time.Duration) {
				for range 20 {
					if ask() && since() < time.Minute { // a slow machine may take that long
						t.Fatal("granted while another claim has the lock for a minute")
					}
					time.Sleep(20 * time.Millisecond) // the release has arrived by then
				}
			})
		})
		t.Run(how+", then granted", func(t *testing.T) {
			t.Parallel()
			const most = 2 * time.Second
			s := forgets(t, how, most, func(ask func() bool, since func() time.Duration) {
				until(t, "the claim is granted", ask)
				if d := since(); d < most {
					t.Errorf("granted %v after the other claim, want at least %v", d, most)
				}
			})
			until(t, "the node is in use again", func() bool { return nodesUp(s) == 3 })
		})
	}
}

// forgets puts a hold of the largest TTL on two nodes, and makes one of the two lose it. Then others tests two more clients, which have used
// the nodes before: ask asks for one of them in turn, and since returns how long ago the hold was asked for.
func forgets(t *testing.T, how string, most time.Duration, others func(ask func() bool, since func() time.Duration)) *Store {
	t.Helper()
	servers, s := nodes(t, 3, Options{MaxTTL: most})
	claim := mutex("x")
	claim.TTL, claim.PositionTTL, claim.Try = most, most, true // a position on the third node would block the others there
	third := trusting(t, clientsOf(t, servers[2].Addr), &Options{MaxTTL: most})
	defer third.Close()
	occupant := mustHold(t, third, claim)
	second := trusting(t, clientsOf(t, servers[0].Addr, servers[1].Addr, servers[2].Addr), &Options{MaxTTL: most})
	t.Cleanup(func() { second.Close() })
	allUp(t, second) // a client that first meets a wiped node closes it for all
	second.trusts = false

	var begun time.Time
	var held store.Answer
	claim.ID = me.NewID()
	until(t, "the first claim is granted, even on a slow machine", func() (granted bool) {
		begun = time.Now()
		var err error
		held, err = s.Ask(t.Context(), claim)
		return err == nil && held.Granted
	})
	idle(t, s) // an ask that arrived at the third node later would be granted there
	if err := third.Release(t.Context(), occupant); err != nil && !errors.Is(err, store.ErrLost) {
		t.Fatal(err)
	}
	direct := clientsOf(t, servers[1].Addr)[0]
	if how == "wiped" {
		if err := direct.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	} else {
		servers[1].Kill()
		servers[1].Restart()
	}
	if how == "restarted with an old record" { // its saved state has the record, and not the vote
		if err := direct.Set(t.Context(), s.record(), openRecord(s.maxTTL), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	stores := []*Store{s, second}
	ids := []store.ID{me.NewID(), me.NewID()} // with a shared id the larger number would count, and their clocks differ
	turn := 0
	others(func() bool {
		// The other client's release has arrived. Otherwise that claim alone would refuse this one.
		until(t, "the third node is free", func() bool { return len(listed(t, third, "x").Entries) == 0 })
		turn++
		claim.ID = ids[turn%2]
		a, err := stores[turn%2].Ask(t.Context(), claim)
		granted := err == nil && a.Granted
		if granted && a.Token <= held.Token {
			t.Errorf("got token %d after %d, want a larger one", a.Token, held.Token)
		}
		return granted
	}, func() time.Duration { return time.Since(begun) })
	return s
}

func TestTooFewGrantingNodesAreAnErrorWithTheSeconds(t *testing.T) {
	t.Parallel()
	var addrs []string
	for range 3 {
		addrs = append(addrs, testserver.Redis(t).Addr)
	}
	young, err := New(clientsOf(t, addrs...), &Options{Prefix: "young:", Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer young.Close()
	_, err = young.Ask(t.Context(), mutex("x"))
	if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) || !strings.Contains(err.Error(), "enough nodes may grant again in ") || !strings.Contains(err.Error(), addrs[0]) {
		t.Errorf("nodes that were just started: %v", err)
	}
	s, err := New(clientsOf(t, addrs...), &Options{MaxTTL: 2 * time.Second, Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := mutex("x")
	c.TTL, c.PositionTTL = 2*time.Second, 2*time.Second
	until(t, "the nodes grant", func() bool { a, err := s.Ask(t.Context(), c); return err == nil && a.Granted })

	// This is another client with another maximum.
	bad, err := New(clientsOf(t, addrs...), &Options{MaxTTL: 4 * time.Second, Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	if _, err := bad.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "2s") || !strings.Contains(err.Error(), "4s") {
		t.Errorf("another MaxTTL: %v, want ErrInvalid", err)
	}
	// Somebody who states that the nodes are fresh may use them at once.
	fresh := testserver.Redis(t).Addr
	if err := Trust(t.Context(), clientsOf(t, fresh), &Options{Timeout: longAnswer}); err != nil {
		t.Fatal(err)
	}
	s1, err := New(clientsOf(t, fresh), &Options{Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer s1.Close()
	free(t, s1, "x")
	if err := Trust(t.Context(), clientsOf(t, fresh, "127.0.0.1:1"), nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Trust of a node that is away: %v, want ErrUnavailable", err)
	}
}

func TestFlushedScriptsOfAHealthyNodeAreReloaded(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{MaxTTL: time.Second})
	time.Sleep(2100 * time.Millisecond) // by then they have been up for long enough
	c := mutex("x")
	c.TTL, c.PositionTTL = time.Second, time.Second
	for _, server := range servers {
		if err := clientsOf(t, server.Addr)[0].ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the claim is granted", func() bool { a, err := s.Ask(t.Context(), c); return err == nil && a.Granted })
}

func TestAMajorityOfErrorsIsThatErrorAndNotHeld(t *testing.T) {
	t.Parallel()
	open, closed := testserver.Redis(t), testserver.Redis(t, "--requirepass", "x")
	other := testserver.Redis(t, "--requirepass", "x")
	for name, addrs := range map[string][]string{"half of two": {open.Addr, closed.Addr}, "two of three": {open.Addr, closed.Addr, other.Addr}} {
		s := trusting(t, clientsOf(t, addrs...), apart())
		defer s.Close()
		alone := trusting(t, clientsOf(t, open.Addr), &Options{Prefix: s.prefix})
		defer alone.Close()
		mustHold(t, alone, mutex("x")) // the node that answers refuses
		for _, try := range []bool{true, false} {
			c := mutex("x")
			c.Try = try
			a, err := s.Ask(t.Context(), c)
			var of *NodeError
			if err == nil || !errors.As(err, &of) || !strings.Contains(err.Error(), closed.Addr) || !strings.Contains(err.Error(), "NOAUTH") {
				t.Errorf("%s: got %+v, %v, want the errors of the nodes", name, a, err)
			}
		}
	}
	all := trusting(t, clientsOf(t, closed.Addr, other.Addr), apart())
	defer all.Close()
	if _, err := all.Ask(t.Context(), mutex("x")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("all nodes deny: %v, want ErrDenied", err)
	}
}

// Versions of the server word this differently.
func TestARightThatAScriptLacksIsDenied(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{
		"Redis": testserver.Redis7, "Redis 8": testserver.Redis8, "Valkey 9": testserver.Valkey9,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientsOf(t, start(t).Addr)
			s := trusting(t, client, nil)
			defer s.Close()
			if err := client[0].Do(t.Context(), "ACL", "SETUSER", "default", "-mget").Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Ask(t.Context(), mutex("x")); !errors.Is(err, store.ErrDenied) {
				t.Errorf("without +mget: %v, want ErrDenied", err)
			}
		})
	}
}

func TestAGrantSlowerThanItsTTLIsReleased(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		servers, s := nodes(t, n, Options{Timeout: longAnswer})
		free(t, s, "x") // so that there is a newest token
		c := mutex("x")
		c.TTL, c.PositionTTL = 300*time.Millisecond, 300*time.Millisecond
		for _, server := range servers {
			server.Freeze()
		}
		asked := make(chan error)
		go func() {
			a, err := s.Ask(t.Context(), c)
			if err == nil && a.Granted {
				err = fmt.Errorf("granted: %+v", a)
			} else if !errors.Is(err, store.ErrUnavailable) {
				err = fmt.Errorf("%+v, %v, want ErrUnavailable", a, err)
			} else {
				err = nil
			}
			asked <- err
		}()
		flying(t, s)
		time.Sleep(500 * time.Millisecond)
		for _, server := range servers {
			server.Thaw()
		}
		if err := <-asked; err != nil {
			t.Errorf("%d nodes: %v", n, err)
		}
		until(t, "the hold is released", func() bool { return len(listed(t, s, "x").Entries) == 0 })
	}
}

func TestTwoClientsOfOneServerAreNotTwoNodes(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	_, port, _ := net.SplitHostPort(server.Addr)
	s := trusting(t, clientsOf(t, server.Addr, "localhost:"+port), apart())
	defer s.Close()
	if _, err := s.Ask(t.Context(), mutex("x")); !errors.Is(err, store.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "same server") {
		t.Errorf("got %v, want an error that the servers are one", err)
	}
}

func TestOfTwoClientsOfOneServerThatJoinAtOnceOneIsRefused(t *testing.T) {
	t.Parallel()
	clients := clientsOf(t, "127.0.0.1:1", "127.0.0.1:2") // never contacted
	for round := range 10_000 {
		s, err := newStore(clients, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error)
		for _, n := range s.nodes {
			go func() { errs <- s.sameAs(n, "one") }()
		}
		if first, second := <-errs, <-errs; (first == nil) == (second == nil) {
			t.Fatalf("round %d: got %v and %v, want one refusal", round, first, second)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAVoteThatANodeHasLostIsRestoredByARenewal(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	held := holdOnAll(t, s, mutex("x"))
	time.Sleep(2 * margin) // its number is behind the nodes' clocks by then
	for i, server := range servers {
		direct := clientsOf(t, server.Addr)[0]
		if err := direct.Del(t.Context(), s.key("x")).Err(); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("node %d has the vote again", i), func() bool {
			if err := s.Renew(t.Context(), []store.Hold{held})[0].Err; err != nil {
				t.Fatalf("renew: %v", err)
			}
			return votedFor(t, s.nodes[i], held)
		})
	}
	if err := s.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	free(t, s, "x")
}
