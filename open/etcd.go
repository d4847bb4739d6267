//go:build !holdfast_lean

package open

import (
	"net/url"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/store"
)

// The driver of etcd takes three milliseconds at the start of every program that
// is linked with it. So the command is built without as well, with the tag
// holdfast_lean.
func etcd(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := etcdstore.Open(rawURL)
	if err != nil {
		return nil, err
	}
	return s, nil
}
