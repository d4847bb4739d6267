//go:build !holdfast_lean

package prove

import (
	"context"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/natsstore"
	"github.com/holdfast-go/holdfast/store"
)

// natsDialer is a Dial in the form that nats.go takes.
type natsDialer struct{ dial Dial }

func (d natsDialer) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return d.dial(ctx, network, addr)
}

func openNATS(rawURL string, dial Dial) (store.Store, error) {
	c, o, err := natsstore.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	c.CustomDialer = natsDialer{dial}
	return opened(natsstore.OpenConfig(c, o))
}
