//go:build !holdfast_lean

package open

import (
	"net/url"

	"github.com/holdfast-go/holdfast/mongostore"
	"github.com/holdfast-go/holdfast/store"
)

// The driver of MongoDB has much to do at the start of every program that is
// linked with it: as that of etcd, it is left out with the tag holdfast_lean.
func mongodb(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := mongostore.Open(rawURL, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}
