package holdfast

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMaxWaiting_LockBeyondItFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, &Options{MaxWaiting: 3})
		another := other(t, s.mem, "a", time.Hour)
		var all []*waiter
		for range 3 {
			all = append(all, waits(t, locks.Mutex("a").Lock))
		}
		start := time.Now()
		_, err := locks.Mutex("a").Lock(t.Context())
		same(t, "took", time.Since(start), 0)
		is(t, err, ErrHeld)
		same(t, "holder", heldBy(t, err).Host, "elsewhere")
		if !strings.Contains(err.Error(), "MaxWaiting") {
			t.Fatal(err)
		}
		same(t, "events", o.reported(), "refused 0s")
		_, err = locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
		for _, w := range all {
			w.waiting()
		}

		// Another name has its own bound, and so has another locker.
		release(t, lock(t, locks, "b"))
		waits(t, locks.With(&Options{MaxWaiting: 4}).Mutex("a").Lock)

		another.release()
		release(t, all[0].got())
		waits(t, locks.With(&Options{MaxWaiting: 4}).Mutex("a").Lock)
	})
}

// While a semaphore's total changes, claims with both totals wait for one name.
func TestMaxWaiting_CountsClaimsWithAnotherTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		bounded := locker(t, withNotifications{s}, &Options{MaxWaiting: 2})
		held, err := locker(t, linkTo(t, s.mem), nil).Semaphore("a", 3).TryAcquire(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		acquire := func(total int) func(context.Context) (*Lease, error) {
			return func(ctx context.Context) (*Lease, error) { return bounded.Semaphore("a", total).Acquire(ctx, 1) }
		}
		refused := func() {
			t.Helper()
			for _, total := range []int{3, 5} {
				start := time.Now()
				w := waits(t, acquire(total))
				w.failed(ErrHeld)
				same(t, "took", w.at.Sub(start), 0)
				if held := heldBy(t, w.err); held.Slots != 3 || !strings.Contains(w.err.Error(), "MaxWaiting") {
					t.Fatal(held, w.err)
				}
			}
		}
		first := waits(t, acquire(3))
		second := waits(t, acquire(5))
		refused()
		// Only claims with the other total wait, but they count.
		first.cancel()
		first.failed(context.Canceled)
		third := waits(t, acquire(5))
		refused()
		second.cancel()
		second.failed(context.Canceled)
		fourth := waits(t, acquire(3))
		refused()
		release(t, held)
		release(t, third.got())
		release(t, fourth.got())
		same(t, "kept", bounded.kept(), 0)
	})
}

// A claim without an answer does not wait yet: if all claims fit, none is refused.
func TestMaxWaiting_ClaimsThatAreGrantedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{MaxWaiting: 1})
		slow(s, 100*time.Millisecond)
		for range 5 {
			waits(t, locks.RWMutex("a").Read().Lock)
		}
		time.Sleep(time.Second)
		same(t, "held", len(locks.Held()), 5)
		_, err := locker(t, newLink(t), nil).With(&Options{MaxWaiting: -2}).Mutex("a").Lock(t.Context())
		is(t, err, ErrInvalid)
	})
}

// A burst is claims that begin at one moment, and their store.
type burst struct {
	mem   *memstore.Store
	store store.Store
	all   []*waiter
	waits map[*waiter]bool // the claims that were reported as waiting
	mu    sync.Mutex
}

type ofBurst struct{}

// tell records the claims that wait.
func (b *burst) tell(e Event) {
	if e.Kind == EventWaiting {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.waits[e.Context.Value(ofBurst{}).(*waiter)] = true
	}
}

// begin starts n claims at one moment.
func (b *burst) begin(t *testing.T, n int, lock func(i int) func(context.Context) (*Lease, error)) {
	b.waits = map[*waiter]bool{}
	at := make(chan struct{})
	for i := range n {
		w := &waiter{t: t, done: make(chan struct{})}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ofBurst{}, w))
		w.cancel = cancel
		b.all = append(b.all, w)
		go func() {
			defer cancel()
			defer close(w.done)
			<-at
			w.lease, w.err = lock(i)(ctx)
			w.at = time.Now()
		}()
	}
	synctest.Wait()
	close(at)
	synctest.Wait()
}

