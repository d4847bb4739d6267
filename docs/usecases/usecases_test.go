package usecases_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// The code of docs/use-cases.md. page_test.go holds the page to it.

// locker is what one process has. A program makes it once, at its start, on
// redisstore.New(client, nil) for example; memstore is for goroutines and tests.
func locker(s *memstore.Store, o *holdfast.Options) *holdfast.Locker {
	locks, err := holdfast.New(s, o)
	if err != nil {
		log.Fatal(err)
	}
	return locks
}

func Example_oneOfTwenty() {
	store := memstore.New()
	var runs atomic.Int32

	var replicas sync.WaitGroup
	for range 20 {
		replicas.Go(func() {
			// MinHold keeps the name taken for ten minutes, for a replica whose clock is late.
			locks := locker(store, &holdfast.Options{MinHold: 10 * time.Minute})
			defer locks.Close()
			_, err := locks.Mutex("nightly").TryDo(context.Background(), func(ctx context.Context) error {
				runs.Add(1) // the job, which heeds ctx
				return nil
			})
			if err != nil { // an error of the job or of the store; if another replica holds the lock, err is nil
				log.Println(err)
			}
		})
	}
	replicas.Wait()
	fmt.Println("runs:", runs.Load())
	// Output: runs: 1
}

func Example_withoutOverlap() {
	locks := locker(memstore.New(), &holdfast.Options{MaxHold: 2 * time.Hour}) // ends a run that hangs
	defer locks.Close()
	run := func(work func(context.Context) error) {
		ran, err := locks.Mutex("sync").TryDo(context.Background(), work)
		fmt.Println("ran:", ran, err)
	}

	run(func(ctx context.Context) error {
		run(func(ctx context.Context) error { return nil }) // the timer fires while the last run goes on
		return nil
	})
	run(func(ctx context.Context) error { return nil })
	// Output:
	// ran: false <nil>
	// ran: true <nil>
	// ran: true <nil>
}

func Example_leader() {
	store := memstore.New()
	one := locker(store, &holdfast.Options{Note: "10.0.0.1:8080"}) // what others need to know
	two := locker(store, &holdfast.Options{Note: "10.0.0.2:8080"})
	defer one.Close()
	defer two.Close()
	ctx := context.Background()

	// Lead campaigns, runs the function while we lead, and campaigns again if the term is lost.
	err := one.Election("scheduler").Lead(ctx, func(ctx context.Context) error {
		leader, err := two.Election("scheduler").Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println("requests go to", leader.Note)
		fmt.Println("two leads:", two.Election("scheduler").IsLeader())
		return nil // the work is done: resign
	})
	if err != nil {
		log.Fatal(err)
	}

	term, err := two.Election("scheduler").Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer term.Release()
	fmt.Println("two leads:", two.Election("scheduler").IsLeader())
	// Output:
	// requests go to 10.0.0.1:8080
	// two leads: false
	// two leads: true
}

func Example_atMostThree() {
	locks := locker(memstore.New(), nil)
	defer locks.Close()
	exports := locks.Semaphore("exports", 3) // at most three run at a time, in the whole fleet
	var inside, most, done atomic.Int32

	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			err := exports.Slots(1).Do(context.Background(), func(ctx context.Context) error {
				n := inside.Add(1)
				defer inside.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				done.Add(1) // the export
				return nil
			})
			if err != nil {
				log.Println(err)
			}
		})
	}
	workers.Wait()
	fmt.Println("done:", done.Load(), "never more than three:", most.Load() <= 3)
	// Output: done: 10 never more than three: true
}

