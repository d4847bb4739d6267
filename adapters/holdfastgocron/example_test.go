package holdfastgocron_test

import (
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastgocron"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleNewLocker() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	locker := holdfastgocron.NewLocker(locks, 10*time.Second)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan struct{})
	_, err = scheduler.NewJob(
		gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(func() {
			fmt.Println("the lease is valid:", locker.Lease("report").Valid())
			close(ran)
		}),
		gocron.WithName("report"),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-ran
	if err := scheduler.Shutdown(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the lease is valid: true
}

func ExampleNewElector() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	elector := holdfastgocron.NewElector(locks.Election("scheduler"))
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan struct{}, 1)
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
		select {
		case ran <- struct{}{}:
		default:
		}
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-ran // returns once this process leads
	fmt.Println("we lead")
	if err := scheduler.Shutdown(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// we lead
}
