package all_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/open"
	_ "github.com/holdfast-go/holdfast/open/all" // or the packages of the stores that you want
)

// With the import of this package open.URL knows every store.
func Example() {
	for _, url := range []string{"redis://10.0.0.1:6379", "postgres://10.0.0.1/locks", "mem:"} {
		store, err := open.URL(url)
		if err != nil {
			fmt.Println(err)
			return
		}
		locks, err := holdfast.New(store, nil) // this does no I/O
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(url, "is open")
		locks.Close()
	}
	// Output:
	// redis://10.0.0.1:6379 is open
	// postgres://10.0.0.1/locks is open
	// mem: is open
}
