package etcdstore

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// Who listens watches one key, the mailbox of the process; each letter to it replaces the one before. A letter has one
// notification behind the other: ID, session, token, how many, length of the name, name.

// A watch that broke is begun anew after a pause between these.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// mailTime is how long a letter stays that nobody listens for.
const mailTime = 5 * time.Minute

const letterHead = len(store.ID{}) + len(session.ID{})

// letters are the operations that write letters, one for each process.
func (b *backend) letters(ctx context.Context, all []record.Notification) (puts []clientv3.Op, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	lease, err := b.mailLease(ctx)
	if err != nil {
		return nil, err
	}
	letters := map[store.Process][]byte{}
	for _, n := range all {
		p := n.ID.Process()
		l := append(append(letters[p], n.ID[:]...), n.Session[:]...)
		for _, x := range []int64{n.Token, int64(n.N), int64(len(n.Name))} {
			l = binary.AppendUvarint(l, uint64(x))
		}
		letters[p] = append(l, n.Name...)
	}
	for p, l := range letters {
		puts = append(puts, clientv3.OpPut(b.mailbox(p), string(l), clientv3.WithLease(lease)))
	}
	return puts, nil
}

// deliver delivers what a letter has, up to where it is damaged.
func deliver(letter []byte, sink func(record.Notification)) {
	for len(letter) > letterHead {
		n := record.Notification{ID: store.ID(letter[:16]), Session: session.ID(letter[16:letterHead])}
		letter = letter[letterHead:]
		var x [3]uint64
		for i := range x {
			k := 0
			if x[i], k = binary.Uvarint(letter); k <= 0 {
				return
			}
			letter = letter[k:]
		}
		if x[2] > uint64(len(letter)) {
			return
		}
		n.Token, n.N, n.Name = int64(x[0]), int(x[1]), string(letter[:x[2]])
		letter = letter[x[2]:]
		sink(n)
	}
}

// Listen implements [record.Backend].
func (b *backend) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	begun := make(chan struct{})
	first := true
	heard := func(r *clientv3.WatchResponse) {
		if r.Created && first {
			first = false
			close(begun)
		} else if r.Created {
			// What came meanwhile was missed.
			sink(record.Notification{}) //mutant:etcd-nobody-looks-once-watch
		}
		for _, e := range r.Events {
			deliver(e.Kv.Value, sink)
		}
	}
	b.tasks.Go(func() {
		for pause := leastPause; ; pause = min(2*pause, mostPause) {
			one, cancel := context.WithCancel(clientv3.WithRequireLeader(b.ctx))
			for r := range b.client.Watch(one, b.mailbox(p), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()) {
				if r.Err() != nil {
					break // no leader, a member lost, a compaction
				}
				pause = leastPause
				heard(&r)
			}
			cancel()
			select {
			case <-b.ctx.Done():
				return
			case <-time.After(pause/2 + rand.N(pause)):
			}
		}
	})
	select {
	case <-begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}
