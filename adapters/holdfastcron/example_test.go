package holdfastcron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastcron"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	ran := make(chan bool)
	job := holdfastcron.Func(func(ctx context.Context) error {
		lease := holdfast.LeaseFrom(ctx) // pass its Token to what the job writes to
		select {
		case ran <- lease.Valid():
		case <-ctx.Done(): // the lease is lost, or the program ends
		}
		return nil
	})
	running, end := context.WithCancel(context.Background())
	defer end()
	once := holdfastcron.OneProcess(running, locks, "report", &holdfastcron.Options{
		AtLeast: 100 * time.Millisecond,
		AtMost:  time.Minute,
	})
	c := cron.New()
	if _, err := c.AddJob("@every 1s", cron.NewChain(cron.Recover(cron.DefaultLogger), once).Then(job)); err != nil {
		fmt.Println(err)
		return
	}
	c.Start()
	fmt.Println("the lease is valid:", <-ran)
	end() // ends a run that has begun since
	<-c.Stop().Done()
	// Output:
	// the lease is valid: true
}
