package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// With several hosts, use redisstore.New with your Redis client instead.
func newLocker() *holdfast.Locker {
	locks, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		panic(err)
	}
	return locks
}

func ExampleLocker_Mutex() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()

	lease, err := locks.Mutex("invoice/42").Lock(ctx) // ctx bounds the waiting only
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ours:", lease.Valid())

	_, err = locks.Mutex("invoice/42").TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, holdfast.ErrHeld))
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		fmt.Println("holders:", len(held.Holders))
	}

	fmt.Println("released:", lease.Release())
	fmt.Println("ours:", lease.Valid())
	// Output:
	// ours: true
	// taken: true
	// holders: 1
	// released: <nil>
	// ours: false
}

// The wait is bounded by its context. The error says that, and who held
// the lock.
func ExampleLock_Lock() {
	locks := newLocker()
	defer locks.Close()
	lease, err := locks.Mutex("invoice/42").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = locks.Mutex("invoice/42").Lock(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, holdfast.ErrHeld))
	// Output: true true
}

// Wait bounds only the wait; the context of Do bounds the work as well. A wait that
// Wait ends fails as at a deadline.
func ExampleOptions_wait() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	lease, err := locks.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	soon := locks.With(&holdfast.Options{Wait: 10 * time.Millisecond})
	err = soon.Mutex("invoice/42").Do(ctx, func(ctx context.Context) error { return nil })
	fmt.Println("not run:", errors.Is(err, holdfast.ErrNotRun))
	fmt.Println("waited too long:", errors.Is(err, context.DeadlineExceeded), errors.Is(err, holdfast.ErrHeld))
	// Output:
	// not run: true
	// waited too long: true true
}

// Each of twenty replicas starts the nightly job; one runs it. MinHold keeps
// the name taken although the job is short, so that a replica whose clock is
// minutes behind does not run it once more.
func ExampleLock_TryDo() {
	locks := newLocker()
	defer locks.Close()
	nightly := locks.With(&holdfast.Options{MinHold: 10 * time.Minute}).Mutex("nightly")

	var replicas sync.WaitGroup
	var runs sync.Map
	for i := range 20 {
		replicas.Go(func() {
			ran, err := nightly.TryDo(context.Background(), func(ctx context.Context) error {
				return nil // the work; ctx ends when the lease is lost
			})
			if err != nil {
				fmt.Println(err)
			}
			if ran {
				runs.Store(i, true)
			}
		})
	}
	replicas.Wait()
	n := 0
	runs.Range(func(any, any) bool { n++; return true })
	fmt.Println("runs:", n)
	// Output: runs: 1
}

