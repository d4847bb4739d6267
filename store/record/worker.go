package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// looksFirst is how often an ask that waits for its note to be taken in reads only the record, before it reads the
// inbox and takes in all notes.
const looksFirst = 2

// After looksFirst, one in oneOf asks reads the inbox, the next time one in half as many, and so on: if the owner of
// the oldest note is dead, another has to take it in, and if a whole crowd did so at once, none would be answered.
const oneOf = 8

// place does an ask, and continues until its claim is in the record itself (law 9): the process that freed the name
// may not have seen its note, and later claims must not overtake it. taken waits for a notification that the note
// was taken in, for at most the given time. noted: a note was left.
func (s *records) place(ctx context.Context, o *op, taken func(time.Duration) (bool, error)) (noted bool, err error) {
	err = s.do(ctx, o)
	noted = err != nil && store.Definite(err) && o.noted
	_, peeks := s.b.(Peeker)
	for tried, rests := 0, err == nil && o.rests; rests; tried++ {
		noted = true
		in, err := taken(s.crowded(o.at, tried, o.ahead))
		if in {
			return noted, nil
		}
		if err == nil {
			looks := peeks && (tried < looksFirst || rand.N(max(oneOf>>(tried-looksFirst), 1)) > 0)
			next := &op{at: o.at, apply: o.apply, asks: true, again: true, claim: o.claim, short: o.short, insists: !looks, looks: looks}
			if err = s.do(ctx, next); err == nil {
				rests = next.rests
			}
		}
		if err != nil {
			if !store.Definite(err) {
				s.settleLater(o.at) //mutant:record-note-is-taken-in-later
			}
			return noted, err
		}
	}
	return noted, err
}

// crowded is how long one of many simultaneous claims waits for another to take in all notes. It grows with their
// number.
func (s *records) crowded(at string, tried, ahead int) time.Duration {
	s.mu.Lock()
	many := 0
	if n := s.names[at]; n != nil {
		many = n.crowd
	}
	s.mu.Unlock()
	if s.traits.Notifies {
		many = max(many, 4*fewCome) // a notification usually comes before that
	} else {
		many = min(many, ahead)
	}
	trip := s.roundTrip() * time.Duration(1+min(many, 400)/4) << min(tried, 4)
	return min(trip+rand.N(2*trip), time.Second)
}

// do applies an operation to the record of a name, and returns when the change is stored. The error is that of
// apply, or the reason why the operation may not have been done. If ctx ends first, the error says so, and what
// apply has set must not be used.
func (s *records) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.ctx, o.began, o.done = ctx, store.Now(), make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return context.Canceled
	}
	n := s.names[o.at]
	if n == nil {
		s.forgetSome()
		n = &name{at: o.at, noted: map[store.ID]bool{}}
		s.names[o.at] = n
	}
	n.users++
	n.waiting = append(n.waiting, o)
	if !n.working {
		n.working = true
		s.crew.Run(func() { s.work(n) })
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		n.users--
		s.mu.Unlock()
	}()
	select {
	case <-o.done:
	case <-ctx.Done():
		if s.leaveOp(n, o) {
			return orContended(ctx, o.began, s.heard(n), ctx.Err())
		}
	}
	if o.err != nil {
		return o.err
	}
	return o.result
}

// leaveOp withdraws an op whose context has ended, or marks it as abandoned if the worker has taken it. It returns false
// if the op was done meanwhile.
func (s *records) leaveOp(n *name, o *op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-o.done:
		return false
	default:
	}
	o.left = true
	if !o.begun {
		n.waiting = slices.DeleteFunc(n.waiting, func(other *op) bool { return other == o })
	} else if n.left++; n.left >= len(n.batch) && n.cancel != nil {
		n.cancel() // all were abandoned
	}
	return true
}

// orContended returns the error of an operation that began at began, and whose server last answered one of its requests at
// heard. If its context has ended, and that answer came in the second half of the time, the operation is contended (law
// 7): it lost races, or a crowd keeps the server busy, and each request waits. Answers to other operations do not count,
// nor does an early one: if a server reads and does not write, that is an outage.
func orContended(ctx context.Context, began, heard store.Instant, err error) error {
	if err == nil || ctx.Err() == nil || store.Definite(err) || heard <= began.Add(store.Now().Sub(began)/2) { //mutant:record-busy-is-no-outage
		return err
	}
	return contended(ctx)
}

// contended is the error of an operation whose context ended though the server answered (law 7).
func contended(ctx context.Context) error {
	return fmt.Errorf("%w (%w)", store.ErrContended, ctx.Err())
}

// hears records that the server has answered the worker.
func (s *records) hears(n *name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.heard = store.Now()
}

// heard returns when the server last answered the worker.
func (s *records) heard(n *name) store.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.heard
}

// work runs the waiting operations until none is left.
func (s *records) work(n *name) {
	for {
		ctx, cancel := context.WithCancel(s.ctx)
		s.mu.Lock()
		n.batch, n.left, n.cancel = nil, 0, cancel
		if len(n.waiting) == 0 {
			n.working, n.rested = false, store.Now()
			s.mu.Unlock()
			cancel()
			return
		}
		s.mu.Unlock()
		err := s.change(ctx, n)
		cancel()
		s.finish(n, err)
	}
}

