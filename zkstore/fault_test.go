package zkstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// lockerOn is a process of its own on the members.
func lockerOn(t *testing.T, ttl time.Duration, members ...string) *holdfast.Locker {
	t.Helper()
	return lockerOf(t, ttl, storeOn(t, nil, members...))
}

func lockerOf(t *testing.T, ttl time.Duration, s *Store) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A hold lasts, and waiters are admitted, whatever happens to one member of three. It is killed, stops for longer than
// an election, or becomes unreachable; it may be the leader, or the one that the holder is connected to.
func TestALostMemberIsSurvived(t *testing.T) {
	t.Parallel()
	members := testserver.ZooKeeperEnsemble(t, 3)
	leader := testserver.ZooKeeperLeader(t, members)
	members[0], members[leader] = members[leader], members[0] // the holder connects to this one first
	var links []*testserver.Link
	var addrs []string
	for _, m := range members {
		links = append(links, testserver.NewLink(t, m.Addr))
		addrs = append(addrs, links[len(links)-1].Addr())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const ttl = time.Minute
	s := storeOn(t, nil, addrs...)
	here, there := lockerOf(t, ttl, s), lockerOn(t, ttl, addrs...)
	kept := lockWhenItCan(t, ctx, here, "kept")
	leads := func() int { return testserver.ZooKeeperLeader(t, members) }
	ours := func() int { return slices.Index(addrs, connectedTo(s)) }
	for _, c := range []struct {
		what   string
		which  func() int
		strike func(*testserver.Server, *testserver.Link)
		mend   func(*testserver.Server, *testserver.Link)
	}{
		{"the leader, which is the holder's, is frozen", ours, freeze, thaw},
		{"the holder's is cut off", ours, cut, mend},
		{"the holder's is killed", ours, kill, restart},
		{"the leader is killed", leads, kill, restart},
	} {
		began := time.Now()
		held := lockWhenItCan(t, ctx, here, "handed")
		var next *holdfast.Lease
		var waiting sync.WaitGroup
		waiting.Go(func() { next = lockWhenItCan(t, ctx, there, "handed") })
		waitsFor(t, here, "handed")
		i := c.which()
		c.strike(members[i], links[i])
		released(t, held)
		if waiting.Wait(); t.Failed() {
			t.FailNow()
		}
		if next.Token() <= held.Token() {
			t.Errorf("%s: got token %d after %d, want a larger one", c.what, next.Token(), held.Token())
		}
		until(t, "the hold kept throughout is renewed", func() bool {
			err := kept.Renew(ctx, ttl)
			if errors.Is(err, holdfast.ErrLost) {
				t.Fatalf("%s: %v", c.what, err)
			}
			return err == nil
		})
		released(t, next)
		c.mend(members[i], links[i])
		t.Logf("%s: %v", c.what, time.Since(began).Round(time.Millisecond))
	}
	released(t, kept)
	withoutTheOthers(t, members)
}

// withoutTheOthers ends the ensemble: all but one member freeze. A hold that counts from an answered write is lost in
// time, though the remaining member still answers reads.
func withoutTheOthers(t *testing.T, members []*testserver.Server) {
	alone := (testserver.ZooKeeperLeader(t, members) + 1) % len(members)
	s := closing(t, storeOn(t, apart(), members[alone].Addr))
	c := mutex("a")
	c.TTL = 4 * time.Second
	var hold store.Hold
	until(t, "a quorum exists again", func() bool {
		a, err := s.Ask(t.Context(), c)
		hold = store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
		if errors.Is(err, store.ErrLost) { // its session had ended before the answer
			c.ID = me.NewID()
		}
		return err == nil && a.Granted
	})
	for i, m := range members {
		if i != alone {
			m.Freeze()
			defer m.Thaw()
		}
	}
	frozen := store.Now()
	until(t, "the hold is lost", func() bool {
		r := s.Renew(t.Context(), []store.Hold{hold})[0]
		if r.From > frozen {
			t.Fatalf("a hold counts from %v after the end of the quorum", r.From.Sub(frozen))
		}
		return errors.Is(r.Err, store.ErrLost)
	})
}

func cut(_ *testserver.Server, l *testserver.Link)     { l.Cut() }
func mend(_ *testserver.Server, l *testserver.Link)    { l.Mend() }
func freeze(s *testserver.Server, _ *testserver.Link)  { s.Freeze() }
func thaw(s *testserver.Server, _ *testserver.Link)    { s.Thaw() }
func kill(s *testserver.Server, _ *testserver.Link)    { s.Kill() }
func restart(s *testserver.Server, _ *testserver.Link) { s.Restart() }

// lockWhenItCan takes the name however long there is no leader, or the machine stalls. If it cannot, it fails the test
// and ends its goroutine.
func lockWhenItCan(t *testing.T, ctx context.Context, l *holdfast.Locker, name string) *holdfast.Lease {
	for {
		lease, err := l.Mutex(name).Lock(ctx)
		if err == nil {
			return lease
		}
		if !errors.Is(err, holdfast.ErrUnavailable) || ctx.Err() != nil {
			t.Error(err)
			runtime.Goexit()
		}
	}
}

// released gives the hold back. While there is no leader that may get no answer. It is done all the same, soon after
// there is a leader.
func released(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(); err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
		t.Fatal(err)
	}
}