// burstStores are a store in this process, and links on which each answer takes some time.
var burstStores = map[string]func(b *burst, t *testing.T){
	"memory": func(b *burst, t *testing.T) { b.store = b.mem },
	"a link that notifies": func(b *burst, t *testing.T) {
		s := linkTo(t, b.mem)
		slow(s, 100*time.Millisecond)
		b.store = withNotifications{s}
	},
	"a link that is polled": func(b *burst, t *testing.T) {
		s := linkTo(t, b.mem)
		slow(s, 100*time.Millisecond)
		b.store = withPolls{s}
	},
}

// burstKinds are the kinds of claims that wait for a name while one claim holds all of it.
var burstKinds = map[string]func(l *Locker, i int) func(context.Context) (*Lease, error){
	"mutex": func(l *Locker, i int) func(context.Context) (*Lease, error) { return l.Mutex("a").Lock },
	"read":  func(l *Locker, i int) func(context.Context) (*Lease, error) { return l.RWMutex("a").Read().Lock },
	"read and write": func(l *Locker, i int) func(context.Context) (*Lease, error) {
		if i%3 == 0 {
			return l.RWMutex("a").Write().Lock
		}
		return l.RWMutex("a").Read().Lock
	},
	"slots": func(l *Locker, i int) func(context.Context) (*Lease, error) {
		return l.Semaphore("s", 10).Slots(1 + i%4).Lock
	},
	"slots of two totals": func(l *Locker, i int) func(context.Context) (*Lease, error) {
		return l.Semaphore("s", 10+i%2).Slots(1 + i%4).Lock
	},
	"several names": func(l *Locker, i int) func(context.Context) (*Lease, error) {
		return func(ctx context.Context) (*Lease, error) {
			set, err := l.All(l.Mutex(fmt.Sprint("z", i)), l.Mutex("a")).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return set.Lease("a"), nil
		}
	},
}

func TestMaxWaiting_NoBurstExceedsIt(t *testing.T) {
	for kind, claims := range burstKinds {
		for where, open := range burstStores {
			t.Run(kind+" on "+where, func(t *testing.T) {
				bounded(t, func(t *testing.T) {
					b := &burst{mem: memstore.New()}
					open(b, t)
					another := locker(t, linkTo(t, b.mem), nil)
					held := lock(t, another, "a")
					slots := take(t, t.Context(), another.Semaphore("s", 10).Slots(10).TryLock)
					const most = 7
					locks := locker(t, b.store, &Options{MaxWaiting: most, Observer: b.tell})
					b.begin(t, 100, func(i int) func(context.Context) (*Lease, error) { return claims(locks, i) })
					time.Sleep(time.Second)
					synctest.Wait()
					var waiting []*waiter
					for _, w := range b.all {
						select {
						case <-w.done:
							if is(t, w.err, ErrHeld); !strings.Contains(w.err.Error(), "MaxWaiting") {
								t.Fatal(w.err)
							}
							same(t, "reported as waiting", b.waits[w], false)
						default:
							waiting = append(waiting, w)
							same(t, "reported as waiting", b.waits[w], true)
						}
					}
					same(t, "waiters", len(waiting), most)
					places := 0
					for _, name := range []string{"a", "s"} {
						for _, e := range stored(b.mem, name).Entries {
							if !e.Granted {
								places++
							}
						}
					}
					if places > most {
						t.Fatalf("%d queue positions in the store, more than MaxWaiting", places)
					}
					release(t, held)
					release(t, slots)
					for range waiting { // each releases before the next is admitted
						next := first(waiting)
						release(t, next.got())
						waiting = without(waiting, next)
					}
				})
			})
		}
	}
}

