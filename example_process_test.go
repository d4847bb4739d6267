package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A program that must end accepts no new work, gives its running work some time,
// and releases its other locks.
func ExampleLocker_Shutdown() {
	locks := newLocker()
	ctx := context.Background()
	done := make(chan error)
	begun := make(chan bool)
	go func() {
		done <- locks.Mutex("import").Do(ctx, func(ctx context.Context) error {
			close(begun)
			time.Sleep(10 * time.Millisecond) // the work, which is not interrupted
			return ctx.Err()
		})
	}()
	<-begun

	soon, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fmt.Println("shut down:", locks.Shutdown(soon)) // on SIGTERM, for example
	fmt.Println("the work:", <-done)
	_, err := locks.Mutex("import").Lock(ctx)
	fmt.Println("new work:", errors.Is(err, holdfast.ErrClosed))
	// Output:
	// shut down: <nil>
	// the work: <nil>
	// new work: true
}

// Which locks does this process hold?
func ExampleLocker_Held() {
	locks := newLocker()
	defer locks.Close()
	for _, name := range []string{"b", "a"} {
		if _, err := locks.Mutex(name).TryLock(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	for _, lease := range locks.Held() {
		fmt.Println(lease.Name())
		lease.Release()
	}
	fmt.Println(len(locks.Held()))
	// Output:
	// a
	// b
	// 0
}

// A request takes a lock and answers with its reference; another request, to another
// replica, gives it back.
func ExampleLocker_Release() {
	store := memstore.New()
	one, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer two.Close()
	ctx := context.Background()

	lease, err := one.Mutex("checkout/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, err := lease.Detach()
	if err != nil {
		fmt.Println(err)
		return
	}
	one.Close() // that replica has ended

	fmt.Println(two.Release(ctx, ref))
	_, err = two.Mutex("checkout/42").TryLock(ctx)
	fmt.Println("free:", err == nil)
	// Output:
	// <nil>
	// free: true
}

// Who holds the lock, and since when?
func ExampleHeldError() {
	locks := newLocker().With(&holdfast.Options{Note: "the nightly import"})
	defer locks.Close()
	ctx := context.Background()
	if _, err := locks.Mutex("orders").TryLock(ctx); err != nil {
		fmt.Println(err)
	}

	_, err := locks.Mutex("orders").TryLock(ctx)
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		for _, h := range held.Holders {
			fmt.Println(h.Note, "holds it, for less than a minute:", time.Since(h.Since) < time.Minute)
		}
	}
	// Output: the nightly import holds it, for less than a minute: true
}

// More than two requests that wait for one customer are too many for this service.
func ExampleOptions_maxWaiting() {
	type request struct{} // its number, in its context
	waits := make(chan any, 10)
	locks := newLocker().With(&holdfast.Options{MaxWaiting: 2, Observer: func(e holdfast.Event) {
		if e.Kind == holdfast.EventWaiting {
			waits <- e.Context.Value(request{})
		}
	}})
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	customer := locks.Mutex("customer/7")
	lease, err := customer.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	ended := make(chan error)
	for i := range 2 {
		go func() {
			_, err := customer.Lock(context.WithValue(ctx, request{}, i))
			ended <- err
		}()
		for <-waits != i { // until it waits
		}
	}
	_, err = customer.Lock(ctx)
	fmt.Println("the third is refused at once:", errors.Is(err, holdfast.ErrHeld))
	cancel()
	for range 2 {
		fmt.Println("the others waited on:", errors.Is(<-ended, context.Canceled))
	}
	// Output:
	// the third is refused at once: true
	// the others waited on: true
	// the others waited on: true
}

// Both names are renewed together, by the work itself.
func ExampleLeaseSet_Renew() {
	locks := newLocker().With(&holdfast.Options{NoRenew: holdfast.On, TTL: time.Minute})
	defer locks.Close()
	ctx := context.Background()
	leases, err := locks.All(locks.Mutex("account/3"), locks.Mutex("account/7")).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(leases.Renew(ctx, 2*time.Minute))
	fmt.Println(time.Until(leases.Deadline()) > time.Minute)
	fmt.Println(leases.Release())
	// Output:
	// <nil>
	// true
	// <nil>
}

// A function that is called under a lock finds the lease in its context, for the
// fencing token.
func ExampleLeaseFrom() {
	locks := newLocker()
	defer locks.Close()
	write := func(ctx context.Context) {
		lease := holdfast.LeaseFrom(ctx)
		fmt.Println(lease.Name(), "with a token:", lease.Token() > 0)
	}
	err := locks.Mutex("report").Do(context.Background(), func(ctx context.Context) error {
		write(ctx)
		return nil
	})
	fmt.Println(err)
	// Output:
	// report with a token: true
	// <nil>
}

// A replica that forwards requests to the leader follows changes of the leader.
func ExampleElection_Observe() {
	store := memstore.New()
	replica := func(address string) *holdfast.Locker {
		locks, err := holdfast.New(store, &holdfast.Options{Note: address})
		if err != nil {
			panic(err)
		}
		return locks
	}
	one, two := replica("10.0.0.1:8080"), replica("10.0.0.2:8080")
	defer one.Close()
	defer two.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var term *holdfast.Lease
	for leader, err := range two.Election("api").Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
		case leader.Nobody() && term == nil:
			fmt.Println("nobody leads")
			if term, err = one.Election("api").Campaign(ctx); err != nil {
				fmt.Println(err)
			}
		case leader.Nobody():
			fmt.Println("nobody leads any more")
			return
		default:
			fmt.Println("forward to", leader.Note)
			term.Release()
		}
	}
	// Output:
	// nobody leads
	// forward to 10.0.0.1:8080
	// nobody leads any more
}
