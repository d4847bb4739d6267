package queue_test

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A store keeps a Queue for each name and applies each operation to it. A Queue has no clock:
// the time is passed in.
func Example() {
	var q queue.Queue
	now := queue.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	claim := func() *store.Claim {
		return &store.Claim{
			Name: "nightly", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full,
			TTL: time.Minute, PositionTTL: store.MaxPositionTTL,
		}
	}
	first, second := claim(), claim()
	a, _, _ := q.Ask(now, "nightly", first)
	fmt.Println("the first holds:", a.Granted)
	b, _, _ := q.Ask(now, "nightly", second)
	fmt.Println("the second holds:", b.Granted, "behind", b.Holding)

	change, err := q.Release(now, &store.Hold{Name: "nightly", ID: first.ID, Token: a.Token})
	fmt.Println("released:", err, "to be stored:", change.Wrote, "to be woken:", len(change.Woken))
	b, _, _ = q.Ask(now, "nightly", second)
	fmt.Println("the second holds:", b.Granted, "with a larger token:", b.Token > a.Token)
	// Output:
	// the first holds: true
	// the second holds: false behind 1
	// released: <nil> to be stored: true to be woken: 1
	// the second holds: true with a larger token: true
}
