package etcdstore

import (
	"context"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// A watch that broke is begun anew after a pause between these.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// Watch implements [store.Watcher]. From now on each claim that waits watches
// the entry that is in its way, and that alone where there is one.
func (s *Store) Watch(_ context.Context, _ store.Process, sink func(store.Hint)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = sink
	return nil
}

// A watching is a claim that waits for something to change.
type watching struct {
	at     target
	cancel context.CancelFunc
}

// A target is what is watched: one key, or with an end all of the name.
type target struct {
	key, end string
	only     bool // nothing else is in the way: when the key has gone there is room
}

func (m *mine) unwatch() {
	if m.watching != nil {
		m.watching.cancel()
		m.watching = nil
	}
}

// await has a claim that waits, or whose upgrade does, wake its owner. s.mu is
// held.
func (s *Store) await(m *mine, v *view, r *row) {
	if s.sink == nil || m.state == gone {
		return
	}
	at := s.target(v, r)
	if m.watching != nil && m.watching.at.key == at.key {
		return
	}
	m.unwatch()
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watching{at, cancel}
	m.watching = w
	name, id, sink, upgrade := m.name, m.id, s.sink, r.granted
	s.tasks.Go(func() {
		defer cancel()
		if !s.watch(ctx, w, name, id, upgrade) {
			return
		}
		s.mu.Lock()
		live := m.watching == w
		if live {
			m.watching = nil // the look that follows begins another, if it must
		}
		s.mu.Unlock()
		if live {
			sink(store.Hint{Name: name, ID: id})
		}
	})
}

func (s *Store) target(v *view, r *row) target {
	if b := v.obstacle(r); b != nil && !r.granted {
		rest := r.weight
		for i := range v.rows {
			if a := &v.rows[i]; a == r {
				break
			} else if a != b {
				rest += a.weight
			}
		}
		return target{key: b.key, only: rest <= r.limit}
	}
	keys := s.keysOf(r)
	return target{key: keys, end: after(keys)}
}

// keysOf begins the keys of the row's name.
func (s *Store) keysOf(r *row) string {
	const tail = 8 + 1 + 8 + 1 + 32
	if r.kept {
		return r.key[:len(r.key)-tail-1]
	}
	return r.key[:len(r.key)-tail]
}

// watch returns true when the claim has something to look for, and false when
// ctx has ended. If another entry is found to be in the way, it watches that. It gives no revision to begin with: a watch from the past waits for
// a turn of the server's, up to 100 ms. So once it is there one look shows what
// was missed.
func (s *Store) watch(ctx context.Context, w *watching, name string, id store.ID, upgrade bool) bool {
	pause := leastPause
	at := w.at
	for {
		moved := false
		one, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		opts := []clientv3.OpOption{clientv3.WithCreatedNotify()} //mutant:etcd-nobody-looks-once-watch
		if at.end != "" {
			opts = append(opts, clientv3.WithRange(at.end))
		}
		for r := range s.client.Watch(one, at.key, opts...) {
			if r.Err() != nil {
				break
			}
			pause = leastPause
			hint, next := s.news(ctx, name, id, at, upgrade, &r)
			if hint {
				cancel()
				return true
			}
			if moved = next.key != at.key; moved {
				s.mu.Lock()
				at, w.at = next, next
				s.mu.Unlock()
				break
			}
		}
		cancel()
		if moved {
			continue
		}
		// It broke: no leader, a member lost, a compaction.
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, mostPause)
	}
}

// news reports whether what came means that the claim should be asked for, and
// else what to watch from now on.
func (s *Store) news(ctx context.Context, name string, id store.ID, at target, upgrade bool, r *clientv3.WatchResponse) (hint bool, next target) {
	if at.only && !r.Created {
		for _, e := range r.Events {
			if e.Type == mvccpb.DELETE {
				return true, at
			}
		}
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	v, err := s.look(ctx, name)
	if err != nil {
		return false, at // the next look is its owner's
	}
	own := v.find(id)
	switch {
	case upgrade: // of what has gone, a renewal tells
		return own != nil && own.upgraded, at
	case own == nil || own.Break != "":
		return true, at
	}
	return own.granted, s.target(v, own)
}
