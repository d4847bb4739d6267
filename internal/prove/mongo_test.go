//go:build linux || darwin

package prove

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mongosim"
)

// What it proves is the store, not the server: that is a stand-in.
func TestTheMongoDBStoreIsProved(t *testing.T) {
	t.Parallel()
	proved(t, options(mongosim.Start(t, mongosim.Options{}).URI(), 1))
}
