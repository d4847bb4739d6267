package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// Two Lockers on one memory store act like two processes. Use this to test code
// that locks, and its behavior while the store is away.
func Example() {
	store := memstore.New()
	one, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer one.Close()
	two, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer two.Close()

	ctx := context.Background()
	lease, err := one.Mutex("invoice/42").Lock(ctx)
	fmt.Println("the first has it:", err == nil && lease.Valid())
	_, err = two.Mutex("invoice/42").TryLock(ctx)
	fmt.Println("the second is refused:", errors.Is(err, holdfast.ErrHeld))

	store.Fail(func(op, name string) error { return errors.New("the network is down") })
	_, err = two.Mutex("invoice/43").TryLock(ctx)
	fmt.Println("the store is away:", errors.Is(err, holdfast.ErrUnavailable))
	store.Fail(nil)
	fmt.Println(lease.Release())
	// Output:
	// the first has it: true
	// the second is refused: true
	// the store is away: true
	// <nil>
}

// A test of a job that must stop when its lease is lost.
func ExampleStore_Break() {
	store := memstore.New()
	locks, err := holdfast.New(store, &holdfast.Options{
		TTL: time.Second, RenewEvery: 10 * time.Millisecond, // the loss is found by a renewal
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	err = locks.Mutex("report").Do(context.Background(), func(ctx context.Context) error {
		store.Break("report")
		<-ctx.Done() // the job, which ends with its context
		fmt.Println("stopped:", errors.Is(context.Cause(ctx), holdfast.ErrLost))
		return ctx.Err()
	})
	fmt.Println("lost:", errors.Is(err, holdfast.ErrLost))
	// Output:
	// stopped: true
	// lost: true
}