// connectedTo is the member that a session of the store is connected to.
func connectedTo(s *Store) string {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	for _, o := range s.backend.own {
		return o.conn.Server()
	}
	return ""
}

// waitsFor returns once a waiter is in the queue of the name.
func waitsFor(t *testing.T, l *holdfast.Locker, name string) {
	t.Helper()
	until(t, "a claim waits for "+name, func() bool {
		_, err := l.Mutex(name).TryLock(t.Context())
		var held *holdfast.HeldError
		return errors.As(err, &held) && held.Waiting > 0 || errors.Is(err, holdfast.ErrDeadlock)
	})
}

// A holder that is cut off loses its lease before another is granted the name. So does one whose link falls silent
// without being cut.
func TestACutOffHolderLosesBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*testserver.Link){"cut": (*testserver.Link).Cut, "silent": (*testserver.Link).Hush} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, o := testserver.SharedZooKeeper(t), apart()
			link := testserver.NewLink(t, addr)
			far, near := lockerOf(t, 3*time.Second, storeOn(t, o, link.Addr())), lockerOf(t, time.Minute, storeOn(t, o, addr)) // the next holder keeps the name until it gives it back
			lease := lockWhenItCan(t, t.Context(), far, "a")
			strike(link)
			next := lockWhenItCan(t, t.Context(), near, "a")
			if lease.Valid() {
				t.Error("the next claim is granted, but the first lease is still valid")
			}
			if next.Token() <= lease.Token() {
				t.Errorf("got token %d after %d, want a larger one", next.Token(), lease.Token())
			}
			released(t, next)
			link.Mend()
		})
	}
}

