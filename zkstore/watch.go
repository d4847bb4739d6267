package zkstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

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

// A target is what is watched: one node, or the children of that of the name.
type target struct {
	watched
	only bool // nothing else is in the way: when the node has gone there is room
}

func (m *mine) unwatch() {
	if m.watching != nil {
		m.watching.cancel()
		m.watching = nil
	}
}

// watchFor has a claim that waits, or whose upgrade does, wake its owner. s.mu is
// held.
func (s *Store) watchFor(m *mine, v *view, r *row) {
	if s.sink == nil || m.state == gone {
		return
	}
	at := s.target(m.name, v, r)
	if m.watching != nil && m.watching.at.path == at.path {
		return
	}
	m.unwatch()
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watching{at, cancel}
	m.watching = w
	name, id, sess, sink, upgrade := m.name, m.id, m.sess, s.sink, r.granted
	s.tasks.Go(func() {
		defer cancel()
		if !s.watch(ctx, sess, w, name, id, upgrade) {
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

func (s *Store) target(name string, v *view, r *row) target {
	if b := v.obstacle(r); b != nil && !r.granted { //mutant:zk-watch-obstacle
		rest := r.weight
		for i := range v.rows {
			if a := &v.rows[i]; a == r {
				break
			} else if a != b {
				rest += a.weight
			}
		}
		return target{watched{b.path, false}, rest <= r.limit}
	}
	return target{watched: watched{s.nameNode(name), true}}
}

// watch returns true when the claim has something to look for, and false when
// ctx has ended. If another entry is found to be in the way, it watches that.
func (s *Store) watch(ctx context.Context, sess *session, w *watching, name string, id store.ID, upgrade bool) bool {
	pause := leastPause
	at := w.at
	for {
		events, err := s.watchOne(ctx, sess, at.watched)
		if err == nil {
			// What came before the watch was there is seen now.
			hint, next, err := s.news(ctx, sess, name, id, at, upgrade)
			switch {
			case hint:
				sess.wire.unexpect(at.watched, events)
				return true
			case err == nil && next.path != at.path:
				sess.wire.unexpect(at.watched, events)
				s.mu.Lock()
				at, w.at = next, next
				s.mu.Unlock()
				continue
			case err != nil:
				sess.wire.unexpect(at.watched, events)
			case events != nil:
				pause = leastPause
				select {
				case <-ctx.Done():
					sess.wire.unexpect(at.watched, events)
					return false
				case e := <-events:
					if at.only && e.Type == zk.EventNodeDeleted {
						return true
					}
					if e.Type != zk.EventNotWatching {
						continue
					}
				}
			}
		}
		// It broke: the session is over, or no member answers.
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, mostPause)
	}
}

// watchOne begins to watch; there are no events if the node has gone. To watch for
// a node that is not there would leave something behind in the server.
func (s *Store) watchOne(ctx context.Context, sess *session, at watched) (<-chan zk.Event, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	events := sess.wire.expect(at)
	_, err := s.await(ctx, func() error {
		return sess.wire.asking(at, func() (err error) {
			if at.children {
				_, _, err = sess.conn.Children(at.path)
			} else {
				_, _, err = sess.conn.Get(at.path)
			}
			return err
		})
	})
	if err == nil {
		return events, nil
	}
	sess.wire.unexpect(at, events)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return nil, err
}

// news reports whether the claim should be asked for, and else what to watch from
// now on.
func (s *Store) news(ctx context.Context, sess *session, name string, id store.ID, at target, upgrade bool) (hint bool, next target, err error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	v, err := s.look(ctx, sess, name)
	if err != nil {
		return store.Definite(err), at, err
	}
	own := v.find(id)
	switch {
	case upgrade: // of what has gone, a renewal tells
		return own != nil && own.upgraded, at, nil
	case own == nil:
		return true, at, nil
	}
	return own.granted && !v.frozen, s.target(name, v, own), nil
}
