package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisnames"
	"github.com/holdfast-go/holdfast/store"
)

// WatchName implements [store.NameWatcher]. The channel of a name is its key, on each node. WatchName returns
// once a majority is subscribed; the others follow. Each node publishes its own changes, so changed is called
// for each node, and once more when all nodes have had time to make the change: by then a majority has it or
// never will.
func (s *Store) WatchName(ctx context.Context, name string, changed func()) (stop func(), err error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	need := len(s.nodes)/2 + 1
	if err := s.ready(ctx, need); err != nil {
		return nil, s.ended("subscribe to", name, err)
	}
	watching, end := context.WithCancel(s.ctx)
	w := &nameWatch{changed: changed, after: s.timeout, ended: watching}
	first := make(chan error, len(s.nodes))
	for _, n := range s.nodes {
		s.tasks.Go(func() { w.at(n, s.key(name), first) })
	}
	stop = func() {
		end()
		w.stop()
	}
	heard, errs := 0, []error(nil)
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	for heard < need && len(errs) <= len(s.nodes)-need {
		select {
		case err := <-first:
			if err == nil {
				heard++
			} else {
				errs = append(errs, err)
			}
		case <-timer.C:
			stop()
			return nil, s.tooFew("subscribe to", name, heard, need, errs)
		case <-ctx.Done():
			stop()
			return nil, s.ended("subscribe to", name, ctx.Err())
		case <-s.ctx.Done():
			stop()
			return nil, store.ErrClosed
		}
	}
	if heard < need {
		stop()
		return nil, s.tooFew("subscribe to", name, heard, need, errs)
	}
	return stop, nil
}

// A nameWatch watches a name on all nodes.
type nameWatch struct {
	changed func()
	after   time.Duration   // by then all nodes have done the same
	ended   context.Context // done when the watch ends

	mu    sync.Mutex
	timer *time.Timer // the later call
}

// at watches the name on one node until the watch ends. It sends the outcome of the first attempt. When a later
// attempt succeeds it calls notify, because changes may have been missed.
func (w *nameWatch) at(n *node, channel string, first chan<- error) {
	for again := false; ; again = true {
		stop, err := n.names().Watch(w.ended, channel, w.notify)
		if !again {
			if err != nil {
				err = n.failed(err)
			}
			first <- err
		}
		if err == nil {
			if again {
				w.notify() //mutant:redlock-name-heard-late
			}
			<-w.ended.Done()
			stop()
			return
		}
		select {
		case <-w.ended.Done():
			return
		case <-time.After(mostReopen):
		}
	}
}

// notify calls changed now, and once more later.
func (w *nameWatch) notify() {
	w.mu.Lock()
	if w.ended.Err() != nil {
		w.mu.Unlock()
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.after, func() {
			if w.ended.Err() == nil {
				w.changed() //mutant:redlock-name-told-once
			}
		})
	} else {
		w.timer.Reset(w.after)
	}
	w.mu.Unlock()
	w.changed()
}

func (w *nameWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// newNames returns an empty Names.
func (n *node) newNames() *redisnames.Names {
	own := n.s.channel(store.NewProcess()) // the connection needs at least one subscription
	return &redisnames.Names{
		Life: n.s.ctx, Tasks: &n.s.tasks, Every: n.s.pingEvery, Least: leastReopen, Most: mostReopen,
		Try: func(ctx context.Context, sub *redis.PubSub) error { return sub.Ping(ctx) },
		Open: func(ctx context.Context) (*redis.PubSub, error) {
			if err := n.isAway(); err != nil { // a connection attempt would fail, and take long
				return nil, err
			}
			return n.client.Subscribe(ctx, own), nil
		},
	}
}

// isAway returns why the node is down, or nil.
func (n *node) isAway() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.state != down:
		return nil
	case n.err == nil:
		return errors.New("it is away")
	}
	return n.err
}
