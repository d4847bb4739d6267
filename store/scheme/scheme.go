// Package scheme registers the URL schemes of the stores that a program links. A store's
// package registers its own when it is initialized, as a driver does with
// database/sql; package open opens URLs with the openers registered here. So a
// program links the drivers of the stores that it imports, and no others.
package scheme

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

var (
	mu      sync.RWMutex
	openers = map[string]func(rawURL string) (store.Store, error){}
	absent  = map[string]bool{} // schemes whose opener only returns an error that says why there is no store
)

// Register registers open for URLs of the schemes, which are in lower case and
// without the colon. It is for the init function of a store's package. open must
// not repeat the URL in an error, as it may hold a password, and returns one that
// matches store.ErrInvalid for a URL that it does not understand. Register panics
// if a scheme is registered already or cannot be one. It may be called by several
// goroutines at once.
func Register[S store.Store](open func(rawURL string) (S, error), schemes ...string) {
	mu.Lock()
	defer mu.Unlock()
	for _, scheme := range schemes {
		if scheme == "" || scheme != strings.ToLower(scheme) || strings.Contains(scheme, ":") {
			panic(fmt.Sprintf("scheme: %q cannot be the scheme of a URL: want it in lower case and without a colon", scheme))
		}
		if openers[scheme] != nil && !absent[scheme] {
			panic(fmt.Sprintf("scheme: %q is registered already", scheme))
		}
		openers[scheme] = func(rawURL string) (store.Store, error) {
			s, err := open(rawURL)
			if err != nil {
				return nil, err // not s: a nil pointer in an interface is not nil
			}
			return s, nil
		}
		delete(absent, scheme)
	}
}

// Absent registers why to return the error for URLs of the schemes, unless a store has registered them or does so
// later. It may be called by several goroutines at once.
func Absent(why func(rawURL string) error, schemes ...string) {
	mu.Lock()
	defer mu.Unlock()
	for _, scheme := range schemes {
		if openers[scheme] == nil {
			openers[scheme], absent[scheme] = func(rawURL string) (store.Store, error) { return nil, why(rawURL) }, true
		}
	}
}

// Opener returns the function that opens URLs of the scheme, in upper or lower
// case; nil: no linked store has such URLs. It is safe for concurrent use.
func Opener(scheme string) func(rawURL string) (store.Store, error) {
	mu.RLock()
	defer mu.RUnlock()
	return openers[strings.ToLower(scheme)]
}

// All returns the schemes that are registered, sorted. It may be called by several
// goroutines at once.
func All() []string {
	mu.RLock()
	defer mu.RUnlock()
	return slices.Sorted(maps.Keys(openers))
}
