package open_test

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/open"
)

// A program that reads the store's URL from its environment imports the packages of the stores that it should know, or
// open/all.
func ExampleURL() {
	url := os.Getenv("LOCKS_OF_THIS_PROGRAM")
	if url == "" {
		url = "mem:"
	}
	store, err := open.URL(url)
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
	err = locks.Mutex("nightly").Do(context.Background(), func(context.Context) error {
		fmt.Println("ours")
		return nil
	})
	fmt.Println(err)
	// Output:
	// ours
	// <nil>
}