func Example_readersAndWriter() {
	locks := locker(memstore.New(), nil)
	defer locks.Close()
	ctx := context.Background()
	catalog := locks.RWMutex("catalog")

	report, err := catalog.Read().Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	search, err := catalog.Read().Lock(ctx) // beside the other reader
	if err != nil {
		log.Fatal(err)
	}
	_, err = catalog.Write().TryLock(ctx)
	fmt.Println("a writer beside readers:", !errors.Is(err, holdfast.ErrHeld))

	report.Release()
	search.Release()
	err = catalog.Write().Do(ctx, func(ctx context.Context) error {
		fmt.Println("the writer is alone")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// a writer beside readers: false
	// the writer is alone
}

func Example_severalNames() {
	locks := locker(memstore.New(), nil)
	defer locks.Close()
	balance := map[string]int{"anna": 100, "bert": 100}
	transfer := func(from, to string, amount int) {
		// All or none, in one order whatever the order given: nobody waits in a circle.
		accounts := locks.All(locks.Mutex("account/"+from), locks.Mutex("account/"+to))
		err := accounts.Do(context.Background(), func(ctx context.Context) error {
			balance[from] -= amount
			balance[to] += amount
			return nil
		})
		if err != nil {
			log.Println(err)
		}
	}

	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { transfer("anna", "bert", 2) })
		all.Go(func() { transfer("bert", "anna", 1) })
	}
	all.Wait()
	fmt.Println(balance)
	// Output: map[anna:50 bert:150]
}

