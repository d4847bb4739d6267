package filestore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
)

// All processes of a host that open this directory share its locks.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := filestore.Open(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ran, err := locks.Mutex("nightly").TryDo(context.Background(), func(ctx context.Context) error {
		fmt.Println("this process does it")
		return nil
	})
	fmt.Println(ran, err)
	// Output:
	// this process does it
	// true <nil>
}
