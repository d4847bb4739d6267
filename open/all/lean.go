//go:build holdfast_lean

package all

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	scheme.Register(without("etcd"), "etcd")
	scheme.Register(without("NATS"), "nats", "nats+tls")
	scheme.Register(without("MongoDB"), "mongodb", "mongodb+srv")
}

func without(driver string) func(string) (store.Store, error) {
	return func(string) (store.Store, error) {
		return nil, fmt.Errorf("%w: this program was built without the driver of %s, with the tag holdfast_lean", store.ErrUnsupported, driver)
	}
}
