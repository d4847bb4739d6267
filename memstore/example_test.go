package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// importAll is a job as you may have one: it works in steps until it is done
// or its context ends.
func importAll(ctx context.Context, step func()) error {
	for range 100 {
		select {
		case <-time.After(time.Second):
			step()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// What does a job do when its lease is lost? In a bubble of testing/synctest
// that takes no time: the memory store and the lease live in its virtual time.
func TestExampleAJobStopsWhenItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks, err := holdfast.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()

		steps := 0
		time.AfterFunc(12*time.Second, func() { store.Break("import") })
		err = locks.Mutex("import").Do(t.Context(), func(ctx context.Context) error {
			return importAll(ctx, func() { steps++ })
		})
		if !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("the job ended with %v, want ErrLost", err)
		}
		// It was told at the next renewal, 20 seconds after the grant.
		if steps < 12 || steps > 20 {
			t.Fatalf("the job made %d steps", steps)
		}
	})
}

// What does a job do while the store is away? It works on until its lease would
// run out, and no longer.
func TestExampleAJobStopsBeforeItsLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks, err := holdfast.New(store, &holdfast.Options{TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()

		start := time.Now()
		away := errors.New("the store is away")
		err = locks.Mutex("import").Do(t.Context(), func(ctx context.Context) error {
			store.Fail(func(op, name string) error { return away })
			defer store.Fail(nil)
			return importAll(ctx, func() {})
		})
		if !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("the job ended with %v, want ErrLost", err)
		}
		if ran := time.Since(start); ran < 29*time.Second || ran >= 30*time.Second {
			t.Fatalf("the job ran for %v of the 30 seconds", ran)
		}
	})
}
