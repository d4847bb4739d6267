package etcdstore

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// WatchRecord implements [record.NameWatcher].
func (b *backend) WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error) {
	begun := make(chan struct{})
	first := sync.OnceFunc(func() { close(begun) })
	stop = b.watch(b.nameKey(name), func(r *clientv3.WatchResponse) {
		select {
		case <-begun: // an event, or what came between two watches was missed
			changed() //mutant:etcd-observer-not-told
		default:
			first()
			if len(r.Events) > 0 {
				changed()
			}
		}
	})
	select {
	case <-begun:
		return stop, nil
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	case <-b.ctx.Done():
		return nil, b.ctx.Err()
	}
}
