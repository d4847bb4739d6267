package holdfast

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// The scheduler looks after all leases of an engine: it has them renewed, many
// at once, and ends those whose time is over. It is a heap and one timer; a
// goroutine runs only while a renewal is under way.
type scheduler struct {
	e *engine

	mu     sync.Mutex
	leases leaseHeap
	timer  *time.Timer
	armed  clock.Instant // when the timer fires; 0: it does not

	slots chan struct{} // bounds the batches under way
}

const (
	// bootCheck is how often the clock is looked at while leases are held, as
	// a timer does not run while the machine is suspended.
	bootCheck = time.Second
	// batchSize is how many leases are renewed in one call.
	batchSize = 1000
	// batches is how many calls are under way at most.
	batches = 4
)

var errClosed = fmt.Errorf("%w: %w", ErrReleased, ErrClosed)

var errMaxHold = fmt.Errorf("%w: MaxHold is over", ErrLost)

func (s *scheduler) init(e *engine) {
	s.e = e
	s.slots = make(chan struct{}, batches)
}

// add begins to look after a lease that holds until deadline and is to be
// renewed at renewAt. It returns false if the engine is closing.
func (s *scheduler) add(l *Lease, deadline, renewAt clock.Instant) bool {
	l.deadline, l.renewAt = deadline, renewAt
	if l.s.MaxHold > 0 {
		l.endAt = s.e.now().Add(l.s.MaxHold)
	}
	l.valid.Store(int64(deadline))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e.isClosing() {
		l.index = -1
		return false
	}
	l.at = l.next()
	heap.Push(&s.leases, l)
	s.arm()
	return true
}

// remove stops looking after a lease. It returns what is closed when the
// renewal under way has ended, or nil, and the last deadline.
func (s *scheduler) remove(l *Lease) (flight <-chan struct{}, deadline clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out(l)
	return l.flight, l.deadline
}

// out takes the lease out of the heap.
func (s *scheduler) out(l *Lease) {
	if l.index >= 0 {
		heap.Remove(&s.leases, l.index)
	}
}

// next is when the scheduler has to look at the lease.
func (l *Lease) next() clock.Instant {
	at := l.deadline
	if l.endAt != 0 {
		at = min(at, l.endAt)
	}
	if l.flight == nil {
		at = min(at, l.renewAt)
	}
	return at
}

// arm sets the timer to the earliest of what has to be done, unless it fires
// before that anyway.
func (s *scheduler) arm() {
	if len(s.leases) == 0 || s.e.isClosing() {
		return
	}
	at := s.leases[0].at
	if s.armed != 0 && s.armed <= at {
		return
	}
	now := s.e.now()
	if !s.e.desc.InProcess {
		at = min(at, now.Add(bootCheck))
	}
	s.armed = at
	d := max(at.Sub(now), 0)
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.tick)
		return
	}
	s.timer.Reset(d)
}

// A batch is leases that are renewed in one call.
type batch struct {
	leases []*Lease
	done   chan struct{} // closed when the answers were read
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
	for _, l := range over {
		s.end(l, now)
	}
}

// due starts the renewals that are due and returns the leases that are over,
// which it takes out. s.mu is held.
func (s *scheduler) due(now clock.Instant) (over []*Lease) {
	var b batch
	for len(s.leases) > 0 {
		l := s.leases[0]
		by := now
		if len(b.leases) > 0 {
			by = now.Add(l.s.RenewEvery / 16) // what is nearly due goes with the rest
		}
		if l.at > by {
			break
		}
		if l.over(now) {
			s.out(l)
			over = append(over, l)
			continue
		}
		if l.flight != nil || l.renewAt > by {
			break // its end is near, but has not come
		}
		if b.done == nil {
			b.done = make(chan struct{})
		}
		b.leases = append(b.leases, l)
		l.flight = b.done
		l.at = l.next()
		heap.Fix(&s.leases, l.index)
		if len(b.leases) == batchSize {
			s.start(b)
			b = batch{}
		}
	}
	if len(b.leases) > 0 {
		s.start(b)
	}
	return over
}