func Example_anotherProcess() {
	store := memstore.New()
	ctx := context.Background()

	// The process that accepts the upload takes the lock, and hands it on.
	web := locker(store, nil)
	lease, err := web.Mutex("video/7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ref, err := lease.Detach() // the name stays taken for one more TTL
	if err != nil {
		log.Fatal(err)
	}
	message := ref.String() // put it into the queue, with the work
	web.Close()

	// The worker that gets the message goes on under the same token.
	worker := locker(store, nil)
	defer worker.Close()
	var got holdfast.Ref
	if err := got.UnmarshalText([]byte(message)); err != nil {
		log.Fatal(err)
	}
	adopted, err := worker.Adopt(ctx, got)
	if err != nil {
		log.Fatal(err) // holdfast.ErrLost: it came too late, or another process has adopted it
	}
	defer adopted.Release()
	fmt.Println(adopted.Name(), "under the same token:", adopted.Token() == ref.Token)
	// Output: video/7 under the same token: true
}

// account stands for a resource that keeps the newest token: a column beside the data.
type account struct {
	mu    sync.Mutex
	fence int64
	state string
}

// write is one step, as UPDATE account SET state = $1, fence = $2 WHERE id = $3 AND fence <= $2 is.
func (a *account) write(state string, token int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.fence {
		return fmt.Errorf("token %d is older than %d: too late", token, a.fence)
	}
	a.state, a.fence = state, token
	return nil
}

func Example_fence() {
	store := memstore.New()
	locks := locker(store, nil)
	defer locks.Close()
	ctx := context.Background()
	var resource account

	late, err := locks.Mutex("account/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Break("account/42") // as if its process had been stopped for longer than the TTL
	next, err := locks.Mutex("account/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release()

	fmt.Println("the next holder writes:", resource.write("closed", next.Token()) == nil)
	fmt.Println("the late one is refused:", resource.write("open", late.Token()) != nil)
	fmt.Println(resource.state)
	// Output:
	// the next holder writes: true
	// the late one is refused: true
	// closed
}

func Example_deadline() {
	locks := locker(memstore.New(), &holdfast.Options{Note: "deployed by anna"})
	defer locks.Close()
	lease, err := locks.Mutex("deploy").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = locks.Mutex("deploy").Lock(ctx)
	var held *holdfast.HeldError
	if errors.As(err, &held) && errors.Is(err, context.DeadlineExceeded) {
		fmt.Println("gave up:", held.Holders[0].Note)
	}
	// Output: gave up: deployed by anna
}

func Example_tryAndGoOn() {
	store := memstore.New()
	here, there := locker(store, nil), locker(store, nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()
	if _, err := there.Mutex("feed/2").TryLock(ctx); err != nil { // another worker is at it
		log.Fatal(err)
	}

	for _, feed := range []string{"feed/1", "feed/2", "feed/3"} {
		lease, err := here.Mutex(feed).TryLock(ctx)
		switch {
		case errors.Is(err, holdfast.ErrHeld):
			fmt.Println(feed, "is being worked on elsewhere")
			continue
		case err != nil: // the store does not answer, or refuses us
			log.Fatal(err)
		}
		fmt.Println(feed, "is ours")
		lease.Release()
	}
	// Output:
	// feed/1 is ours
	// feed/2 is being worked on elsewhere
	// feed/3 is ours
}

func Example_askToGiveUp() {
	store := memstore.New()
	batch := locker(store, nil)
	urgent := locker(store, &holdfast.Options{AskToGiveUp: "an operator waits"})
	defer batch.Close()
	defer urgent.Close()
	ctx := context.Background()

	lease, err := batch.Mutex("gpu/0").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var job sync.WaitGroup
	job.Go(func() {
		<-lease.AskedToGiveUp() // between two steps of a long job, in a select
		fmt.Println("asked:", lease.GiveUpReason())
		lease.Release() // it could also go on: nothing is taken from it
	})

	next, err := urgent.Mutex("gpu/0").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release()
	job.Wait()
	fmt.Println("the operator has it:", next.Valid())
	// Output:
	// asked: an operator waits
	// the operator has it: true
}

func Example_singleFlight() {
	store := memstore.New()
	var computed atomic.Int32
	var cache sync.Map // shared by the replicas: Redis, a table, a bucket
	get := func(locks *holdfast.Locker, key string) (value any, err error) {
		if value, ok := cache.Load(key); ok {
			return value, nil
		}
		err = locks.Mutex("cache/"+key).Do(context.Background(), func(ctx context.Context) error {
			var ok bool
			if value, ok = cache.Load(key); ok { // somebody has computed it while we waited
				return nil
			}
			computed.Add(1)
			value = "expensive"
			cache.Store(key, value)
			return nil
		})
		return value, err
	}

	var replicas sync.WaitGroup
	for range 5 {
		replicas.Go(func() {
			locks := locker(store, nil)
			defer locks.Close()
			if value, err := get(locks, "report"); err != nil || value != "expensive" {
				log.Println(value, err)
			}
		})
	}
	replicas.Wait()
	fmt.Println("computed:", computed.Load())
	// Output: computed: 1
}

func Example_migrations() {
	store := memstore.New()
	version, want := 3, 5 // of the schema, which is read and written under the lock
	start := func(name string) {
		locks := locker(store, &holdfast.Options{Note: name})
		defer locks.Close()
		err := locks.Mutex("schema").Do(context.Background(), func(ctx context.Context) error {
			for version < want {
				if err := ctx.Err(); err != nil { // the lock was lost: the next replica goes on
					return err
				}
				version++ // a migration, in a transaction
			}
			return nil
		})
		if err != nil {
			log.Println(name, "does not start:", err)
		}
	}

	var replicas sync.WaitGroup
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		replicas.Go(func() { start(name) })
	}
	replicas.Wait()
	fmt.Println("version", version)
	// Output: version 5
}

func Example_shutdown() {
	locks := locker(memstore.New(), nil)
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	begun, imported := make(chan bool), make(chan error)
	go func() {
		imported <- locks.Mutex("import").Do(context.Background(), func(ctx context.Context) error {
			close(begun)
			<-term.Done() // the work goes on past the signal
			return ctx.Err()
		})
	}()
	<-begun
	stop() // stands for the signal

	<-term.Done()
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Second) // less than the grace period
	defer cancel()
	fmt.Println("all was given back:", locks.Shutdown(soon) == nil)
	fmt.Println("the work was not cut off:", <-imported == nil)
	_, err := locks.Mutex("import").TryLock(context.Background())
	fmt.Println("nothing new:", errors.Is(err, holdfast.ErrClosed))
	// Output:
	// all was given back: true
	// the work was not cut off: true
	// nothing new: true
}

func Example_lookAndBreak() {
	store := memstore.New()
	job := locker(store, &holdfast.Options{Note: "nightly import", RenewEvery: 300 * time.Millisecond})
	operator := locker(store, nil)
	defer job.Close()
	defer operator.Close()
	ctx := context.Background()
	lease, err := job.Mutex("nightly").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	status, err := operator.Look(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	for _, holder := range status.Holders {
		fmt.Println(holder.Note, "holds it,", len(status.Waiters), "wait")
		err := operator.Break(ctx, holdfast.Break{
			Name: "nightly", ID: holder.ID, Token: holder.Token, By: "anna", Reason: "it hangs",
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	<-lease.Lost() // with its next renewal
	fmt.Println("the holder knows:", errors.Is(lease.Release(), holdfast.ErrLost))
	// Output:
	// nightly import holds it, 0 wait
	// the holder knows: true
}
