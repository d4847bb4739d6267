//go:build !holdfast_lean

package prove

import (
	"github.com/holdfast-go/holdfast/mssqlstore"
	"github.com/holdfast-go/holdfast/store"
)

func openSQLServer(rawURL string, dial Dial) (store.Store, error) {
	return opened(mssqlstore.Open(rawURL, &mssqlstore.Options{Dial: mssqlstore.Dial(dial)}))
}
