package natsstore

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) (all []store.Finding) {
	if !s.nc.IsConnected() {
		return []store.Finding{{About: "connection", Err: fmt.Errorf("%w: there is no connection to %s", store.ErrUnavailable, s.address)}}
	}
	all = append(all, store.Finding{About: "server", Found: "NATS " + s.nc.ConnectedServerVersion() + " at " + hosts([]string{s.nc.ConnectedUrlRedacted()})})
	ctx, cancel := bound(ctx)
	defer cancel()
	f := store.Finding{About: "bucket " + s.o.Bucket}
	stream, err := s.js.Stream(ctx, s.streamName())
	switch {
	case isNotFound(err):
		f.Found = fmt.Sprintf("it is not there: the first claim makes it, on %s", servers(s.o.Replicas))
	case err != nil:
		f.Err = s.failed("look at the bucket", err)
	default:
		info := stream.CachedInfo()
		if f.Err = s.suits(&info.Config); f.Err != nil {
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
