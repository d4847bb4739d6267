package memstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// Two Lockers on one memory store are as two processes: for tests of code that
// locks, and of what it does when the store is away.
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