// All goroutines run, one after another.
func ExampleLock_Do() {
	locks := newLocker()
	defer locks.Close()
	counter := 0 // not atomic: the lock guards it
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			err := locks.Mutex("counter").Do(context.Background(), func(ctx context.Context) error {
				counter++
				return ctx.Err()
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println(counter)
	// Output: 50
}

func ExampleRWMutex() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	config := locks.RWMutex("config")

	one, err := config.Read().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := config.Read().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("two readers:", one.Valid() && two.Valid())
	_, err = config.Write().TryLock(ctx)
	fmt.Println("no writer beside them:", errors.Is(err, holdfast.ErrHeld))

	one.Release()
	two.Release()
	err = config.Write().Do(ctx, func(context.Context) error {
		_, err := config.Read().TryLock(ctx)
		fmt.Println("no reader beside a writer:", errors.Is(err, holdfast.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// two readers: true
	// no writer beside them: true
	// no reader beside a writer: true
	// <nil>
}

// A function that takes the lock itself is called by one that holds it.
func ExampleOptions_reentrant() {
	locks := newLocker()
	defer locks.Close()
	invoice := locks.With(&holdfast.Options{Reentrant: holdfast.On}).RWMutex("invoice/42")
	total := func(ctx context.Context) (int, error) {
		lease, err := invoice.Read().Lock(ctx)
		if err != nil {
			return 0, err
		}
		defer lease.Release() // sends nothing while other leases of the hold remain
		return 7, nil
	}

	err := invoice.Write().Do(context.Background(), func(ctx context.Context) error {
		sum, err := total(ctx) // ctx is from the lease: the claim re-enters the hold, with the same token
		fmt.Println(sum, err)
		return err
	})
	fmt.Println(err)
	// Output:
	// 7 <nil>
	// <nil>
}

// Eight goroutines under the context of one lease. All of them are its holder:
// with Reentrant they all get a lease at once, without it each gets an error, as it
// would wait for itself. If they must exclude each other, give them a context
// that does not come from the lease, and another name.
func ExampleOptions_reentrantFanOut() {
	locks := newLocker()
	defer locks.Close()
	for _, reentrant := range []holdfast.Switch{holdfast.Off, holdfast.On} {
		report := locks.With(&holdfast.Options{Reentrant: reentrant}).Mutex("report")
		err := report.Do(context.Background(), func(ctx context.Context) error {
			var workers sync.WaitGroup
			var in, refused atomic.Int64
			for range 8 {
				workers.Go(func() {
					lease, err := report.Lock(ctx)
					if errors.Is(err, holdfast.ErrDeadlock) {
						refused.Add(1)
						return
					}
					in.Add(1)
					lease.Release()
				})
			}
			workers.Wait()
			fmt.Println("reentrant:", reentrant == holdfast.On, "in:", in.Load(), "refused:", refused.Load())
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// reentrant: false in: 0 refused: 8
	// reentrant: true in: 8 refused: 0
}

// All takes both accounts or none, in an order of its own. So two transfers in
// opposite directions do not deadlock.
func ExampleLocker_All() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	both := locks.All(locks.Mutex("account/7"), locks.Mutex("account/3"), locks.RWMutex("rates").Read())

	leases, err := both.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(leases.Names(), leases.Valid())
	fmt.Println("a token each:", leases.Token("account/3") > 0 && leases.Token("account/7") > 0)
	_, err = locks.Mutex("account/7").TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, holdfast.ErrHeld))
	fmt.Println(leases.Release())

	err = both.Do(ctx, func(ctx context.Context) error {
		fmt.Println(holdfast.LeaseOf(ctx, "rates").Valid())
		return nil
	})
	fmt.Println(err)
	// Output:
	// [account/3 account/7 rates] true
	// a token each: true
	// taken: true
	// <nil>
	// true
	// <nil>
}

// One process begins a job and another finishes it. The name is taken all the
// time, and both have the same token.
func ExampleLease_Detach() {
	store := memstore.New()
	first, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	lease, err := first.Mutex("import/7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, err := lease.Detach()
	if err != nil {
		fmt.Println(err)
		return
	}
	text := ref.String() // sent by a file, a queue, an argument
	first.Close()        // and that process ends

	second, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()
	var read holdfast.Ref
	if err := read.UnmarshalText([]byte(text)); err != nil {
		fmt.Println(err)
		return
	}
	adopted, err := second.Adopt(ctx, read)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adopted.Release()
	fmt.Println(adopted.Name(), "the same token:", adopted.Token() == lease.Token())
	_, err = second.Adopt(ctx, read)
	fmt.Println("a second one:", errors.Is(err, holdfast.ErrLost))
	// Output:
	// import/7 the same token: true
	// a second one: true
}

// One of the candidates leads; when it resigns, or is lost, the next one does.
func ExampleElection() {
	store := memstore.New()
	candidate := func(name string) *holdfast.Election {
		locks, err := holdfast.New(store, &holdfast.Options{Note: name})
		if err != nil {
			panic(err)
		}
		return locks.Election("scheduler")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	anna, bert := candidate("anna"), candidate("bert")

	err := anna.Lead(ctx, func(ctx context.Context) error {
		for leader, err := range bert.Observe(ctx) {
			fmt.Println(leader.Note, "leads", err)
			break
		}
		return nil // the work is done
	})
	fmt.Println(err)
	lease, err := bert.Campaign(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("bert leads:", lease.Valid())
	lease.Release() // the leader resigns
	// Output:
	// anna leads <nil>
	// <nil>
	// bert leads: true
}

// Ten connections for the whole fleet; a backup takes four of them.
func ExampleSemaphore() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	connections := locks.Semaphore("database connections", 10)

	backup, err := connections.Acquire(ctx, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = connections.TryAcquire(ctx, 7)
	fmt.Println("seven more:", !errors.Is(err, holdfast.ErrHeld))
	rest, err := connections.TryAcquire(ctx, 6)
	fmt.Println("six more:", err == nil)

	rest.Release()
	backup.Release()
	// Output:
	// seven more: false
	// six more: true
}

// Read first, and write only if needed. Nobody else writes in between, and
// other readers are blocked only while this one writes.
func ExampleUpgradeableLease() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	config := locks.RWMutex("config")

	lease, err := config.Upgradeable().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	reader, err := config.Read().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = config.Upgradeable().TryLock(ctx)
	fmt.Println("one at a time:", errors.Is(err, holdfast.ErrHeld))
	fmt.Println("not beside a reader:", errors.Is(lease.TryUpgrade(ctx), holdfast.ErrHeld))

	reader.Release()
	read := lease.Token()
	fmt.Println("upgraded:", lease.Upgrade(ctx)) // waits until the readers have left
	fmt.Println("with a larger token:", lease.Token() > read)
	_, err = config.Read().TryLock(ctx)
	fmt.Println("alone:", errors.Is(err, holdfast.ErrHeld))

	fmt.Println("downgraded:", lease.Downgrade()) // other readers are admitted again, with no gap for a writer
	reader, err = config.Read().TryLock(ctx)
	fmt.Println("beside a reader:", err == nil && lease.Valid())
	reader.Release()
	// Output:
	// one at a time: true
	// not beside a reader: true
	// upgraded: <nil>
	// with a larger token: true
	// alone: true
	// downgraded: <nil>
	// beside a reader: true
}

// The context ends with the lease, with the reason as its cause. So work under
// the context stops when the lease ends.
func ExampleLease_Context() {
	locks := newLocker()
	defer locks.Close()
	lease, err := locks.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := lease.Context(context.Background())
	fmt.Println(ctx.Err())

	lease.Release() // ErrLost would be the cause if the lease were lost
	fmt.Println(ctx.Err(), errors.Is(context.Cause(ctx), holdfast.ErrReleased))
	// Output:
	// <nil>
	// context canceled true
}

// The work itself renews the lease, at each step. If a step hangs, the
// name comes free, although the process lives.
func ExampleLease_Renew() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	byHand := locks.With(&holdfast.Options{NoRenew: holdfast.On, TTL: time.Minute})
	lease, err := byHand.Mutex("import").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for step := range 3 {
		// Before each step: does this process still hold the lock, for long enough?
		if err := lease.Renew(ctx, 2*time.Minute); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("step", step, time.Until(lease.Deadline()) > time.Minute)
	}
	fmt.Println(lease.Release())
	fmt.Println(errors.Is(lease.Renew(ctx, time.Minute), holdfast.ErrReleased))
	// Output:
	// step 0 true
	// step 1 true
	// step 2 true
	// <nil>
	// true
}

// A name goes from one goroutine to the next waiter without a request
// to the store. There it stays one hold; each lease has a larger token.
func ExampleHandOver() {
	locks, err := holdfast.New(memstore.New(), &holdfast.Options{
		HandOver: &holdfast.HandOver{Times: 16, For: 20 * time.Millisecond}, // &HandOver{}: off
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	var wg sync.WaitGroup
	newest, inOrder := int64(0), true
	for range 10 {
		wg.Go(func() {
			locks.Mutex("counter").Do(ctx, func(ctx context.Context) error {
				token := holdfast.LeaseFrom(ctx).Token()
				inOrder = inOrder && token > newest
				newest = token
				return nil
			})
		})
	}
	wg.Wait()
	fmt.Println("each token is larger than the one before:", inOrder)
	// Output:
	// each token is larger than the one before: true
}

// A register keeps the largest token that it has seen and refuses smaller
// ones. So a holder that was stopped for minutes does no harm when it
// continues.
type register struct {
	mu    sync.Mutex
	token int64
	value string
}

func (r *register) write(token int64, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.token {
		return fmt.Errorf("token %d is stale", token)
	}
	r.token, r.value = token, value
	return nil
}

func ExampleLease_Token() {
	store := memstore.New()
	locks, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	var shared register

	slow, err := locks.Mutex("shared").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	store.Break("shared") // slow is stopped, and its lease expires
	next, err := locks.Mutex("shared").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("next writes:", shared.write(next.Token(), "new") == nil)
	fmt.Println("slow writes:", shared.write(slow.Token(), "old") == nil)
	fmt.Println(shared.value)
	// Output:
	// next writes: true
	// slow writes: false
	// new
}

// A library that locks by name, such as certmagic, gets a ByName.
func ExampleByName() {
	locks := newLocker()
	defer locks.Close()
	var theirs interface {
		Lock(ctx context.Context, name string) error
		Unlock(ctx context.Context, name string) error
	} = locks.ByName()

	ctx := context.Background()
	fmt.Println(theirs.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(theirs.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// <nil>
}
