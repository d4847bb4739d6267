//go:build !holdfast_lean

package open

import (
	"net/url"

	"github.com/holdfast-go/holdfast/natsstore"
	"github.com/holdfast-go/holdfast/store"
)

// The driver of NATS brings packages that work at the start of every program.
func natsURL(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := natsstore.Open(rawURL)
	if err != nil {
		return nil, err
	}
	return s, nil
}
