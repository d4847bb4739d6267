package engine

import (
	"container/heap"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A scheduler renews all holds of an engine, many in one call, and ends those whose
// time has passed. It is a heap and one timer; goroutines run only for ticks and
// renewals.
type scheduler struct {
	e *engine

	mu    sync.Mutex
	holds holdHeap
	timer *time.Timer
	armed clock.Instant         // when the timer fires; 0: not set
	away  map[*slog.Logger]bool // loggers that got a warning since the store last answered
	turns uint64                // how many renewals have begun

	// For holds without a deadline: see losses.go.
	byID    map[store.ID]*hold // those in the heap
	orphans uint64             // losses reported of holds that are not in the heap

	slots [2]chan struct{} // bound the batches under way: [0] for holds whose last renewal was answered, [1] for others
}

const (
	// bootCheck is how often the clock is read while there are holds, as timers do not
	// run while the machine is suspended.
	bootCheck = time.Second
	// batchSize is how many holds are renewed in one call.
	batchSize = 1000 //mutant:call-each-lease
	// batches is how many calls may be under way in each of the slots. A call counts
	// for grace, or for an eighth of its bound if that is less, so that a call that
	// hangs does not block others.
	batches = 4
	grace   = 250 * time.Millisecond
)

var errClosed = fmt.Errorf("%w: %w", store.ErrReleased, store.ErrClosed)

var errMaxHold = fmt.Errorf("%w: MaxHold has passed", store.ErrLost)

func (s *scheduler) init(e *engine) {
	s.e = e
	for i := range s.slots {
		s.slots[i] = make(chan struct{}, batches)
	}
	s.away = map[*slog.Logger]bool{}
	s.byID = map[store.ID]*hold{}
}

// add adds a hold that lasts until deadline, to be renewed at renewAt. It returns
// false if the engine is closing.
func (s *scheduler) add(h *hold, deadline, renewAt clock.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(h, deadline, renewAt)
}

// put is add. s.mu is held.
func (s *scheduler) put(h *hold, deadline, renewAt clock.Instant) bool {
	h.ends(deadline)
	h.renewAt = renewAt
	if h.s.MaxHold > 0 { //mutant:maxhold-ignored
		h.endAt = s.e.now().Add(h.s.MaxHold)
	}
	if s.e.isClosing() {
		h.index = -1
		return false
	}
	clear(s.away) //mutant:grant-answer
	if s.e.endless {
		s.expect(h)
	}
	h.at = h.next()
	heap.Push(&s.holds, h)
	s.arm()
	return true
}

// remove takes out a hold. It returns its last deadline, and a channel that is closed
// when the renewal under way has ended; nil: there is none.
func (s *scheduler) remove(h *hold) (flight <-chan struct{}, deadline clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out(h)
	return h.flight, h.deadline
}

// borrow takes out a hold that the caller will renew. It waits for the renewal under
// way. A release of the hold waits until done is closed.
func (s *scheduler) borrow(h *hold, done chan struct{}) {
	s.mu.Lock()
	s.out(h)
	flight := h.flight
	h.flight = done //mutant:borrowed-while-renewed
	s.mu.Unlock()
	if flight != nil {
		<-flight
	}
}

// lend waits until no operation on the hold is under way, and then blocks renewals
// until returned is called with its result. It returns nil if the hold has ended.
func (s *scheduler) lend(h *hold) (lent chan struct{}) {
	for {
		s.mu.Lock()
		flight, over := h.flight, h.index < 0
		if flight == nil && !over { //mutant:change-overlaps-renewal
			lent = make(chan struct{})
			h.flight = lent
			s.moved(h)
		}
		s.mu.Unlock()
		if flight == nil || over {
			return lent
		}
		<-flight
	}
}

// returned ends what lend began. It returns the error of the operation, or that of the
// loss if the hold is lost. It goes by the clock first, then by the answer.
func (s *scheduler) returned(h *hold, lent chan struct{}, err error) error {
	now := s.e.now()
	s.mu.Lock()
	h.flight = nil
	var why error
	if errors.Is(err, store.ErrLost) {
		err = indeterminate(err) //mutant:context-loss-change
		h.reported, why = err, err
	}
	if h.deadline <= now { //mutant:upgrade-answered-after-deadline
		why = errTimeOver
	}
	if why != nil {
		s.out(h)
	} else if h.index >= 0 {
		s.moved(h)
		s.arm()
	}
	close(lent)
	s.mu.Unlock()
	if why != nil {
		h.lose(why)
		return why
	}
	return err
}

// out takes the hold out of the heap. s.mu is held.
func (s *scheduler) out(h *hold) {
	if h.index >= 0 {
		heap.Remove(&s.holds, h.index)
		delete(s.byID, h.ID)
		if h.listens {
			s.e.notifications.removeHold(h) //mutant:ended-still-listens
		}
		if len(s.holds) == 0 {
			s.e.checkIdle()
		}
	}
}

// next returns when the scheduler must handle the hold.
func (h *hold) next() clock.Instant {
	at := h.deadline
	if h.endAt != 0 {
		at = min(at, h.endAt)
	}
	if h.flight == nil { //mutant:renewal-hangs-keeps-lease
		at = min(at, h.renewAt)
	}
	return at
}

// moved puts a hold in its new place in the heap, after a change of when the scheduler
// must handle it. s.mu is held.
func (s *scheduler) moved(h *hold) {
	if h.toRenew && h.flight == nil { //mutant:notified-during-renewal
		h.toRenew, h.renewAt = false, min(h.renewAt, s.e.now())
	}
	h.at = h.next()
	heap.Fix(&s.holds, h.index)
}

// arm sets the timer to when the first hold must be handled, unless it fires before
// that anyway. s.mu is held.
func (s *scheduler) arm() {
	if len(s.holds) == 0 || s.e.isEnding() { //mutant:shutdown-renews-nothing
		return
	}
	at := s.holds[0].at
	if s.armed != 0 && s.armed <= at {
		return
	}
	now := s.e.now()
	if !s.e.desc.InProcess {
		at = min(at, now.Add(bootCheck)) //mutant:boot-clock-looked
	}
	s.armed = at
	d := max(at.Sub(now), 0)
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.tick)
		return
	}
	s.timer.Reset(d)
}

