//go:build holdfast_lean

package open

import (
	"fmt"
	"net/url"

	"github.com/holdfast-go/holdfast/store"
)

func etcd(string, *url.URL) (store.Store, error) {
	return nil, fmt.Errorf("%w: this program was built without the driver of etcd, with the tag holdfast_lean", store.ErrUnsupported)
}

func mongodb(string, *url.URL) (store.Store, error) {
	return nil, fmt.Errorf("%w: this program was built without the driver of MongoDB, with the tag holdfast_lean", store.ErrUnsupported)
}
