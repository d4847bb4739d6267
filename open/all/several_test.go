package all_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// B46, B47 between processes.
func TestSeveral_OnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		set := func(l *holdfast.Locker, names ...string) *holdfast.LockSet {
			var claims []*holdfast.Lock
			for _, n := range names {
				claims = append(claims, l.Mutex(n))
			}
			return l.All(claims...)
		}
		leases := must[*holdfast.LeaseSet](t)
		one, three := leases(set(p.here, "1", "2").TryLock(ctx)), leases(set(p.here, "4", "3").TryLock(ctx))
		refused := func() {
			t.Helper()
			keeping := p.there // a roll-back keeps no minimum hold
			if _, lacks := p.inspect.(store.Store).Describe().Lacks[store.PromiseMinHold]; !lacks {
				keeping = p.there.With(&holdfast.Options{MinHold: time.Hour})
			}
			if _, err := set(keeping, "0", "3", "2").TryLock(ctx); !errors.Is(err, holdfast.ErrHeld) {
				t.Fatal("2 and 3, want ErrHeld:", err)
			}
			if e := p.entries(t, "0"); len(e) != 0 {
				t.Fatalf("entries left in the store: %+v", e)
			}
		}
		refused()
		if err := one.Release(); err != nil {
			t.Fatal(err)
		}
		refused()
		release(t, must[*holdfast.Lease](t)(p.there.Mutex("1").TryLock(ctx)))
		release(t, must[*holdfast.Lease](t)(p.there.Mutex("2").TryLock(ctx)))

		// The second process waits for the first, and is granted once all names are free.
		var got *holdfast.LeaseSet
		var waiter sync.WaitGroup
		waiter.Go(func() {
			mixed := p.there.All(p.there.RWMutex("2").Read(), p.there.RWMutex("3").Write(), p.there.Semaphore("5", 3).Slots(2))
			var err error
			if got, err = mixed.Lock(ctx); err != nil {
				t.Error(err)
			}
		})
		until(t, "the claim waits for 3", func() bool { return len(p.entries(t, "3")) == 2 })
		if err := three.Release(); err != nil {
			t.Fatal(err)
		}
		if waiter.Wait(); t.Failed() {
			return
		}
		for _, name := range got.Names() {
			// etcd lists the token of a waiter a second after its grant.
			until(t, "the store has the token of "+name, func() bool {
				e := p.entries(t, name)
				return len(e) == 1 && e[0].Token == got.Token(name) && e[0].Token != 0
			})
		}
		if err := got.Release(); err != nil {
			t.Fatal(err)
		}
		for _, name := range got.Names() {
			if e := p.entries(t, name); len(e) != 0 {
				t.Errorf("%s: entries left in the store: %+v", name, e)
			}
		}
	})
}

// One call renews all, and the store shows it.
func TestSeveral_RenewedByHandOnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{NoRenew: holdfast.On, TTL: 10 * time.Minute}, func(t *testing.T, p *pair) {
		ctx, longer := within(t), renewable(t)
		claims := p.here.All(p.here.Mutex("1"), p.here.RWMutex("2").Read(), p.here.Semaphore("3", 3).Slots(2))
		all := must[*holdfast.LeaseSet](t)(claims.Lock(ctx))
		if err := all.Renew(ctx, 30*time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, name := range all.Names() {
			e := p.entries(t, name)
			if len(e) != 1 || e[0].Expires < longer || e[0].Token != all.Token(name) {
				t.Errorf("%s: got %+v in the store, want one entry with token %d that expires in %v", name, e, all.Token(name), longer)
			}
		}
		if left := time.Until(all.Deadline()); left < longer {
			t.Errorf("the deadline is in %v, want at least %v", left, longer)
		}
		if err := all.Lease("2").Release(); err != nil {
			t.Fatal(err)
		}
		if err := all.Renew(ctx, 30*time.Minute); !errors.Is(err, holdfast.ErrReleased) || !strings.Contains(err.Error(), `"2"`) {
			t.Errorf("renewal after one was released: got %v, want ErrReleased that names the lock", err)
		}
		if !all.Lease("1").Valid() || !all.Lease("3").Valid() {
			t.Error("the other leases were lost too")
		}
		_ = all.Release() // for "2" it is the second release
		for _, name := range all.Names() {
			if e := p.entries(t, name); len(e) != 0 {
				t.Errorf("%s: entries left in the store: %+v", name, e)
			}
		}
	})
}

