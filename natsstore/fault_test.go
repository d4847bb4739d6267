package natsstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// lockerOn is a process with a connection of its own to the servers.
func lockerOn(t *testing.T, ttl time.Duration, o *Options, addrs ...string) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(storeOn(t, connect(t, addrs...), o), &holdfast.Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
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

// leader is the number of the server that leads the bucket.
func leader(t *testing.T, s *Store) int {
	t.Helper()
	which := -1
	until(t, "the bucket has a leader", func() bool {
		stream, err := s.b.js.Stream(t.Context(), s.b.streamName())
		if err != nil || stream.CachedInfo().Cluster == nil || stream.CachedInfo().Cluster.Leader == "" {
			return false
		}
		which = int(stream.CachedInfo().Cluster.Leader[1] - '0') // n0, n1, n2
		return true
	})
	return which
}

// A hold lasts, and waiters are admitted, whatever happens to the leader of three servers: it stops for longer than an
// election, or is killed.
func TestALostServerIsSurvived(t *testing.T) {
	t.Parallel()
	servers := testserver.NATSCluster(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const ttl = time.Minute
	o := &Options{Replicas: 3}
	watcher := closing(t, storeOn(t, connect(t, addrs...), o))
	look := make(chan store.Notification, 10)
	if err := watcher.Watch(ctx, me, func(h store.Notification) { look <- h }); err != nil {
		t.Fatal(err)
	}
	if h := nextNotification(t, look); h != (store.Notification{}) { // now all three know its subscription
		t.Errorf("got notification %+v", h)
	}
	here, there := lockerOn(t, ttl, o, addrs...), lockerOn(t, ttl, o, addrs...)
	kept := lockWhenItCan(t, ctx, here, "kept")
	for _, c := range []struct {
		what         string
		strike, mend func(*testserver.Server)
	}{
		{"frozen", (*testserver.Server).Freeze, (*testserver.Server).Thaw},
		{"killed", (*testserver.Server).Kill, (*testserver.Server).Restart},
	} {
		began := time.Now()
		held := lockWhenItCan(t, ctx, here, "handed")
		var next *holdfast.Lease
		var waiting sync.WaitGroup
		waiting.Go(func() { next = lockWhenItCan(t, ctx, there, "handed") })
		waitsFor(t, here, "handed")
		struck := servers[leader(t, watcher)]
		c.strike(struck)
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
		c.mend(struck)
		t.Logf("%s: %v", c.what, time.Since(began).Round(time.Millisecond))
	}
	released(t, kept)
}

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

// A holder that is cut off loses its lease before another is granted the name.
func TestACutOffHolderLosesBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	link := testserver.NewLink(t, addr)
	far, near := lockerOn(t, 3*time.Second, o, link.Addr()), lockerOn(t, time.Minute, o, addr) // the next holder keeps the name until it gives it back
	lease := lockWhenItCan(t, t.Context(), far, "a")
	link.Cut()
	next := lockWhenItCan(t, t.Context(), near, "a")
	if lease.Valid() {
		t.Error("the next claim is granted, but the first lease is still valid")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("got token %d after %d, want a larger one", next.Token(), lease.Token())
	}
	released(t, next)
}

// A release that was not answered is done as soon as it can be. The hold must not last for the rest of its TTL in a
// process that lives.
func TestAnUnansweredReleaseIsStillDone(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	link := testserver.NewLink(t, addr)
	a, b := closing(t, storeOn(t, connect(t, link.Addr()), o)), closing(t, storeOn(t, connect(t, addr), o))
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	link.Hush()
	if err := link.Sent(t.Context(), func(ctx context.Context) error { return a.Release(ctx, hold) }); err == nil || store.Definite(err) {
		t.Fatalf("release on a silent link: %v, want it indeterminate", err)
	}
	if storetest.MustAsk(t, b, try("a")).Granted {
		t.Fatal("the release was done") // the test would show nothing
	}
	link.Cut()
	link.Mend()
	until(t, "the name is free", func() bool { return storetest.MustAsk(t, b, try("a")).Granted })
}

// A claim that was never answered and was given up is soon gone, even if it reaches the server later.
func TestALateAskIsRemoved(t *testing.T) {
	t.Parallel()
	s := testserver.NATS(t, "")
	link := testserver.NewLink(t, s.Addr)
	a, b := closing(t, storeOn(t, connect(t, link.Addr()), nil)), closing(t, storeOn(t, connect(t, s.Addr), nil))
	warm := storetest.MustHold(t, a, storetest.Mutex(me, "warm")) // the bucket and the session exist
	s.Freeze()
	late := storetest.Mutex(me, "a")
	if err := link.Sent(t.Context(), func(ctx context.Context) error { _, err := a.Ask(ctx, late); return err }); err == nil || store.Definite(err) {
		t.Errorf("ask of a frozen server: %v, want it indeterminate", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := a.Release(short, store.Hold{Name: "a", ID: late.ID}); err == nil {
		t.Error("the frozen server answered")
	}
	s.Thaw()
	try := storetest.Mutex(me, "a")
	try.Try = true
	until(t, "the name is free", func() bool {
		r, err := b.Ask(t.Context(), try)
		return err == nil && r.Granted
	})
	until(t, "no entry of it is left", func() bool {
		st := storetest.MustList(t, b, "a")
		return len(st.Entries) == 1 && st.Entries[0].ID != late.ID
	})
	until(t, "the other hold is renewed", func() bool {
		r := a.Renew(t.Context(), []store.Hold{warm})[0]
		if r.Err != nil && store.Definite(r.Err) {
			t.Fatalf("the other hold: %v", r.Err)
		}
		return r.Err == nil
	})
}

// The bucket is deleted, or deleted and recreated. Holders are notified, the next waiter is granted, and tokens still
// grow, though the revisions begin again.
func TestADeletedBucketIsReportedAndTokensStillGrow(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"deleted": false, "recreated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, o := connect(t, testserver.SharedNATS(t)), apart()
			s := closing(t, storeOn(t, nc, o))
			hold := storetest.MustHold(t, s, storetest.Mutex(me, "a"))
			if err := s.b.js.DeleteStream(t.Context(), s.b.streamName()); err != nil {
				t.Fatal(err)
			}
			other := closing(t, storeOn(t, nc, o))
			if again { // the revisions of the new bucket equal those that were known
				storetest.MustHold(t, other, storetest.Mutex(me, "b"))
			}
			until(t, "the holder gets ErrLost", func() bool {
				return errors.Is(s.Renew(t.Context(), []store.Hold{hold})[0].Err, store.ErrLost)
			})
			next := storetest.MustHold(t, other, storetest.Mutex(me, "a"))
			if next.Token <= hold.Token {
				t.Errorf("got token %d after %d, want a larger one", next.Token, hold.Token)
			}
			try := storetest.Mutex(me, "a")
			try.Try = true
			if r, err := s.Ask(t.Context(), try); err != nil || r.Granted {
				t.Errorf("a try by the first process: got %+v, %v, want refused", r, err)
			}
		})
	}
}
