package natsstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// checkPatience bounds Check: a server that hangs answers nothing.
const checkPatience = 4 * time.Second

// Check implements [record.Backend].
func (b *backend) Check(ctx context.Context) (all []store.Finding) {
	if !b.nc.IsConnected() {
		return []store.Finding{{About: "connection", Err: fmt.Errorf("%w: there is no connection to %s", store.ErrUnavailable, b.address)}}
	}
	all = append(all, store.Finding{About: "server", Found: "NATS " + b.nc.ConnectedServerVersion() + " at " + hosts([]string{b.nc.ConnectedUrlRedacted()})})
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	f := store.Finding{About: "bucket " + b.o.Bucket}
	stream, err := b.stream(ctx)
	switch {
	case isNotFound(err):
		f.Found = fmt.Sprintf("it is not there: the first claim makes it, on %s", servers(b.o.Replicas))
	case err != nil:
		f.Err = b.failed(err)
	default:
		info := stream.CachedInfo()
		if f.Err = b.suits(&info.Config); f.Err != nil {
			break
		}
		f.Found = "kept by " + servers(info.Config.Replicas)
		if info.Config.Replicas == 1 {
			f.Found += ": nobody gets a lock while that is down"
		}
		if info.Cluster != nil {
			for _, peer := range info.Cluster.Replicas {
				if peer.Offline || !peer.Current {
					f.Warning = true
					f.Found += fmt.Sprintf("; the replica %s is away or behind", peer.Name)
				}
			}
		}
	}
	return append(all, f, store.Finding{About: "durability", Found: "sync_interval of the servers cannot be seen from here: unless it is always, a power cut loses what they had just acknowledged, and two may hold a name"})
}

func servers(n int) string {
	if n == 1 {
		return "one server"
	}
	return fmt.Sprintf("%d servers", n)
}