// first is the first of those whose wait has ended.
func first(of []*waiter) *waiter {
	for {
		for _, w := range of {
			select {
			case <-w.done:
				return w
			default:
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func without(all []*waiter, one *waiter) (rest []*waiter) {
	for _, w := range all {
		if w != one {
			rest = append(rest, w)
		}
	}
	return rest
}

func TestMaxWaiting_AnImmediateGrantIsNeverRefused(t *testing.T) {
	for kind, claims := range map[string]func(l *Locker) func(context.Context) (*Lease, error){
		"read":  func(l *Locker) func(context.Context) (*Lease, error) { return l.RWMutex("a").Read().Lock },
		"slots": func(l *Locker) func(context.Context) (*Lease, error) { return l.Semaphore("a", 200).Slots(2).Lock },
	} {
		for where, open := range burstStores {
			t.Run(kind+" on "+where, func(t *testing.T) {
				bounded(t, func(t *testing.T) {
					b := &burst{mem: memstore.New()}
					open(b, t)
					locks := locker(t, b.store, &Options{MaxWaiting: 1})
					b.begin(t, 100, func(int) func(context.Context) (*Lease, error) { return claims(locks) })
					for _, w := range b.all {
						w.got()
					}
				})
			})
		}
	}
}

// The bound is kept while claims of all weights, totals and kinds come and go.
func TestMaxWaiting_IsNeverExceededWhileClaimsComeAndGo(t *testing.T) {
	for where, open := range burstStores {
		t.Run(where, func(t *testing.T) {
			bounded(t, func(t *testing.T) {
				b := &burst{mem: memstore.New()}
				open(b, t)
				const most = 5
				locks := locker(t, b.store, &Options{MaxWaiting: most})
				var granted, refused, peak atomic.Int64
				var all sync.WaitGroup
				for i := range 30 {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					all.Go(func() {
						for range 40 {
							time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
							claim := []*Lock{
								locks.RWMutex("a").Read(), locks.RWMutex("a").Write(),
								locks.Semaphore("s", 4).Slots(1 + rng.IntN(4)), locks.Semaphore("s", 5).Slots(1 + rng.IntN(4)),
							}[rng.IntN(4)]
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(1000))*time.Millisecond)
							l, err := claim.Lock(ctx)
							if err == nil {
								granted.Add(1)
								time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
								if err := l.Release(); err != nil {
									t.Error("Release:", err)
								}
							} else if strings.Contains(err.Error(), "MaxWaiting") {
								refused.Add(1)
							}
							cancel()
						}
					})
				}
				done := make(chan struct{})
				go func() { all.Wait(); close(done) }()
				for busy := true; busy; {
					select {
					case <-done:
						busy = false
					case <-time.After(time.Millisecond):
						for _, name := range []string{"a", "s"} {
							peak.Store(max(peak.Load(), int64(locks.engine.Waits(name))))
						}
					}
				}
				if granted.Load() == 0 || refused.Load() == 0 || peak.Load() != most {
					t.Fatalf("%d granted, %d refused, at most %d waited; want some of each, and as many waiters as MaxWaiting", granted.Load(), refused.Load(), peak.Load())
				}
				same(t, "kept", locks.kept(), 0)
			})
		})
	}
}

// The refused claim has a position in the store for a moment, and gives it back.
func TestMaxWaiting_OneTooManyLeavesNothingInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, &Options{MaxWaiting: 1})
		locks.engine.Subscribe(t.Context()) // so that the first ask is one for a position
		slow(s, 100*time.Millisecond)
		first := waits(t, locks.RWMutex("a").Read().Lock)
		second := waits(t, locks.RWMutex("a").Read().Lock)
		time.Sleep(time.Second)
		if over(first.done) == over(second.done) {
			t.Fatal("both callers wait or neither does, want one of them to wait")
		}
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		same(t, "withdrawn", len(s.made("withdraw")), 1)
	})
}

// A claim that was reported as waiting continues, although it asks the store only now and another claim comes meanwhile.
func TestMaxWaiting_AnAdmittedWaiterIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{MaxWaiting: 1, HandOver: &HandOver{}})
		locks.engine.Subscribe(t.Context())
		slow(s, 100*time.Millisecond)
		first := waits(t, locks.Mutex("a").Lock)
		second := waits(t, locks.Mutex("a").Lock)
		first.got()
		time.Sleep(50 * time.Millisecond)
		third := waits(t, locks.Mutex("a").Lock)
		third.failed(ErrHeld)
		time.Sleep(time.Second)
		second.waiting()
		release(t, first.lease)
		release(t, second.got())
	})
}
