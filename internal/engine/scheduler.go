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

// The scheduler looks after all holds of an engine: it has them renewed, many
// at once, and ends those whose time is over. It is a heap and one timer; a
// goroutine runs only while a renewal is under way.
type scheduler struct {
	e *engine

	mu    sync.Mutex
	holds holdHeap
	timer *time.Timer
	armed clock.Instant         // when the timer fires; 0: it does not
	away  map[*slog.Logger]bool // who was warned since the store answered last
	turns uint64                // how many renewals were begun

	// Where holds have no deadline: see losses.go.
	byID    map[store.ID]*hold // those that are looked after
	orphans uint64             // losses reported of holds that are not looked after

	slots [2]chan struct{} // bound the batches under way: of those that were answered last time, and of the others
}

const (
	// bootCheck is how often the clock is looked at while anything is held, as
	// a timer does not run while the machine is suspended.
	bootCheck = time.Second
	// batchSize is how many holds are renewed in one call.
	batchSize = 1000 //mutant:call-each-lease
	// batches is how many calls are under way at most, of those that have been so
	// for less than grace, or an eighth of their bound: a call that hangs keeps no
	// other from being sent.
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

// add begins to look after a hold that is ours until deadline and is to be
// renewed at renewAt. It returns false if the engine is closing.
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

// remove stops looking after a hold. It returns what is closed when the
// renewal under way has ended, or nil, and the last deadline.
func (s *scheduler) remove(h *hold) (flight <-chan struct{}, deadline clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out(h)
	return h.flight, h.deadline
}

// borrow stops looking after a hold, as its user renews it. Until done is closed,
// a release of the hold waits.
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

// lend keeps renewals of the hold away while another operation on it is under
// way, once the one that is has ended. What it returns is for returned; nil: the
// hold is over.
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

// returned ends what lend began, and returns the error with which the operation
// was answered, or that the hold is lost: by the clock first, then by the answer.
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

// out takes the hold out of the heap.
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

// next is when the scheduler has to look at the hold.
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

// moved puts a hold in its place when what the scheduler has to do for it, or
// when, has changed. s.mu is held.
func (s *scheduler) moved(h *hold) {
	if h.toRenew && h.flight == nil { //mutant:notified-during-renewal
		h.toRenew, h.renewAt = false, min(h.renewAt, s.e.now())
	}
	h.at = h.next()
	heap.Fix(&s.holds, h.index)
}

// arm sets the timer to the earliest of what has to be done, unless it fires
// before that anyway.
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

// tick does what is due.
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
	// All are ended before any is reported: a log and an observer take their time.
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

// due starts the renewals that are due and returns the holds that are over,
// which it takes out. s.mu is held.
func (s *scheduler) due(now clock.Instant) (over []*hold) {
	batches := map[lane]*batch{}
	for len(s.holds) > 0 {
		h := s.holds[0]
		by := now
		if len(batches) > 0 {
			by = now.Add(h.s.RenewEvery / 16) // what is nearly due goes with the rest //mutant:nearly-due-waits
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
			break // its end is near, but has not come
		}
		if h.unshown != nil { // asked for by itself
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

// over reports whether the time of the hold is over.
func (h *hold) over(now clock.Instant) bool {
	return h.deadline <= now || h.endAt != 0 && h.endAt <= now
}

// end ends a hold whose time is over, and returns what tells of it; nil if it
// was over before. One that ends by MaxHold is ours still and is given back.
func (s *scheduler) end(h *hold, now clock.Instant) (tell func()) {
	why := errTimeOver
	if _, deadline := s.remove(h); deadline > now {
		why = errMaxHold
	}
	if !h.finish(lost, why) { //mutant:maxhold-given-back-twice
		return nil // what has ended it gives it back
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

// holdHeap is a heap.Interface by hold.at. Of many at one instant the order is that of the last time, so that
// the same are renewed together: a store may keep them by one write.
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
