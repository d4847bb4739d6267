package holdfasttusd_test

import (
	"context"
	"fmt"
	"os"

	tusfiles "github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfasttusd"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleNew() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	locker := holdfasttusd.New(locks, "tusd/")
	composer := handler.NewStoreComposer()
	tusfiles.New(os.TempDir()).UseIn(composer) // for a fleet: s3store, or another data store that all share
	locker.UseIn(composer)
	if _, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer}); err != nil {
		fmt.Println(err)
		return
	}

	// This is what tusd does for each request.
	lock, err := locker.NewLock("upload")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := lock.Lock(context.Background(), func() { fmt.Println("another request asks for it") }); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the lease is valid:", locker.Lease("upload").Valid())
	if err := lock.Unlock(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the lease is valid: true
}
