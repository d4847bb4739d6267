//go:build !holdfast_lean

package prove

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/store"
)

func openEtcd(rawURL string, dial Dial) (store.Store, error) {
	config, o, err := etcdstore.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	config.DialOptions = []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) }),
	}
	return opened(etcdstore.OpenConfig(config, o))
}