// change runs the waiting operations of a name, and more with each attempt, until they are done. A lost race is no
// outage (law 7): it retries as long as a caller waits. The error, if any, is that of all operations still in the
// batch.
func (s *records) change(ctx context.Context, n *name) error {
	if n.now = n.base; n.now.known && store.Now() > n.now.sent.Add(time.Minute) {
		n.now.known = false
	}
	n.now.fresh, n.halves = false, true
	defer func() { n.now, n.doing = base{}, nil }()
	goesOn := false // the batch is done; claims that came meanwhile may be granted
	for lost := 0; ; {
		s.more(ctx, n)
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(n.doing) == 0 && !goesOn {
			return nil
		}
		ctx := joined(ctx, n.doing)
		if err := s.ready(ctx, n); err != nil {
			return err
		}
		a, err := s.apply(ctx, n.at, &n.now.Record, n.doing)
		if err != nil {
			return err
		}
		if a.asked {
			s.hears(n)
		}
		next, err := s.decide(ctx, n, a)
		if next == writes {
			w, join := s.toWrite(n, a)
			next, err = s.write(ctx, n, a, w, join)
		}
		switch next {
		case rests:
			for _, o := range n.doing {
				o.rests = true
			}
			n.base = base{}
			s.done(n, a, false)
			return nil
		case answers:
			s.done(n, a, false)
			return nil
		case ends:
			return err
		case fails:
			s.finish(n, err)
		case written:
			s.done(n, a, true)
			goesOn, lost = n.now.known && n.now.inbox && len(n.now.Inbox) > 0, 0
		case pauses:
			lost++
			if err := s.pause(ctx, lost, n.doing); err != nil {
				return err
			}
			if lost > 2 { // what is known is not the newest any more
				n.now.known = false
			}
		}
	}
}

// joined returns the context of a request for the whole batch.
func joined(ctx context.Context, batch []*op) context.Context {
	callers := make([]context.Context, len(batch))
	for i, o := range batch {
		callers[i] = o.ctx
	}
	return store.Join(ctx, callers...) //mutant:record-joined-in-no-trace
}

// more takes waiting operations into the batch, and puts first those that free the name. It drops abandoned ones: a
// later operation may give up their claims.
func (s *records) more(ctx context.Context, n *name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // all callers of the batch have left, or the store is closed
		return
	}
	n.batch = slices.DeleteFunc(n.batch, func(o *op) bool { return o.left }) //mutant:record-abandoned-is-done-later
	n.left = 0
	for len(n.waiting) > 0 && len(n.batch) < maxBatch {
		o := n.waiting[0]
		n.waiting = n.waiting[1:]
		o.begun = true
		n.batch = append(n.batch, o)
		n.now.fresh = false // a record read before it came does not answer it
	}
	slices.SortStableFunc(n.batch, func(a, b *op) int {
		switch {
		case a.gives == b.gives:
			return 0
		case a.gives:
			return -1
		}
		return 1
	})
	n.doing = slices.Clone(n.batch)
}

// done completes the operations of a batch with their results, except those that go on, and passes the record to the
// claims of this process. wrote: this process has just written it.
func (s *records) done(n *name, a *applied, wrote bool) {
	for i, o := range n.doing {
		if o.given { //mutant:record-given-back-twice-is-lost
			continue // this write has only looked for what is left of it
		}
		o.result = a.results[i]
		o.given = o.goesOn && o.result == nil
	}
	if len(n.doing) == 0 || !n.doing[0].rests { // otherwise the entries ahead are reported, or read, once the claim is in the record
		s.deliver(a, n.now.sent, wrote)
	}
	s.finish(n, nil)
}

// finish completes the operations of the batch, except those that go on.
func (s *records) finish(n *name, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := n.batch[:0:0]
	n.left = 0
	for _, o := range n.batch {
		if o.goesOn {
			o.goesOn = false
			rest = append(rest, o)
			if o.left {
				n.left++
			}
			continue
		}
		o.err = err
		close(o.done)
	}
	n.batch = rest
}

// pause lets others go first after a lost race: all that lost together would lose together again. Operations that
// free the name wait least.
func (s *records) pause(ctx context.Context, lost int, batch []*op) error {
	window := min(s.roundTrip()<<min(lost, 8), time.Second)
	if slices.ContainsFunc(batch, func(o *op) bool { return o.gives }) {
		window = min(window, 2*s.roundTrip())
	}
	return sleep(ctx, rand.N(window)+window/8)
}

// settleName takes in the inbox, drops dead entries, and grants the waiters that then fit.
func (s *records) settleName(ctx context.Context, at string) error {
	return s.do(ctx, &op{at: at, apply: func(v *view) (queue.Change, error) {
		v.refused = true
		return v.q.Release(v.now, &store.Hold{Name: v.name})
	}})
}

// settleLater takes in the note of an abandoned claim, if no other process does: otherwise it could be taken in at
// any time.
func (s *records) settleLater(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tasks.Go(func() {
		for failed := 0; sleep(s.ctx, s.crowded(at, failed, maxNames)) == nil; failed++ {
			if s.settleName(s.ctx, at) == nil {
				return
			}
		}
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
