package holdfastkube_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastkube"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lock, err := holdfastkube.New(locks, "my-operator", "pod-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock, // of a manager: ctrl.Options.LeaderElectionResourceLockInterface
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer stop()
				ctx = lock.Lease().Context(ctx) // ends when the lease is lost
				fmt.Println("leading:", ctx.Err() == nil)
			},
			OnStoppedLeading: func() { fmt.Println("stopped") },
		},
	})
	// Output:
	// leading: true
	// stopped
}
