package redlock

import (
	"context"
	"math/bits"
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
	leastReopen = 50 * time.Millisecond
	mostReopen  = 3 * time.Second
)

// Watch implements [store.Watcher]. It has one subscription per node, each on its own
// connection, until Close. It returns once a majority is subscribed; the others follow, and
// each then makes all waiters poll. A notification for a claim's newest number is passed on
// once per number. A notification that a waiter asks a hold to give up is passed on once per
// waiter. None carries a token.
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	need := len(s.nodes)/2 + 1
	if err := s.ready(ctx, need); err != nil {
		return s.ended("subscribe to", s.channel(p), err)
	}
	open, returned := make(chan error), make(chan struct{})
	defer close(returned)
	watching, stop := context.WithCancel(s.ctx)
	for _, n := range s.nodes {
		w := &mailbox{n: n, channel: s.channel(p), open: open, returned: returned, sink: func(h store.Notification, p int64) {
			if h == (store.Notification{}) || s.fresh(h, p, n, sink) {
				sink(h)
			}
		}}
		s.tasks.Go(func() { w.run(watching) })
	}
	s.tasks.Go(func() { // Close ends it, or a failure of Watch
		<-watching.Done()
		stop()
	})
	opened, errs := 0, []error(nil)
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	for opened+len(errs) < len(s.nodes) {
		select {
		case err := <-open:
			if err == nil {
				opened++
			} else {
				errs = append(errs, err)
			}
		case <-timer.C:
			errs = append(errs, make([]error, len(s.nodes)-opened-len(errs))...)
		case <-ctx.Done():
			stop()
			return s.ended("subscribe to", s.channel(p), ctx.Err())
		case <-s.ctx.Done():
			return store.ErrClosed
		}
		if opened >= need && len(errs)+opened < len(s.nodes) {
			timer.Reset(min(s.timeout, s.straggle))
		}
	}
	if opened < need {
		stop()
		errs = withoutNil(errs)
		return s.tooFew("subscribe to", s.channel(p), opened, need, errs)
	}
	return nil
}

func withoutNil(errs []error) (out []error) {
	for _, err := range errs {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// gather is how long a notification waits for those of other nodes, which a release sends at
// the same time. An ask after the first one would be refused by the other nodes.
const gather = time.Millisecond

// fresh reports whether a notification about the number p is to be passed on to its claim. One
// about an older number is not: the newer ask has seen the change, or gets its own
// notification. One about the newest number is passed on when a majority has sent it, or
// after gather.
func (s *Store) fresh(h store.Notification, p int64, n *node, sink func(store.Notification)) bool {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	cl := s.claims.of[h.ID]
	if p < 0 { // the waiter with order -p asks the hold to give up
		news := cl != nil && cl.held && cl.askedBy != -p //mutant:redlock-asked-by-each-node
		if news {
			cl.askedBy = -p
		}
		return news
	}
	if cl == nil || cl.held || cl.p != p || cl.notified == p {
		return false
	}
	if cl.notifying != p {
		cl.notifying, cl.notifications = p, 0
		time.AfterFunc(gather, func() {
			s.claims.mu.Lock()
			late := !cl.held && cl.p == p && cl.notified != p
			if late {
				cl.notified = p
			}
			s.claims.mu.Unlock()
			if late && s.ctx.Err() == nil {
				sink(h)
			}
		})
	}
	cl.notifications |= 1 << n.i
	if bits.OnesCount32(cl.notifications) <= len(s.nodes)/2 {
		return false
	}
	cl.notified = p
	return true
}

// A mailbox receives the notifications of one node for one process.
type mailbox struct {
	n       *node
	channel string
	sink    func(h store.Notification, p int64)
	alive   atomic.Bool // something arrived since the last ping

	open     chan<- error    // takes the outcome of the first attempt
	returned <-chan struct{} // closed when Watch has returned
	reported bool            // the outcome was reported
}

// run keeps the mailbox open until ctx ends.
func (w *mailbox) run(ctx context.Context) {
	for pause := leastReopen; ; pause = min(2*pause, mostReopen) {
		err := w.read(ctx, func() {
			pause = leastReopen
			w.report(nil)
		})
		if !w.reported {
			w.report(w.n.failed(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// report gives Watch the outcome of the first attempt. After that, each time the mailbox opens
// it makes all waiters poll, because notifications may have been missed.
func (w *mailbox) report(err error) {
	if !w.reported {
		w.reported = true
		select {
		case w.open <- err:
			return
		case <-w.returned: //mutant:redlock-opened-late
		}
	}
	if err == nil {
		w.sink(store.Notification{}, 0)
	}
}

// read delivers messages from one subscription until its connection breaks or ctx ends.
// It calls subscribed when the server has confirmed the subscription.
func (w *mailbox) read(ctx context.Context, subscribed func()) error {
	if err := w.n.isAway(); err != nil { // a connection attempt would fail, and take long
		return err
	}
	sub := w.n.client.Subscribe(ctx, w.channel)
	// Closing the connection is the only way to end a blocked Receive.
	closing, stop := context.WithCancel(ctx)
	w.n.s.tasks.Go(func() {
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
			if h, p, ok := w.n.s.notification(m.Payload); ok {
				w.sink(h, p)
			}
		}
	}
}

// ping tests the connection, and returns when the connection must be closed.
func (w *mailbox) ping(ctx context.Context, sub *redis.PubSub) {
	tick := time.NewTicker(w.n.s.pingEvery)
	defer tick.Stop()
	w.alive.Store(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.alive.Swap(false) || sub.Ping(ctx) != nil {
			return
		}
	}
}

// notification reads a message: number, id and key.
func (s *Store) notification(payload string) (h store.Notification, p int64, ok bool) {
	part := strings.SplitN(payload, " ", 3)
	if len(part) != 3 {
		return h, 0, false
	}
	p, err := strconv.ParseInt(part[0], 10, 64)
	if err != nil {
		return h, 0, false
	}
	id, err := store.ParseID(part[1])
	if err != nil {
		return h, 0, false
	}
	name, ok := s.name(part[2])
	return store.Notification{Name: name, ID: id}, p, ok //mutant:redlock-hint-without-number
}
