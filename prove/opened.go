//go:build !(holdfast_lean && holdfast_files)

package prove

import "github.com/holdfast-go/holdfast/store"

// opened converts what a store's Open returned.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}
