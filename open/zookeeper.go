package open

import (
	"net/url"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

func zooKeeper(rawURL string, _ *url.URL) (store.Store, error) {
	s, err := zkstore.Open(rawURL)
	if err != nil {
		return nil, err
	}
	return s, nil
}
