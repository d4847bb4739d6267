package session_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// Two processes have sessions on one server, which here is in memory. What the first keeps names
// its session: so the second can ask whether it may count on that still.
func ExampleSet() {
	ctx := context.Background()
	server := recordtest.NewMemory(recordtest.Options{})
	process := func() *session.Set {
		return session.NewSet(server.Client(), func() { fmt.Println("a session of this process is over") })
	}
	one, other := process(), process()
	defer other.Close(ctx)

	// The session is begun with the first thing that it keeps, and is renewed from then on.
	kept, err := one.Present(ctx, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	kept.Enter()

	lives := func() bool {
		if err := other.Ask(ctx, []session.ID{kept.ID}); err != nil {
			fmt.Println(err)
		}
		left, known := other.Known(kept.ID)
		return known && left > 0
	}
	fmt.Println("it lives:", lives())

	kept.Leave()
	one.Close(ctx) // the process ends, and its sessions with it
	other.Trust(0) // for this example: what was heard a moment ago counts no more
	fmt.Println("it lives:", lives())
	// Output:
	// it lives: true
	// it lives: false
}
