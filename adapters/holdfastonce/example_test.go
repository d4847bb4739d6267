package holdfastonce_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastonce"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	var cache sync.Map // shared by the processes: Redis, a table, a bucket
	reports := holdfastonce.New(locks, holdfastonce.Cache[string]{
		Get: func(_ context.Context, key string) (string, bool, error) {
			value, ok := cache.Load(key)
			if !ok {
				return "", false, nil
			}
			return value.(string), true, nil
		},
		Set: func(_ context.Context, key, value string) error {
			cache.Store(key, value)
			return nil
		},
	})

	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			report, err := reports.Do(context.Background(), "report", func(context.Context) (string, error) {
				fmt.Println("computed")
				return "42 pages", nil
			})
			if err != nil || report != "42 pages" {
				fmt.Println(report, err)
			}
		})
	}
	callers.Wait()
	// Output:
	// computed
}
