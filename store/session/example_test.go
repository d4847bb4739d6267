package session_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// Two processes have sessions on one server, which here is in memory. An entry of the first
// names its session, so the second can check whether the entry still counts.
func ExampleSet() {
	ctx := context.Background()
	server := recordtest.NewMemory(recordtest.Options{})
	process := func() *session.Set {
		return session.NewSet(server.Client(), func() { fmt.Println("a session of this process is over") })
	}
	one, other := process(), process()
	defer other.Close(ctx)

	// The session begins with its first entry, and is renewed from then on.
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
	other.Trust(0) // for this example: earlier answers do not count any more
	fmt.Println("it lives:", lives())
	// Output:
	// it lives: true
	// it lives: false
}
