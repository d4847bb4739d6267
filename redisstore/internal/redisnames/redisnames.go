// Package redisnames has those who watch names on a Redis server called when something is published about them.
package redisnames

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Names is the channels on one server that somebody watches, and the connection that is subscribed to them, for as long
// as there are any. Its methods are safe for concurrent use. Its fields are set before they are used.
type Names struct {
	Life  context.Context // ends all
	Tasks *sync.WaitGroup // counts what goes on in the background

	// Open opens a connection that is subscribed to something.
	Open func(ctx context.Context) (*redis.PubSub, error)
	// Try has something arrive on the connection, if that works. It is called every so often, and closed once nothing does.
	Try   func(ctx context.Context, sub *redis.PubSub) error
	Every time.Duration
	// What breaks is opened again after a pause between these.
	Least, Most time.Duration

	mu          sync.Mutex
	of          map[string]*channel
	sub         *redis.PubSub // while there is one
	keeps, idle bool          // the connection is kept; and is not needed any more
	differ      chan struct{} // others are watched than before
}

// A channel is guarded by Names.mu.
type channel struct {
	watchers map[*watcher]bool
	asked    bool          // it is subscribed to, by the connection that is open
	isOpen   bool          // the server has confirmed that once
	open     chan struct{} // closed when it has, or when it was given up
	err      error         // why it was given up
}

// A watcher is one who watches a channel.
type watcher struct {
	changed func()
	stopped atomic.Bool
}

// Watch calls changed for each message on the channel from when it has returned on, until stop is called, and once the server has
// confirmed the subscription again, as some may have been missed. A channel is given up with the error of an attempt to subscribe
// to it for the first time. stop may be called more than once.
func (n *Names) Watch(ctx context.Context, name string, changed func()) (stop func(), err error) {
	one := &watcher{changed: changed}
	c := n.add(name, one)
	stop = func() { n.remove(c, one) }
	select {
	case <-c.open:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-n.Life.Done():
		err = n.Life.Err()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func (n *Names) add(name string, one *watcher) *channel {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.of[name]
	if c == nil {
		if n.of == nil {
			n.of, n.differ = map[string]*channel{}, make(chan struct{}, 1)
		}
		c = &channel{watchers: map[*watcher]bool{}, open: make(chan struct{})}
		n.of[name] = c
	}
	c.watchers[one] = true
	if !n.keeps && n.Life.Err() == nil {
		n.keeps = true
		n.Tasks.Go(n.keep)
	}
	n.differs()
	return c
}

func (n *Names) remove(c *channel, one *watcher) {
	if one.stopped.Swap(true) { //mutant:redis-name-watched-for-ever
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if delete(c.watchers, one); len(c.watchers) == 0 {
		n.differs()
	}
}

// differs has the connection follow what is watched. n.mu is held.
func (n *Names) differs() {
	select {
	case n.differ <- struct{}{}:
	default: // it will
	}
}

// keep keeps the connection open for as long as any name is watched.
func (n *Names) keep() {
	pause := n.Least
	for {
		err := n.read(func() { pause = n.Least })
		if n.broke(err) {
			return
		}
		select {
		case <-n.Life.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, n.Most)
	}
}

// broke notes that the connection has broken, and reports whether none is needed any more. What was never
// confirmed is given up: the server may refuse just that.
func (n *Names) broke(err error) (done bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, c := range n.of {
		c.asked = false                 //mutant:redis-names-subscribed-again
		givenUp := !c.isOpen && !n.idle //mutant:redis-denied-name-is-given-up
		if givenUp {
			c.err = err
			close(c.open)
		}
		if givenUp || n.Life.Err() != nil || len(c.watchers) == 0 {
			delete(n.of, name)
		}
	}
	n.sub, n.idle, n.keeps = nil, false, len(n.of) > 0
	n.differs()
	return !n.keeps
}

// read delivers what arrives on one connection, until that breaks, or no name is watched any more.
func (n *Names) read(subscribed func()) error {
	ctx, stop := context.WithCancel(n.Life)
	defer stop()
	sub, err := n.Open(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.sub = sub
	n.mu.Unlock()
	alive := new(atomic.Bool) // a sign of life has come since it was tried last
	// Closing is what ends a read that waits.
	n.Tasks.Go(func() {
		n.tend(ctx, sub, alive)
		sub.Close()
	})
	for {
		m, err := sub.Receive(ctx)
		if err != nil {
			return err
		}
		alive.Store(true)
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				subscribed()
				n.notify(m.Channel)
			}
		case *redis.Message:
			n.notify(m.Channel) //mutant:redis-watcher-is-told
		}
	}
}

// tend has the connection follow what is watched, and tries it. It returns once it must be closed.
func (n *Names) tend(ctx context.Context, sub *redis.PubSub, alive *atomic.Bool) {
	tick := time.NewTicker(n.Every)
	defer tick.Stop()
	alive.Store(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.differ:
			if !n.follow(ctx, sub) {
				return
			}
		case <-tick.C:
			if !alive.Swap(false) || n.Try(ctx, sub) != nil {
				return
			}
		}
	}
}

// notify calls those who watch a channel: something has changed, or it may have while nobody was
// subscribed, if the server confirms that once more.
func (n *Names) notify(name string) {
	var all []*watcher
	n.mu.Lock()
	switch c := n.of[name]; {
	case c == nil:
	case !c.isOpen:
		c.isOpen = true
		close(c.open)
	default:
		all = slices.Collect(maps.Keys(c.watchers))
	}
	n.mu.Unlock()
	for _, one := range all {
		if !one.stopped.Load() {
			one.changed()
		}
	}
}

// follow subscribes to what is watched by now and was not before, and ends the rest. It reports whether the
// connection is needed still.
func (n *Names) follow(ctx context.Context, sub *redis.PubSub) bool {
	var more, less []string
	n.mu.Lock()
	if n.sub != sub { // another follows
		n.differs()
		n.mu.Unlock()
		return false
	}
	for name, c := range n.of {
		switch {
		case len(c.watchers) == 0:
			delete(n.of, name)
			if c.asked {
				less = append(less, name)
			}
		case !c.asked:
			c.asked = true
			more = append(more, name)
		}
	}
	n.idle = len(n.of) == 0
	idle := n.idle
	n.mu.Unlock()
	if idle {
		return false
	}
	if len(less) > 0 {
		_ = sub.Unsubscribe(ctx, less...) //mutant:redis-name-unsubscribed
	}
	if len(more) > 0 {
		_ = sub.Subscribe(ctx, more...) // what fails is noticed by the reader
	}
	return true
}