// A connection that breaks and comes back keeps holds, queue positions and watches.
func TestABrokenConnectionKeepsHoldsAndPositions(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	link := testserver.NewLink(t, addr)
	here := closing(t, storeOn(t, o, addr))
	there := closing(t, storeOn(t, o, link.Addr()))
	var notifications atomic.Int32
	if err := there.Watch(t.Context(), me, func(store.Notification) { notifications.Add(1) }); err != nil {
		t.Fatal(err)
	}
	kept := mustHold(t, there, mutex("kept"))
	hold := mustHold(t, here, mutex("a"))
	waits := mutex("a")
	if mustAsk(t, there, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	link.Cut()
	if err := here.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	link.Mend()
	until(t, "the waiter is notified", func() bool { return notifications.Load() > 0 })
	until(t, "the ask is answered on a new connection", func() bool {
		a, err := there.Ask(t.Context(), waits)
		if err == nil && !a.Granted || err != nil && store.Definite(err) {
			t.Fatalf("notified, but not granted: %+v, %v", a, err)
		}
		return err == nil
	})
	if r := there.Renew(t.Context(), []store.Hold{kept})[0]; r.Err != nil {
		t.Errorf("the hold kept throughout: %v", r.Err)
	}
}

// Many claims are asked for while the server stands still, and are given up. Their names are soon free, whatever
// arrives later, though their process still holds another lock.
func TestLateAsksAreRemoved(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	link := testserver.NewLink(t, s.Addr)
	a, b := closing(t, storeOn(t, nil, link.Addr())), closing(t, storeOn(t, nil, s.Addr))
	warm := mustHold(t, patient{a}, mutex("warm"))
	mustHold(t, patient{b}, storetest.Mutex(store.NewProcess(), "beside"))
	s.Freeze()
	defer s.Thaw()
	const many = 40
	late := make([]store.Claim, many)
	var asking sync.WaitGroup
	for i := range late {
		late[i] = mutex(fmt.Sprint("late ", i))
		asking.Go(func() {
			if err := link.Sent(t.Context(), func(ctx context.Context) error { _, err := a.Ask(ctx, late[i]); return err }); err == nil || store.Definite(err) {
				t.Errorf("ask of a frozen server: %v, want it indeterminate", err)
			}
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := a.Release(short, store.Hold{Name: late[i].Name, ID: late[i].ID}); err == nil {
				t.Error("the frozen server answered")
			}
		})
	}
	asking.Wait()
	s.Thaw()
	for _, c := range late {
		until(t, "the name is free: "+c.Name, func() bool {
			r, err := b.Ask(t.Context(), mutexTry(c.Name))
			return err == nil && r.Granted
		})
		until(t, "the other hold is alone: "+c.Name, func() bool {
			for st, err := range b.List(t.Context(), c.Name) {
				return err == nil && len(st.Entries) == 1 && st.Entries[0].ID != c.ID
			}
			return false
		})
	}
	until(t, "the other hold is renewed", func() bool {
		r := a.Renew(t.Context(), []store.Hold{warm})[0]
		if r.Err != nil && store.Definite(r.Err) {
			t.Fatalf("the other hold: %v", r.Err)
		}
		return r.Err == nil
	})
}

// A release that was not answered is done as soon as it can be. The hold must not last for the rest of its TTL in a
// process that lives.
func TestAnUnansweredReleaseIsStillDone(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	link := testserver.NewLink(t, addr)
	s, other := closing(t, storeOn(t, o, link.Addr())), closing(t, storeOn(t, o, addr))
	hold := mustHold(t, s, mutex("a"))
	link.Hush()
	if err := link.Sent(t.Context(), func(ctx context.Context) error { return s.Release(ctx, hold) }); err == nil || store.Definite(err) {
		t.Fatalf("release on a silent link: %v, want it indeterminate", err)
	}
	if mustAsk(t, other, mutexTry("a")).Granted {
		t.Fatal("the release was done") // the test would show nothing
	}
	link.Cut()
	link.Mend()
	until(t, "the name is free", func() bool { return mustAsk(t, other, mutexTry("a")).Granted })
}

func mutexTry(name string) store.Claim {
	c := mutex(name)
	c.Try = true
	return c
}

// The driver would wait several TTLs for a member that accepts connections and does not answer. We do not wait as long.
func TestAHungMemberIsSkipped(t *testing.T) {
	t.Parallel()
	s, in, used, other := onTwoLinks(t)
	other.Hush()
	used.Cut() // to the other link, which hangs, and back
	used.Mend()
	renewedAgain(t, s, in)
	other.Mend()
}

// onTwoLinks is a store that reaches its server by two links, and one of its sessions, which lasts for sixteen seconds.
func onTwoLinks(t *testing.T) (s *Store, in session.ID, used, other *testserver.Link) {
	addr := testserver.SharedZooKeeper(t)
	used, other = testserver.NewLink(t, addr), testserver.NewLink(t, addr)
	s = closing(t, storeOn(t, apart(), used.Addr(), other.Addr()))
	c := mutex("a")
	c.TTL = 24 * time.Second
	mustHold(t, s, c)
	if connectedTo(s) == other.Addr() {
		used, other = other, used
	}
	return s, s.Sessions()[0], used, other
}

// renewedAgain returns once a renewal that was sent from now on was answered. Another member must renew the session, or
// it ends, however patient the test is: what it keeps would then be kept in another session.
func renewedAgain(t *testing.T, s *Store, in session.ID) {
	t.Helper()
	for now := store.Now(); ; time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := s.backend.Renew(ctx, in)
		cancel()
		switch {
		case errors.Is(err, store.ErrLost):
			t.Fatalf("the session ended %v later", store.Now().Sub(now))
		case err == nil:
			return
		}
	}
}

// A member that suddenly falls silent is left for another in time.
func TestASilentMemberIsLeftBeforeTheSessionExpires(t *testing.T) {
	t.Parallel()
	s, in, used, _ := onTwoLinks(t)
	used.Hush()
	renewedAgain(t, s, in)
	used.Mend()
}

// Only a write proves that a session lives. A member that the others have left answers reads for a while, and those
// prove nothing.
func TestASessionIsProvedByAWrite(t *testing.T) {
	t.Parallel()
	b := backendOn(t, apart(), testserver.SharedZooKeeper(t))
	defer b.Close()
	id := session.NewID()
	if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	for written := range int32(3) {
		_, stat, err := connOf(t, b.servers[0]).Get(b.renewalNode(id))
		if err != nil || stat.Version != written {
			t.Fatalf("after %d renewals: got version %d: %v", written, stat.Version, err)
		}
		if _, err := b.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
