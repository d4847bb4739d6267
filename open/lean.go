//go:build holdfast_lean

package open

import (
	"fmt"
	"net/url"

	"github.com/holdfast-go/holdfast/store"
)

func etcd(string, *url.URL) (store.Store, error) { return nil, without("etcd") }

func natsURL(string, *url.URL) (store.Store, error) { return nil, without("NATS") }

func mongodb(string, *url.URL) (store.Store, error) { return nil, without("MongoDB") }

func without(driver string) error {
	return fmt.Errorf("%w: this program was built without the driver of %s, with the tag holdfast_lean", store.ErrUnsupported, driver)
}
