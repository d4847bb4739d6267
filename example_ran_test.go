package holdfast_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// An error of Do says whether the function was called. If it was, another
// try would run it a second time.
func ExampleReleaseError() {
	store := memstore.New()
	locks, err := holdfast.New(store, nil)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	sendInvoices := func(context.Context) error {
		fmt.Println("the invoices are on their way")
		return nil
	}

	report := func(err error) {
		after := (*holdfast.ReleaseError)(nil)
		switch {
		case err == nil:
			fmt.Println("done")
		case errors.Is(err, holdfast.ErrNotRun):
			fmt.Println("nothing was sent, try again later")
		case errors.As(err, &after) && after.Err == nil:
			fmt.Println("sent, but the name was not given back")
		default:
			fmt.Println("sending failed:", err)
		}
	}

	denied := fmt.Errorf("%w: the server has become read-only", holdfast.ErrDenied)
	for _, fails := range []string{"", "release", "ask"} {
		store.Fail(func(op, _ string) error {
			if op == fails {
				return denied
			}
			return nil
		})
		report(locks.Mutex("invoices "+fails).Do(context.Background(), sendInvoices))
	}
	store.Fail(nil)
	// Output:
	// the invoices are on their way
	// done
	// the invoices are on their way
	// sent, but the name was not given back
	// nothing was sent, try again later
}
