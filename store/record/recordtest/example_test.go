package recordtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// A swap is done and its answer is lost. So it cannot be told from one that was not done, but by
// reading what is there.
func ExampleClient_Fates() {
	ctx := context.Background()
	server := recordtest.NewMemory(recordtest.Options{})
	c := server.Client()
	defer c.Close()
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpSwap {
			return recordtest.Unanswered
		}
		return recordtest.Answered
	})

	_, err := c.Swap(ctx, &record.Swap{Name: "nightly", Data: []byte("mine")})
	fmt.Println("not answered:", errors.Is(err, recordtest.ErrNoAnswer))
	r, err := c.Load(ctx, "nightly")
	fmt.Printf("there is: %s, %v\n", r.Data, err)
	// Output:
	// not answered: true
	// there is: mine, <nil>
}
