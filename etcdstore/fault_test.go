package etcdstore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// lockerOn is a process with a client of its own on the members.
func lockerOn(t *testing.T, ttl time.Duration, addrs ...string) *holdfast.Locker {
	t.Helper()
	s := storeOn(t, clientWith(t, clientv3.Config{Endpoints: addrs, DialKeepAliveTimeout: 3 * time.Second}), nil)
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// locked is a lease of the name. It is asked for again where the machine has stood still for longer than an engine goes
// on asking.
func locked(ctx context.Context, l *holdfast.Locker, name string) (*holdfast.Lease, error) {
	for {
		lease, err := l.Mutex(name).Lock(ctx)
		if !errors.Is(err, holdfast.ErrUnavailable) || ctx.Err() != nil {
			return lease, err
		}
	}
}

// released gives the hold back. While there is no leader that may time out, and is then indeterminate; it is done all
// the same.
func released(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(); err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
		t.Fatal(err)
	}
}

// A hold lasts, and waiters are admitted, whatever happens to one member of three. It is killed, stops for longer than
// an election, is cut off from us, or comes back, and it may be the leader.
func TestALostMemberIsSurvived(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*testserver.Server, *testserver.Link) func(){
		"killed":  func(s *testserver.Server, _ *testserver.Link) func() { s.Kill(); return s.Restart },
		"frozen":  func(s *testserver.Server, _ *testserver.Link) func() { s.Freeze(); return s.Thaw },
		"cut off": func(_ *testserver.Server, l *testserver.Link) func() { l.Cut(); return l.Mend },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := testserver.EtcdCluster(t, 3)
			var links []*testserver.Link
			var addrs []string
			for i, m := range members {
				links = append(links, testserver.NewLink(t, m.Addr))
				addrs = append(addrs, links[i].Addr())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			here, there := lockerOn(t, 20*time.Second, addrs...), lockerOn(t, 20*time.Second, addrs...)
			kept, err := locked(ctx, here, "kept")
			if err != nil {
				t.Fatal(err)
			}
			for _, leader := range []bool{true, false} {
				held, err := locked(ctx, here, "handed")
				if err != nil {
					t.Fatal(err)
				}
				var next *holdfast.Lease
				var waiting sync.WaitGroup
				waiting.Go(func() {
					var err error
					if next, err = locked(ctx, there, "handed"); err != nil {
						t.Error(err)
					}
				})
				waitsFor(t, here, "handed")
				i := testserver.EtcdLeader(t, members)
				if !leader {
					i = (i + 1) % len(members)
				}
				mend := strike(members[i], links[i])
				released(t, held)
				if waiting.Wait(); t.Failed() {
					t.FailNow()
				}
				if next.Token() <= held.Token() {
					t.Errorf("got token %d after %d, want a larger one", next.Token(), held.Token())
				}
				until(t, "the hold kept throughout is renewed", func() bool {
					err := kept.Renew(ctx, 20*time.Second)
					if err != nil && !errors.Is(err, holdfast.ErrUnavailable) || !kept.Valid() {
						t.Fatalf("the hold kept throughout: %v, valid %v", err, kept.Valid())
					}
					return err == nil
				})
				released(t, next)
				mend()
			}
			released(t, kept)
		})
	}
}

// The client uses the members in turn, and a frozen member stays connected for at least ten seconds. Each renewal must
// be answered all the same, as a TTL may be shorter than that.
func TestARenewalGoesToAnotherMemberWhereOneDoesNotAnswer(t *testing.T) {
	t.Parallel()
	members := testserver.EtcdCluster(t, 3)
	var addrs []string
	for _, m := range members {
		addrs = append(addrs, m.Addr)
	}
	b := newBackend(clientWith(t, clientv3.Config{Endpoints: addrs}), DefaultPrefix, store.TokenRetention)
	t.Cleanup(func() { b.Close() })
	id := session.NewID()
	until(t, "a session has begun", func() bool {
		id = session.NewID()
		_, err := b.Begin(t.Context(), id, time.Hour)
		return err == nil
	})
	for range 2 * len(members) { // the client is connected to each
		until(t, "the session is renewed", func() bool {
			_, err := b.Renew(t.Context(), id)
			return err == nil
		})
	}
	at := (testserver.EtcdLeader(t, members) + 1) % len(members)
	members[at].Freeze()
	defer members[at].Thaw()
	others := slices.Delete(slices.Clone(members), at, at+1)
	leader := testserver.EtcdLeader(t, others)
	for answered := 0; answered < 2*len(members); {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := b.Renew(ctx, id)
		if cancel(); err == nil {
			answered++
			continue
		}
		was := leader
		if leader = testserver.EtcdLeader(t, others); leader == was { // else the leader has changed before, as the machine stalled
			t.Fatal(err)
		}
	}
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

// A holder that is cut off from the cluster loses its lease before another is granted the name.
func TestACutOffHolderLosesBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	s := testserver.Etcd(t)
	link := testserver.NewLink(t, s.Addr)
	const ttl = 6 * time.Second // long enough that a busy machine does not lose it before
	far, near := lockerOn(t, ttl, link.Addr()), lockerOn(t, ttl, s.Addr)
	lease, err := locked(t.Context(), far, "a")
	if err != nil {
		t.Fatal(err)
	}
	link.Cut()
	next, err := locked(t.Context(), near, "a")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Valid() {
		t.Error("the next claim is granted, but the first lease is still valid")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("got token %d after %d, want a larger one", next.Token(), lease.Token())
	}
}

