//go:build holdfast_lean

package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	leaveOut(map[string][]string{"etcd": {"etcd"}, "NATS": {"nats", "nats+tls"}, "MongoDB": {"mongodb", "mongodb+srv"}, "SQL Server": {"sqlserver"}})
}

// leftOut has the schemes of the stores whose drivers are not here.
var leftOut []string

// leaveOut registers the schemes of stores whose drivers are not here, by the name of the store.
func leaveOut(stores map[string][]string) {
	for driver, schemes := range stores {
		scheme.Register(without(driver), schemes...)
		leftOut = append(leftOut, schemes...)
	}
}

func without(driver string) func(string) (store.Store, error) {
	return func(string) (store.Store, error) {
		return nil, fmt.Errorf("%w: this program was built without the driver of %s: build it without -tags holdfast_lean,holdfast_files", store.ErrUnsupported, driver)
	}
}

// LeftOut reports whether the driver for a URL was left out of this program by a build tag.
func LeftOut(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return slices.ContainsFunc(leftOut, func(s string) bool { return strings.EqualFold(scheme, s) })
}
