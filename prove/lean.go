//go:build holdfast_lean

package prove

import (
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
)

// openEtcd is an error that says why not.
func openEtcd(rawURL string, _ Dial) (store.Store, error) { return open.URL(rawURL) }

// openMongoDB is an error that says why not.
func openMongoDB(rawURL string, _ Dial) (store.Store, error) { return open.URL(rawURL) }

// openNATS is an error that says why not.
func openNATS(rawURL string, _ Dial) (store.Store, error) { return open.URL(rawURL) }
