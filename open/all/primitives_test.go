package all_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
)

// patience bounds each wait: a loaded machine is no failure.
const patience = 3 * time.Minute

// A pair is two processes on one store, as far as the store can tell.
type pair struct {
	here, there *holdfast.Locker
	inspect     store.Inspector
}

// eachStore runs f on each kind of store that several processes can share.
func eachStore(t *testing.T, o *holdfast.Options, f func(*testing.T, *pair)) {
	for kind, url := range map[string]func(*testing.T) string{
		"file":  func(t *testing.T) string { return "file:" + t.TempDir() },
		"redis": func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr },
		"etcd":  func(t *testing.T) string { return "etcd://" + testserver.Etcd(t).Addr },
		"zk":    func(t *testing.T) string { return "zk://" + testserver.ZooKeeper(t).Addr },
		"nats": func(t *testing.T) string {
			return "nats://" + testserver.SharedNATS(t) + "?bucket=locks_" + store.NewProcess().String()
		},
		"postgres": func(t *testing.T) string {
			return testserver.PostgresURL(testserver.SharedPostgres(t), "table=locks_"+store.NewProcess().String())
		},
		"mongodb": func(t *testing.T) string { return mongosim.Start(t, mongosim.Options{}).URI() },
		"mysql": func(t *testing.T) string {
			return "mysql://root@" + testserver.SharedMariaDB(t) + "/locks?table=locks_" + store.NewProcess().String()
		},
		"sqlserver": func(t *testing.T) string {
			return testserver.SQLServer(t, "table", "locks_"+store.NewProcess().String())
		},
	} {
		t.Run(kind, func(t *testing.T) {
			at := url(t)
			openOne := func() store.Store {
				s, err := open.URL(at)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			locker := func() *holdfast.Locker {
				l, err := holdfast.New(openOne(), &holdfast.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := l.Close(); err != nil {
						t.Error("Close:", err)
					}
				})
				return l.With(o)
			}
			look := openOne()
			t.Cleanup(func() { look.Close() })
			f(t, &pair{locker(), locker(), look.(store.Inspector)})
		})
	}
}

// entries are the entries of the name in the store.
func (p *pair) entries(t testing.TB, name string) []store.Entry {
	t.Helper()
	for st, err := range p.inspect.List(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		return st.Entries
	}
	return nil
}

// until waits for a condition that must come true.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("gave up waiting until", what)
		}
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Fatal("Release:", err)
	}
}

// within is a context that bounds what must not take forever.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// B22 to B27 between processes.
func TestUpgrade_OnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		here, there := p.here.RWMutex("a"), p.there.RWMutex("a")
		lease, upgradeable := must[*holdfast.Lease](t), must[*holdfast.UpgradeableLease](t)
		before := lease(there.Read().Lock(ctx))
		u := upgradeable(here.Upgradeable().Lock(ctx))
		after := lease(there.Read().TryLock(ctx))
		if _, err := there.Upgradeable().TryLock(ctx); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal("a second upgradeable lock:", err)
		}
		if err := u.TryUpgrade(ctx); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal("TryUpgrade while a reader holds it:", err)
		}
		read, id := u.Token(), u.ID()
		release(t, before)

		// A canceled upgrade admits the others again.
		pending := func() bool {
			l, err := there.Read().TryLock(ctx)
			if err == nil {
				release(t, l)
			}
			return errors.Is(err, holdfast.ErrHeld)
		}
		canceled, cancel := context.WithCancel(ctx)
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- u.Upgrade(canceled) }()
		until(t, "the upgrade that will be canceled is pending", pending)
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Fatal("a canceled upgrade:", err)
		}
		until(t, "a reader is granted after the cancel", func() bool {
			l, err := there.Read().TryLock(ctx)
			return err == nil && l.Release() == nil
		})

		// While an upgrade is pending nothing else is granted. Then the upgraded hold is alone.
		var up sync.WaitGroup
		up.Go(func() {
			if err := u.Upgrade(ctx); err != nil {
				t.Error("Upgrade:", err)
			}
		})
		until(t, "the upgrade is pending", pending)
		release(t, after)
		up.Wait()
		if t.Failed() {
			return
		}
		if u.Token() <= read || u.Token() <= after.Token() || u.ID() != id {
			t.Fatalf("got token %d after %d and %d, id %s after %s; want a larger token, and the same id", u.Token(), read, after.Token(), u.ID(), id)
		}
		if e := p.entries(t, "a"); len(e) != 1 || e[0].Weight != store.Full || e[0].UpgradeToken != u.Token() {
			t.Fatalf("got %+v in the store, want the upgraded hold alone", e)
		}
		// The token of the grant still identifies the hold: renewals work.
		if err := u.Renew(ctx, time.Minute); err != nil || !u.Valid() {
			t.Fatal("a renewal after the upgrade:", err)
		}

		// A downgrade leaves no gap: readers are admitted, a writer is not.
		var others sync.WaitGroup
		others.Go(func() {
			l, err := there.Read().Lock(ctx)
			if err != nil {
				t.Error("the reader:", err)
			} else if l.Token() <= u.Token() {
				t.Error("the reader's token is not larger than the upgrade token")
			} else if err := l.Release(); err != nil {
				t.Error("the reader:", err)
			}
		})
		until(t, "a reader waits", func() bool { return len(p.entries(t, "a")) == 2 })
		if err := u.Downgrade(); err != nil {
			t.Fatal("Downgrade:", err)
		}
		others.Wait()
		if _, err := there.Write().TryLock(ctx); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal("a writer while an upgradeable lease holds it:", err)
		}
		if err := u.Upgrade(ctx); err != nil {
			t.Fatal("a second upgrade:", err)
		}
		fence := u.Token()
		release(t, u.Lease)
		if w := lease(there.Write().Lock(ctx)); w.Token() <= fence {
			t.Fatalf("the next writer has token %d, want one larger than the upgrade token %d", w.Token(), fence)
		}
	})
}