// tick starts the renewals that are due, and ends the holds whose time has passed.
func (s *scheduler) tick() {
	if !s.e.enter() {
		return
	}
	defer s.e.work.Done()
	s.mu.Lock()
	s.armed = 0
	now := s.e.now()
	over := s.due(now)
	s.arm()
	s.mu.Unlock()
	// End all before reporting any, as a logger or an observer may be slow.
	var ended []func()
	for _, h := range over {
		if tell := s.end(h, now); tell != nil {
			ended = append(ended, tell)
		}
	}
	for _, tell := range ended {
		tell()
	}
}

// due starts the renewals that are due. It takes out the holds whose time has
// ended, and returns them. s.mu is held.
func (s *scheduler) due(now clock.Instant) (over []*hold) {
	batches := map[lane]*batch{}
	for len(s.holds) > 0 {
		h := s.holds[0]
		by := now
		if len(batches) > 0 {
			by = now.Add(h.s.RenewEvery / 16) // holds that are nearly due go with the rest //mutant:nearly-due-waits
		}
		if h.at > by {
			break
		}
		if h.over(now) { //mutant:renewal-re-creates-too
			s.out(h)
			over = append(over, h)
			continue
		}
		if h.flight != nil || h.renewAt > by {
			break // it is in the heap for its end, which has not come
		}
		if h.unshown != nil { // it needs an ask of its own
			one := batch{lane: h.lane(), cut: now}
			s.take(&one, h) //mutant:kept-other-names-never
			s.start(one)
			continue
		}
		b := batches[h.lane()]
		if b == nil || len(b.holds) == batchSize {
			if b != nil {
				s.start(*b)
			}
			b = &batch{lane: h.lane(), cut: now}
			batches[b.lane] = b
		}
		s.take(b, h)
	}
	for _, b := range batches {
		s.start(*b)
	}
	return over
}

// take adds a hold that is due to the batch. s.mu is held.
func (s *scheduler) take(b *batch, h *hold) {
	if b.done == nil {
		b.done = make(chan struct{})
	}
	b.holds = append(b.holds, h)
	s.turns++
	h.turn = s.turns //mutant:renewed-in-the-same-batch
	h.flight = b.done
	if h.retries == 0 { //mutant:retry-moves-time-renewal
		h.due = h.renewAt
	}
	s.moved(h)
}

func (s *scheduler) start(b batch) { s.e.work.Go(func() { s.renew(b) }) }

// over reports whether the time of the hold has ended.
func (h *hold) over(now clock.Instant) bool {
	return h.deadline <= now || h.endAt != 0 && h.endAt <= now
}

// end ends a hold whose time has passed. It returns a function that reports the end, or
// nil if the hold had ended before. A hold that ends by MaxHold is still held in the
// store, so it is given back.
func (s *scheduler) end(h *hold, now clock.Instant) (tell func()) {
	why := errTimeOver
	if _, deadline := s.remove(h); deadline > now {
		why = errMaxHold
	}
	if !h.finish(lost, why) { //mutant:maxhold-given-back-twice
		return nil // the call that ended it gives it back
	}
	if why == errMaxHold {
		s.e.work.Go(func() { h.giveBack() }) //mutant:hold-maxhold-ended-told
	}
	return func() { h.ended(why) }
}

func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// holdHeap is a heap.Interface by hold.at. Holds at the same instant keep the order of their last renewal, so that the
// same holds are renewed together: a store may renew them with one write.
type holdHeap []*hold

func (h holdHeap) Len() int { return len(h) }
func (h holdHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].turn < h[j].turn
}
func (h holdHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *holdHeap) Push(x any) {
	pushed := x.(*hold)
	pushed.index = len(*h)
	*h = append(*h, pushed)
}
func (h *holdHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	last.index = -1
	return last
}
