// Package redisnames watches names on a Redis server: it calls their watchers when a message about a name is published.
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

// A Names holds the watched channels on one server and the connection that is subscribed to them, which is open while
// there are any. Its methods are safe for concurrent use. Set the exported fields before you use it.
type Names struct {
	Life  context.Context // ends everything
	Tasks *sync.WaitGroup // counts the background goroutines

	// Open opens a connection with at least one subscription.
	Open func(ctx context.Context) (*redis.PubSub, error)
	// Try makes a message arrive on the connection. It is called once per Every. If it fails, or nothing has arrived
	// since the last call, the connection is closed.
	Try   func(ctx context.Context, sub *redis.PubSub) error
	Every time.Duration
	// A broken connection is reopened after a pause between these.
	Least, Most time.Duration

	mu          sync.Mutex
	of          map[string]*channel
	sub         *redis.PubSub // nil while there is none
	keeps, idle bool          // keeps: keep is running; idle: the connection is no longer needed
	differ      chan struct{} // signals that the watched channels have changed
}

// A channel is a watched channel. Names.mu guards it.
type channel struct {
	watchers map[*watcher]bool
	asked    bool          // the open connection has sent the subscription
	isOpen   bool          // the server has confirmed a subscription at least once
	open     chan struct{} // closed once isOpen is set or the channel was given up
	err      error         // why it was given up
}

// A watcher is one caller of Watch.
type watcher struct {
	changed func()
	stopped atomic.Bool
}

// Watch calls changed for each message on the channel, from its return until stop is called. It also calls changed each
// time the server confirms the subscription again, as messages may have been missed. If the first attempt to subscribe
// fails, the channel is given up with that error. You can call stop more than once.
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

// differs signals that the watched channels have changed. n.mu is held.
func (n *Names) differs() {
	select {
	case n.differ <- struct{}{}:
	default: // a signal is pending already
	}
}

// keep keeps the connection open while any channel is watched.
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

// broke updates the state after the connection broke, and reports whether no connection is needed any more. It gives
// up a channel that was never confirmed, because the server may refuse that channel.
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

// read delivers messages from one connection until it breaks or no channel is watched any more.
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
	alive := new(atomic.Bool) // something was received since the last try
	// Closing the connection is the only way to end a blocked Receive.
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

// tend updates the subscriptions and tests the connection. It returns when the connection must be closed.
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

// notify handles a message or a confirmation on a channel. The first confirmation opens the channel. After that it calls
// the watchers: something has changed, or may have changed before a new confirmation.
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

// follow subscribes to channels that are newly watched and unsubscribes from the rest. It reports whether the
// connection is still needed.
func (n *Names) follow(ctx context.Context, sub *redis.PubSub) bool {
	var more, less []string
	n.mu.Lock()
	if n.sub != sub { // a newer connection has replaced it
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
		_ = sub.Subscribe(ctx, more...) // the reader notices a failure
	}
	return true
}