// Read, wait until alone, write: no increment is lost, and no reader sees half a write.
func TestUpgrade_NoIncrementIsLostOnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		var one, two int // plain variables: the lock guards them
		var inside atomic.Int64
		var all sync.WaitGroup
		const workers, rounds = 3, 15
		for _, l := range []*holdfast.Locker{p.here, p.there} {
			rw := l.RWMutex("a")
			for range workers {
				all.Go(func() {
					for range rounds {
						err := rw.Upgradeable().Do(ctx, func(ctx context.Context, u *holdfast.UpgradeableLease) error {
							if n := inside.Load(); n != 0 {
								t.Errorf("%d writers hold the lock together with an upgradeable lease", n)
							}
							seen := one
							if err := u.Upgrade(ctx); err != nil {
								return err
							}
							if n := inside.Add(1); n != 1 || one != seen {
								t.Errorf("%d writers hold the lock, and one of them reads %d where it read %d before", n, one, seen)
							}
							one, two = seen+1, two+1
							inside.Add(-1)
							return u.Downgrade()
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
				all.Go(func() {
					for range rounds {
						err := rw.Read().Do(ctx, func(context.Context) error {
							if n := inside.Load(); n != 0 || one != two {
								t.Errorf("a reader holds the lock together with %d writers, and reads %d and %d", n, one, two)
							}
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		all.Wait()
		if one != 2*workers*rounds || two != one {
			t.Fatalf("got %d and %d increments, want %d each", one, two, 2*workers*rounds)
		}
	})
}

func TestUpgrade_OfABrokenHoldIsLostOnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		u, err := p.here.RWMutex("a").Upgradeable().Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		e := p.entries(t, "a")[0]
		if err := p.inspect.BreakHold(ctx, store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "fire"}); err != nil {
			t.Fatal(err)
		}
		if err := u.Upgrade(ctx); !errors.Is(err, holdfast.ErrLost) || u.Valid() {
			t.Fatalf("upgrade of a broken hold: got %v, valid %v, want ErrLost", err, u.Valid())
		}
	})
}

// renewable is the least time that a hold has left if it was taken for ten minutes and is renewed for thirty.
func renewable(t testing.TB) time.Duration {
	if strings.HasSuffix(t.Name(), "/zk") { // no ZooKeeper node moves to a longer session, and three quarters of a session count
		return 7 * time.Minute
	}
	return 20 * time.Minute
}

// B71: a renewal can make it longer for all, and shorter for us alone.
func TestRenewByHand_OnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{NoRenew: holdfast.On, TTL: 10 * time.Minute}, func(t *testing.T, p *pair) {
		ctx := within(t)
		longer := renewable(t)
		l, err := p.here.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Renew(ctx, 30*time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := p.entries(t, "a")[0].Expires; left < longer || time.Until(l.Deadline()) < longer {
			t.Fatalf("the entry expires in %v, and the lease in %v, too soon", left, time.Until(l.Deadline()))
		}
		if err := l.Renew(ctx, 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := p.entries(t, "a")[0].Expires; left < longer || time.Until(l.Deadline()) > 5*time.Minute {
			t.Fatalf("the entry expires in %v, and the lease in %v, too late", left, time.Until(l.Deadline()))
		}
		release(t, l)
		if err := l.Renew(ctx, time.Minute); !errors.Is(err, holdfast.ErrReleased) {
			t.Fatal("a renewal after the release:", err)
		}
	})
}

// Also while a writer waits, which would block a new reader.
func TestReentry_OnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{Reentrant: holdfast.On}, func(t *testing.T, p *pair) {
		ctx := within(t)
		lease := must[*holdfast.Lease](t)
		rw := p.here.RWMutex("a")
		outer := lease(rw.Read().Lock(ctx))
		var writer sync.WaitGroup
		writer.Go(func() {
			l, err := p.there.RWMutex("a").Write().Lock(ctx)
			if err != nil {
				t.Error("the writer:", err)
				return
			}
			if err := l.Release(); err != nil {
				t.Error("the writer:", err)
			}
		})
		until(t, "the writer waits", func() bool { return len(p.entries(t, "a")) == 2 })
		inner := lease(rw.Read().Lock(outer.Context(ctx)))
		if inner.Token() != outer.Token() {
			t.Fatalf("the inner lease has token %d, the outer one %d; want the same", inner.Token(), outer.Token())
		}
		release(t, outer)
		if n := len(p.entries(t, "a")); n != 2 || !inner.Valid() {
			t.Fatalf("got %d entries, valid: %v; want 2 and true", n, inner.Valid())
		}
		release(t, inner)
		writer.Wait()
	})
}
