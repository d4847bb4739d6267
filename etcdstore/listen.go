package etcdstore

import (
	"context"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// A listener watches one key, the mailbox of the process. Each letter replaces the previous one. A
// letter is a sequence of notifications: ID, session, token, how many, length of the name, name.

// Bounds of the pause before a broken watch is restarted.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// mailTime is how long a letter stays that has no listener.
const mailTime = 5 * time.Minute

// letters returns the operations that write letters, one per process.
func (b *backend) letters(ctx context.Context, all []record.Notification) (puts []clientv3.Op, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	lease, err := b.mailLease(ctx)
	if err != nil {
		return nil, err
	}
	letters := map[store.Process][]byte{}
	for i := range all {
		p := all[i].ID.Process()
		letters[p] = record.AppendNotifications(letters[p], all[i:i+1])
	}
	for p, l := range letters {
		puts = append(puts, clientv3.OpPut(b.mailbox(p), string(l), clientv3.WithLease(lease)))
	}
	return puts, nil
}

// Listen implements [record.Backend].
func (b *backend) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	_, err := b.watchFromNow(ctx, b.mailbox(p), func() {
		sink(record.Notification{}) //mutant:etcd-nobody-looks-once-watch
	}, func(e *clientv3.Event) {
		record.ParseNotifications(e.Kv.Value, sink)
	}, clientv3.WithFilterDelete())
	return err
}

// WatchRecord implements [record.NameWatcher].
func (b *backend) WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error) {
	return b.watchFromNow(ctx, b.nameKey(name), changed, func(*clientv3.Event) {
		changed() //mutant:etcd-observer-not-told
	})
}

// watchFromNow is watch, but returns once the server watches the key. It calls missed after a watch
// was restarted, because changes in between were missed.
func (b *backend) watchFromNow(ctx context.Context, key string, missed func(), notify func(*clientv3.Event), o ...clientv3.OpOption) (stop func(), err error) {
	begun := make(chan struct{})
	first := true
	stop = b.watch(key, func(r *clientv3.WatchResponse) {
		switch {
		case r.Created && first:
			first = false
			close(begun)
		case r.Created:
			missed()
		}
		for _, e := range r.Events {
			notify(e)
		}
	}, o...)
	select {
	case <-begun:
		return stop, nil
	case <-ctx.Done():
		stop() //mutant:etcd-failed-listen-goes-on
		return nil, ctx.Err()
	case <-b.ctx.Done():
		return nil, b.ctx.Err()
	}
}

// watch makes the server report changes of a key, until stop is called or the backend is closed. It
// restarts a broken watch. It also calls notify when a watch begins.
func (b *backend) watch(key string, notify func(*clientv3.WatchResponse), o ...clientv3.OpOption) (stop func()) {
	watching, stop := context.WithCancel(b.ctx)
	b.tasks.Go(func() {
		defer stop()
		for pause := leastPause; ; pause = min(2*pause, mostPause) {
			one, cancel := context.WithCancel(clientv3.WithRequireLeader(watching))
			for r := range b.client.Watch(one, key, append(o, clientv3.WithCreatedNotify())...) {
				if r.Err() != nil {
					break // no leader, a member lost, a compaction
				}
				pause = leastPause
				notify(&r)
			}
			cancel()
			select {
			case <-watching.Done():
				return
			case <-time.After(pause/2 + rand.N(pause)):
			}
		}
	})
	return stop
}
