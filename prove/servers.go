//go:build !holdfast_files

package prove

import (
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/redisstore/redlock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

func openRedis(rawURL string, dial Dial) (store.Store, error) {
	return opened(redisstore.Open(rawURL, &redisstore.Options{Dialer: dial}))
}

func openRedlock(rawURL string, dial Dial) (store.Store, error) {
	return opened(redlock.Open(rawURL, &redlock.Options{Dialer: dial}))
}

func openZooKeeper(rawURL string, dial Dial) (store.Store, error) {
	servers, o, err := zkstore.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.Dial = dial
	return opened(zkstore.New(servers, o))
}
