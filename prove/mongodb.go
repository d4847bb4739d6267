//go:build !holdfast_lean

package prove

import (
	"github.com/holdfast-go/holdfast/mongostore"
	"github.com/holdfast-go/holdfast/store"
)

func openMongoDB(rawURL string, dial Dial) (store.Store, error) {
	return opened(mongostore.Open(rawURL, dial))
}
