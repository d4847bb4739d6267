package zkstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// WatchRecord implements [record.NameWatcher].
func (b *backend) WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error) {
	watching, stop := context.WithCancel(b.ctx)
	begun := make(chan struct{})
	first := sync.OnceFunc(func() { close(begun) })
	b.tasks.Go(func() {
		defer stop()
		for pause := leastPause; watching.Err() == nil; pause = min(2*pause, mostPause) {
			_ = b.watchNode(watching, b.nameNode(name), func() {
				pause = leastPause
				select {
				case <-begun:
					changed() //mutant:zk-observer-not-told
				default:
					first()
				}
			})
			select {
			case <-watching.Done():
			case <-time.After(pause/2 + rand.N(pause)):
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

// watchNode watches a node, whether it exists or not, until the session or the context ends. It
// calls notify once the node is watched, and after each event once it is watched again. So a change that
// a read in notify does not see causes another event.
func (b *backend) watchNode(ctx context.Context, path string, notify func()) error {
	d, err := b.connected(ctx)
	if err != nil {
		return err
	}
	for what := (watched{path, false}); ; {
		events := d.expect(what)
		_, err := ask(ctx, d.link, func(c *zk.Conn) (there bool, err error) {
			err = d.asking(what, func() (err error) {
				there, _, err = c.Exists(path)
				return err
			})
			return there, err
		})
		if err != nil {
			d.unexpect(what, events)
			return err
		}
		notify()
		select {
		case e := <-events:
			if e.Type == zk.EventNotWatching {
				return zk.ErrSessionExpired
			}
		case <-ctx.Done():
			d.unexpect(what, events)
			return ctx.Err()
		}
	}
}