func (s *scheduler) start(b batch) { s.e.work.Go(func() { s.renew(b) }) }

// over reports whether the time of the lease is over.
func (l *Lease) over(now clock.Instant) bool {
	return l.deadline <= now || l.endAt != 0 && l.endAt <= now
}

// end tells of a lease whose time is over. One that ends by MaxHold is ours
// still and is given back.
func (s *scheduler) end(l *Lease, now clock.Instant) {
	_, deadline := s.remove(l)
	if deadline <= now {
		l.lose(errTimeOver)
		return
	}
	l.lose(errMaxHold)
	s.e.work.Go(func() { l.giveBack() })
}

// renew sends one batch and reads the answers.
func (s *scheduler) renew(b batch) {
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	s.mu.Lock() // what ended while the batch waited for its slot is not renewed
	b.leases = slices.DeleteFunc(b.leases, func(l *Lease) bool { return l.index < 0 })
	s.mu.Unlock()
	if len(b.leases) == 0 {
		close(b.done)
		return
	}
	holds := make([]store.Hold, len(b.leases))
	bound := longestCall
	for i, l := range b.leases {
		holds[i] = l.hold
		holds[i].TTL = l.s.TTL
		bound = min(bound, l.s.RenewEvery)
	}
	var sent clock.Instant
	var answers []store.Renewal
	s.e.bounded(bound, func(ctx context.Context) {
		sent = s.e.now()
		answers = s.e.store.Renew(ctx, holds)
	})
	now := s.e.now()

	var tell []func() // without the lock: a logger may be slow
	s.mu.Lock()
	for i, l := range b.leases {
		err := answers[i].Err
		l.flight = nil
		if errors.Is(err, ErrLost) {
			l.told = err
		}
		if l.index < 0 {
			continue // over meanwhile: the answer revives nothing
		}
		if why := l.renewed(answers[i], sent, now); why != nil {
			s.out(l)
			tell = append(tell, func() { l.lose(why) })
			continue
		}
		if left := l.deadline.Sub(now); l.retries == 1 { // once an outage, not once a try
			tell = append(tell, func() {
				l.s.Logger.Warn("holdfast: renewal failed, trying again until the lease runs out",
					l.attrs("err", unclear(err), "left", left)...)
			})
		}
		l.at = l.next()
		heap.Fix(&s.leases, l.index)
	}
	s.arm()
	close(b.done)
	s.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// renewed reads the answer to a renewal that was sent and came at these
// instants, and returns an error if the lease is lost. By the clock first: an
// answer that comes after the deadline revives nothing.
func (l *Lease) renewed(r store.Renewal, sent, now clock.Instant) error {
	switch {
	case l.deadline <= now:
		return errTimeOver
	case r.Err == nil:
		if r.From != 0 {
			sent = r.From
		}
		l.retries = 0
		l.deadline = max(l.deadline, deadlineOf(sent, r.TTL))
		l.renewAt = sent.Add(l.s.renewAfter(r.TTL))
		if v := l.valid.Load(); v != 0 { // else a release has begun
			l.valid.CompareAndSwap(v, int64(l.deadline))
		}
		return nil
	case errors.Is(r.Err, ErrLost):
		return r.Err
	}
	// Unclear, or refused for now: ours until the deadline, so try again soon.
	l.retries++
	pause := min(l.s.RenewEvery/4, (10*time.Millisecond)<<min(l.retries, 6))
	l.renewAt = now.Add(jitter(pause))
	return nil
}

// jitter is d ± 20 %.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// releaseAll gives back all leases, a few at a time.
func (s *scheduler) releaseAll() {
	s.mu.Lock()
	all := append([]*Lease(nil), s.leases...)
	s.mu.Unlock()
	// All are over at once, however long it takes to give them back.
	all = slices.DeleteFunc(all, func(l *Lease) bool { return !l.finish(released, errClosed) })
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, l := range all {
		slots <- struct{}{}
		wg.Go(func() {
			l.giveBack()
			<-slots
		})
	}
	wg.Wait()
}

func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// leaseHeap is a heap.Interface by Lease.at.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.index = -1
	return l
}
