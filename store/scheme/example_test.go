package scheme_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// The package of a store registers its scheme in its init function. Then open.URL knows it.
func ExampleRegister() {
	scheme.Register(func(rawURL string) (*memstore.Store, error) {
		return memstore.New(), nil // what the URL says would go here
	}, "toy")
	fmt.Println(scheme.Opener("toy") != nil, scheme.Opener("other") != nil)
	// Output: true false
}
