package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// pingEvery is how often the connection of a mailbox is tested. If nothing arrived
	// since the last test, the connection is broken.
	pingEvery = 5 * time.Second
	// A broken mailbox is reopened after a pause between these.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// Watch implements [store.Watcher]. It has one subscription, on its own connection, until
// Close. An error matches store.ErrDenied if the user may not subscribe.
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	open := make(chan error, 1)
	w := &mailbox{s: s, channel: s.channel(p), sink: sink}
	watching, stop := context.WithCancel(s.ctx)
	s.tasks.Go(func() {
		defer stop()
		w.run(watching, open)
	})
	var err error
	select {
	case err = <-open:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
		err = s.ctx.Err()
	}
	if err != nil {
		stop()
		denied := forbids(err.Error())
		err = s.failed(fmt.Sprintf("subscribe to %q", w.channel), err)
		if denied {
			err = &deafError{err, s.grant("+subscribe", "+ping", "&"+s.prefix+"*")} //mutant:redis-who-is-deaf-is-told
		}
		return err
	}
	return nil
}

// A mailbox receives the notifications for one process.
type mailbox struct {
	s       *Store
	channel string
	sink    func(store.Notification)
	alive   atomic.Bool // something arrived since the last ping
}

// run keeps the mailbox open until ctx ends. It sends the outcome of the first attempt to
// open; if that fails, run returns.
func (w *mailbox) run(ctx context.Context, open chan<- error) {
	opened := false
	pause := leastPause
	for {
		err := w.read(ctx, func() {
			pause = leastPause
			if opened {
				w.sink(store.Notification{}) // some notifications may have been missed
			}
			opened = true
			select {
			case open <- nil:
			default:
			}
		})
		if !opened {
			open <- err
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, mostPause)
	}
}

// read delivers messages from one subscription until its connection breaks or ctx ends.
// It calls subscribed when the server has confirmed the subscription.
func (w *mailbox) read(ctx context.Context, subscribed func()) error {
	sub := w.subscribe(ctx)
	// Closing the connection is the only way to end a blocked Receive.
	closing, stop := context.WithCancel(ctx)
	w.s.tasks.Go(func() {
		w.ping(closing, sub)
		sub.Close()
	})
	defer stop()
	for {
		m, err := sub.Receive(ctx)
		if err != nil {
			return err
		}
		w.alive.Store(true)
		switch m := m.(type) {
		case *redis.Subscription:
			subscribed()
		case *redis.Message:
			if h, ok := w.s.notification(m.Payload); ok {
				w.sink(h)
			}
		}
	}
}

// subscribe subscribes at the server. In a cluster each server passes messages on to all,
// so it takes a random one that has names: go-redis always takes the same one, which may
// be dead.
func (w *mailbox) subscribe(ctx context.Context) *redis.PubSub {
	if _, ok := w.s.client.(*redis.ClusterClient); ok {
		if servers, err := w.s.masters(ctx); err == nil {
			return servers[rand.N(len(servers))].Subscribe(ctx, w.channel)
		}
	}
	return w.s.client.Subscribe(ctx, w.channel)
}

// ping tests the mailbox, and returns when the mailbox must be closed.
func (w *mailbox) ping(ctx context.Context, sub *redis.PubSub) {
	tick := time.NewTicker(w.s.pingEvery)
	defer tick.Stop()
	w.alive.Store(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.alive.Swap(false) || w.try(ctx, sub) != nil {
			return
		}
	}
}

// try sends the mailbox a message, as others would. A server that has left its cluster, or
// was cut off from its primary, still answers on the connection but delivers nothing. If the
// publish fails (no right, or not now), the server must answer a ping instead.
func (w *mailbox) try(ctx context.Context, sub *redis.PubSub) error {
	message := once{redis.NewIntCmd(ctx, "publish", w.channel, "")}
	err := w.s.client.Process(ctx, message) //mutant:redis-mailbox-at-primary
	if err == nil {
		return nil
	}
	if elsewhere(err) {
		w.s.reload()
	}
	return sub.Ping(ctx)
}

// once is a command that the client does not retry.
type once struct{ redis.Cmder }

func (once) NoRetry() bool { return true }

// notification reads a message: token (with "+" and the size of its block, unless that is 1),
// id and key. It drops the token if replicas or the disk must confirm a grant first.
func (s *Store) notification(payload string) (h store.Notification, ok bool) {
	part := strings.SplitN(payload, " ", 3)
	if len(part) != 3 {
		return h, false
	}
	first, size, isBlock := strings.Cut(part[0], "+")
	token, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return h, false
	}
	n := 0
	if isBlock {
		if n, err = strconv.Atoi(size); err != nil {
			return h, false
		}
	} else if token != 0 {
		n = 1
	}
	id, err := store.ParseID(part[1])
	if err != nil {
		return h, false
	}
	name, ok := s.name(part[2])
	if s.confirms() { //mutant:redis-hint-without-grant
		token, n = 0, 0
	}
	return store.Notification{Name: name, ID: id, Token: token, N: n}, ok
}