// A waiter goes on waiting through a compaction and through the loss of its watch.
func TestAWaiterSurvivesCompactionAndALostWatch(t *testing.T) {
	t.Parallel()
	s := testserver.Etcd(t)
	link := testserver.NewLink(t, s.Addr)
	direct := clientOf(t, s.Addr)
	here := closing(t, storeOn(t, direct, nil))
	there := closing(t, storeOn(t, clientOf(t, link.Addr()), nil))
	var notifications atomic.Int32
	if err := there.Watch(t.Context(), me, func(store.Notification) { notifications.Add(1) }); err != nil {
		t.Fatal(err)
	}
	hold := mustHold(t, here, mutex("a"))
	waits := mutex("a")
	if mustAsk(t, there, waits).Granted {
		t.Fatal("two claims hold the lock")
	}
	link.Cut()
	var rev int64
	for range 20 {
		r, err := direct.Put(t.Context(), "other", "x")
		if err != nil {
			t.Fatal(err)
		}
		rev = r.Header.Revision
	}
	if _, err := direct.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
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
}

// A claim that was never answered and was given up is soon gone, even if it reaches etcd later.
func TestALateAskIsRemoved(t *testing.T) {
	t.Parallel()
	s := testserver.Etcd(t)
	link := testserver.NewLink(t, s.Addr)
	a := closing(t, storeOn(t, clientOf(t, link.Addr()), nil))
	b := closing(t, storeOn(t, clientOf(t, s.Addr), nil))
	mustHold(t, a, mutex("warm")) // the session and the floor exist
	s.Freeze()
	late := mutex("a")
	if err := link.Sent(t.Context(), func(ctx context.Context) error { _, err := a.Ask(ctx, late); return err }); err == nil || store.Definite(err) {
		t.Errorf("ask of a frozen server: %v, want it indeterminate", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := a.Release(short, store.Hold{Name: "a", ID: late.ID}); err == nil {
		t.Error("the frozen server answered")
	}
	s.Thaw()
	until(t, "the name is free", func() bool {
		r, err := b.Ask(t.Context(), mutexTry("a"))
		return err == nil && r.Granted
	})
	until(t, "no entry of it is left", func() bool {
		st := entriesOf(t, b, "a")
		return len(st.Entries) == 1 && st.Entries[0].ID != late.ID
	})
	// The session of that claim has ended; other sessions keep what they had.
	if st := entriesOf(t, b, "warm"); len(st.Entries) != 1 {
		t.Errorf("the other hold was lost: got %+v", st)
	}
}

// All of etcd's data is deleted: holders are notified, and tokens still grow.
func TestAWipeIsReportedAndTokensStillGrow(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.Etcd(t).Addr)
	s := closing(t, storeOn(t, client, nil))
	hold := mustHold(t, s, mutex("a"))
	if _, err := client.Delete(t.Context(), "\x00", clientv3.WithFromKey()); err != nil {
		t.Fatal(err)
	}
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; !errors.Is(r.Err, store.ErrLost) {
		t.Errorf("renewal: %v, want ErrLost", r.Err)
	}
	for _, again := range []*Store{s, closing(t, storeOn(t, client, nil))} {
		next := mustHold(t, again, mutex("a"))
		if next.Token <= hold.Token {
			t.Errorf("got token %d after %d, want a larger one", next.Token, hold.Token)
		}
		if err := again.Release(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
}

// A minimum hold that is given back with no token is void: nothing ran under it.
func TestAMinimumHoldReleasedWithNoTokenIsVoid(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, clientOf(t, testserver.SharedEtcd(t)), apart()))
	c := mutex("a")
	c.MinHold = time.Minute
	hold := mustHold(t, s, c)
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "a", ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Ask(t.Context(), c); err == nil && a.Granted && a.Token == hold.Token {
		t.Errorf("the same ask again: got %+v, as if the hold was not released", a)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "a", ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	if st := entriesOf(t, s, "a"); len(st.Entries) != 0 {
		t.Errorf("got %+v, want no entries", st.Entries)
	}
}
