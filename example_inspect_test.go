package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// Who holds which tenant, and who waits?
func ExampleLocker_List() {
	locks := newLocker().With(&holdfast.Options{Note: "worker 7"})
	defer locks.Close()
	ctx := context.Background()
	for _, name := range []string{"tenant/b", "tenant/a", "invoice/42"} {
		if _, err := locks.Mutex(name).TryLock(ctx); err != nil {
			fmt.Println(err)
		}
	}

	names, err := locks.List(ctx, "tenant/")
	if err != nil {
		fmt.Println(err)
	}
	for _, s := range names {
		for _, h := range s.Holders {
			fmt.Println(s.Name, "is held by", h.Note, "to", h.Mode, "with", len(s.Waiters), "waiting")
		}
	}
	// Output:
	// tenant/a is held by worker 7 to write with 0 waiting
	// tenant/b is held by worker 7 to write with 0 waiting
}

// An operator breaks the lock of a job that hangs. The holder receives the reason and the name
// of the operator.
func ExampleLocker_Break() {
	locks, err := holdfast.New(memstore.New(), &holdfast.Options{RenewEvery: 300 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	lease, err := locks.Mutex("nightly").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	status, err := locks.Look(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range status.Holders {
		err := locks.Break(ctx, holdfast.Break{
			Name: "nightly", ID: h.ID, Token: h.Token, By: "alice", Reason: "it hangs",
		})
		fmt.Println("broken:", err == nil)
	}
	<-lease.Lost() // with its next renewal
	fmt.Println("lost:", errors.Is(lease.Release(), holdfast.ErrLost))
	// Output:
	// broken: true
	// lost: true
}

// A leader publishes what it is doing, and others read it.
func ExampleLease_SetNote() {
	locks := newLocker()
	defer locks.Close()
	ctx := context.Background()
	election := locks.Election("scheduler")
	term, err := election.Campaign(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("we lead:", election.IsLeader())

	if err := term.SetNote("step 2 of 5"); err != nil {
		fmt.Println(err)
	}
	for { // it is sent with a renewal
		leader, err := election.Leader(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		if leader.Note != "" {
			fmt.Println("the leader is at", leader.Note)
			break
		}
	}
	fmt.Println("resigned:", term.Release() == nil, election.IsLeader())
	// Output:
	// we lead: true
	// the leader is at step 2 of 5
	// resigned: true false
}

// A claim that waits is reported by an event, with the holder that it waits for.
func ExampleEvent() {
	reported := make(chan string, 10)
	locks, err := holdfast.New(memstore.New(), &holdfast.Options{Observer: func(e holdfast.Event) {
		held := (*holdfast.HeldError)(nil)
		if e.Kind == holdfast.EventWaiting && errors.As(e.Err, &held) && len(held.Holders) > 0 {
			reported <- fmt.Sprintf("%s waits for %s, %d before it", e.Name, held.Holders[0].Note, held.Waiting)
		}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lease, err := locks.With(&holdfast.Options{Note: "worker 7"}).Semaphore("gpu", 1).Acquire(context.Background(), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	waiting := make(chan error)
	go func() {
		waiting <- locks.Semaphore("gpu", 1).Slots(1).Do(context.Background(), func(context.Context) error { return nil })
	}()
	fmt.Println(<-reported)
	fmt.Println(lease.Release(), <-waiting)
	// Output:
	// gpu waits for worker 7, 0 before it
	// <nil> <nil>
}