// In whatever order either process names the locks.
func TestSeveral_OppositeOrdersOnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		var inside [3]atomic.Int64
		var all sync.WaitGroup
		for i, l := range []*holdfast.Locker{p.here, p.there, p.here, p.there} {
			all.Go(func() {
				for round := range 15 {
					a, b := (i+round)%3, (i+round+1+round%2)%3
					set := l.All(l.Mutex(fmt.Sprint(a)), l.Mutex(fmt.Sprint(b)))
					err := set.Do(ctx, func(context.Context) error {
						if inside[a].Add(1) != 1 || inside[b].Add(1) != 1 {
							t.Error("two hold a lock")
						}
						inside[a].Add(-1)
						inside[b].Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

// Two candidates and one observer.
func TestElection_OnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		anna := p.here.With(&holdfast.Options{Note: "anna"}).Election("leader")
		bert := p.there.With(&holdfast.Options{Note: "bert"}).Election("leader")
		reported := make(chan string, 100)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			for leader, err := range p.there.Election("leader").Observe(ctx) {
				if err != nil {
					t.Error(err)
				}
				reported <- leader.Note
			}
		})
		// expect waits for the leader; others may be seen before.
		expect := func(note string, before ...string) {
			t.Helper()
			for {
				select {
				case was := <-reported:
					if was == note {
						return
					}
					if !slices.Contains(before, was) {
						t.Fatalf("the leader is %q, want %q", was, note)
					}
				case <-ctx.Done():
					t.Fatalf("the observer did not yield %q as the leader", note)
				}
			}
		}
		expect("")
		var last int64
		var terms sync.WaitGroup
		defer func() {
			cancel()
			terms.Wait()
		}()
		resign := make(chan struct{})
		lead := func(e *holdfast.Election) {
			terms.Go(func() {
				err := e.Lead(ctx, func(ctx context.Context) error {
					token := holdfast.LeaseFrom(ctx).Token()
					if token <= last {
						t.Errorf("got token %d after %d, want a larger one", token, last)
					}
					last = token
					select {
					case <-resign:
					case <-ctx.Done():
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		lead(anna)
		expect("anna")
		lead(bert)
		until(t, "bert waits", func() bool { return len(p.entries(t, "leader")) == 2 })
		resign <- struct{}{}
		expect("bert", "") // there may be no leader for a moment
		resign <- struct{}{}
		expect("")
	})
}

// The process that detached the leases ends. Another process continues with one and releases the other.
func TestAdopt_OnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		l := must[*holdfast.Lease](t)(p.here.Semaphore("a", 3).Acquire(ctx, 2))
		if why, lacks := p.inspect.(store.Store).Describe().Lacks[store.PromiseDetach]; lacks {
			if _, err := l.Detach(); !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), why) || !l.Valid() {
				t.Fatalf("got %v, valid %v; want ErrUnsupported with the reason, and a valid lease", err, l.Valid())
			}
			release(t, l)
			return
		}
		other := must[*holdfast.Lease](t)(p.here.Mutex("b").Lock(ctx))
		ref, unwanted := must[holdfast.Ref](t)(l.Detach()), must[holdfast.Ref](t)(other.Detach())
		if err := p.here.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.there.Semaphore("a", 3).TryAcquire(ctx, 2); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal("the detached name is free:", err)
		}
		if _, err := p.there.Mutex("b").TryLock(ctx); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal("the other detached name is free:", err)
		}
		if err := p.there.Release(ctx, unwanted); err != nil {
			t.Fatal(err)
		}
		next := must[*holdfast.Lease](t)(p.there.Mutex("b").TryLock(ctx))
		if err := p.there.Release(ctx, unwanted); !errors.Is(err, holdfast.ErrLost) || !next.Valid() || next.Token() <= other.Token() {
			t.Fatalf("second release of a detached lease: got %v; the next lease is valid: %v, with token %d after %d", err, next.Valid(), next.Token(), other.Token())
		}
		if err := next.Renew(ctx, time.Minute); err != nil {
			t.Fatal("the second release changed the next lease:", err)
		}
		release(t, next)
		var read holdfast.Ref
		if err := read.UnmarshalText([]byte(ref.String())); err != nil {
			t.Fatal(err)
		}
		adopted := must[*holdfast.Lease](t)(p.there.Adopt(ctx, read))
		e := p.entries(t, "a")
		if adopted.Token() != l.Token() || len(e) != 1 || e[0].Token != l.Token() || e[0].Weight != 2 || e[0].ID.String() != adopted.ID() {
			t.Fatalf("adopted with token %d, want %d; got %+v in the store", adopted.Token(), l.Token(), e)
		}
		if err := adopted.Renew(ctx, time.Minute); err != nil {
			t.Fatal("renewal of the adopted lease:", err)
		}
		if _, err := p.there.Adopt(ctx, ref); !errors.Is(err, holdfast.ErrLost) {
			t.Fatal("second adoption, want ErrLost:", err)
		}
		release(t, adopted)
		if e := p.entries(t, "a"); len(e) != 0 {
			t.Fatalf("entries left in the store: %+v", e)
		}
	})
}
