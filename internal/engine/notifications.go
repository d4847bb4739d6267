package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// notifications passes the store's notifications to waiters and holds. All share one
// subscription, which is made when the first needs it and kept until close.
type notifications struct {
	e       *engine
	watcher store.Watcher // nil: this store has no notifications

	mu         sync.Mutex
	waiting    map[store.ID]chan store.Notification
	holds      map[store.ID]*hold // holds that notifications renew: see AskedToGiveUp
	unheard    recent             // ids of notifications without a listener
	subscribed bool
	under      chan struct{} // closed when the subscribe call under way ends; nil: there is none
	again      clock.Instant // after a failure: no new subscription before this
	noNotify   bool          // the newest failure was that the server has no notifications
}

const (
	// resubscribeAfter is how long after a failure the next subscription is tried;
	// until then waiters poll.
	resubscribeAfter = 5 * time.Second
	// noNotifyFor is how long no subscription is tried after the store reported that
	// this server has no notifications. That is no outage, and each try delays a claim;
	// but a proxy in between may be changed while this process lives.
	noNotifyFor = 10 * time.Minute
)

func (h *notifications) init(e *engine) {
	h.e = e
	h.watcher, _ = e.store.(store.Watcher)
	h.waiting = map[store.ID]chan store.Notification{}
	h.holds = map[store.ID]*hold{}
}

// ready reports whether the subscription has been made.
func (h *notifications) ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscribed
}

// toCome reports whether there is no subscription yet but one can be tried, or is being
// tried: not shortly after a failure.
func (h *notifications) toCome() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watcher != nil && !h.subscribed && (h.under != nil || h.e.now() >= h.again) //mutant:nobody-can-listen-tried-first
}

// subscribe starts the subscription if there is none, and returns when that has succeeded
// or failed, or when ctx ends. The subscription goes on when ctx ends.
func (h *notifications) subscribe(ctx context.Context, s *settings) {
	under := h.begin(s)
	if under == nil {
		return
	}
	select {
	case <-under:
	case <-ctx.Done():
	case <-h.e.closing:
	}
}

// begin starts to subscribe, and returns a channel that is closed when that has ended. It
// returns nil if the store has no notifications, there is a subscription already, or one
// has failed recently.
func (h *notifications) begin(s *settings) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watcher == nil || h.subscribed || h.under == nil && h.e.now() < h.again {
		return nil
	}
	if h.under == nil {
		under := make(chan struct{})
		h.under = under
		h.e.work.Go(func() { h.watch(s, under) })
	}
	return h.under
}

func (h *notifications) watch(s *settings, under chan struct{}) {
	ctx, cancel := context.WithTimeout(h.e.life, longestCall)
	defer cancel()
	err := h.watcher.Watch(ctx, h.e.process, h.deliver)
	h.mu.Lock()
	h.subscribed = err == nil
	h.again = h.e.now().Add(resubscribeAfter)
	told := h.noNotify
	if h.noNotify = errors.Is(err, store.ErrUnsupported); h.noNotify {
		h.again = h.e.now().Add(noNotifyFor) //mutant:nobody-can-listen-tried
	}
	told = told && h.noNotify //mutant:nobody-can-listen-said
	h.under = nil
	var listen []*hold
	if err == nil {
		// Waiters may have missed a notification, and so may holds that a waiter asks for.
		listen = h.wakeAll() //mutant:subscribed-again-looked
	}
	h.mu.Unlock()
	close(under)
	for _, of := range listen {
		h.e.sched.notified(of)
	}
	if err != nil && !told && !h.e.isClosing() {
		s.Logger.Warn("holdfast: no wake-ups, waiters poll", "store", h.e.desc.Store, "err", err, seeDoctor)
	}
}

// stop ends the subscription, as the store may outlive the engine. By then, nothing
// waits or subscribes any more.
func (h *notifications) stop() {
	if u, ok := h.watcher.(store.Unwatcher); ok {
		u.Unwatch(h.e.process) //mutant:closed-stays-subscribed
	}
}

// add registers a waiter. The channel has room for one notification, the newest.
func (h *notifications) add(id store.ID, ch chan store.Notification) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[id] = ch
}

func (h *notifications) remove(id store.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, id)
}

// addHold registers a hold that its notifications will renew. It reports whether one
// came before that.
func (h *notifications) addHold(of *hold) (missed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds[of.ID] = of
	return h.unheard.has(of.ID)
}

func (h *notifications) removeHold(of *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.holds, of.ID)
}

// deliver is the callback of the store. It never blocks.
func (h *notifications) deliver(notification store.Notification) {
	for _, of := range h.wake(notification) {
		h.e.sched.notified(of)
	}
}

// wake wakes the waiters that the notification is for, and returns the holds it is for.
func (h *notifications) wake(notification store.Notification) (holds []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if notification.ID == (store.ID{}) {
		holds = h.wakeAll() //mutant:asked-during-break
	}
	ch, of := h.waiting[notification.ID], h.holds[notification.ID]
	if ch != nil { //mutant:wake-ups-lost-nobody
		put(ch, notification)
	}
	if of != nil {
		holds = append(holds, of) //mutant:asked-with-next-renewal
	}
	if ch == nil && of == nil && notification.Token == 0 { // one with a token is of a grant
		h.unheard.add(notification.ID) //mutant:unheard-is-forgotten
	}
	return holds
}

// recent has the newest ids that were added.
type recent struct {
	all  [128]store.ID
	next int
}

func (r *recent) add(id store.ID) {
	if !r.has(id) {
		r.all[r.next] = id
		r.next = (r.next + 1) % len(r.all)
	}
}

func (r *recent) has(id store.ID) bool { return id != store.ID{} && slices.Contains(r.all[:], id) }

// wakeAll wakes all waiters, and returns all holds. h.mu is held.
func (h *notifications) wakeAll() []*hold {
	for _, ch := range h.waiting {
		put(ch, store.Notification{})
	}
	return slices.Collect(maps.Values(h.holds))
}

// put replaces what is in ch, except that a notification without a token does not
// replace one that has it.
func put(ch chan store.Notification, notification store.Notification) {
	select {
	case ch <- notification:
		return
	default:
	}
	if notification.Token == 0 {
		return // the notification in ch causes a poll as well
	}
	select {
	case <-ch:
	default:
	}
	select {
	case ch <- notification:
	default:
	}
}
