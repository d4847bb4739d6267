//go:build holdfast_lean

package all

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// leftOut is the schemes of the stores whose drivers are not here, by the name of the store.
var leftOut = map[string][]string{"etcd": {"etcd"}, "NATS": {"nats", "nats+tls"}, "MongoDB": {"mongodb", "mongodb+srv"}, "SQL Server": {"sqlserver"}}

func init() {
	for driver, schemes := range leftOut {
		scheme.Register(without(driver), schemes...)
	}
}

func without(driver string) func(string) (store.Store, error) {
	return func(string) (store.Store, error) {
		return nil, fmt.Errorf("%w: this program was built without the driver of %s: build it without the tag holdfast_lean, or use one that was", store.ErrUnsupported, driver)
	}
}

// LeftOut reports whether the driver for a URL was left out of this program by the build tag holdfast_lean.
func LeftOut(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	for _, schemes := range leftOut {
		for _, s := range schemes {
			if strings.EqualFold(scheme, s) {
				return true
			}
		}
	}
	return false
}
