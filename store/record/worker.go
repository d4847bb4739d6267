package record

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// work does what waits, until nothing does.
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

// change does what waits on a name, and more of it with each attempt, until it is
// done. A lost race is no outage (law 7): it is tried for as long as anybody waits for it.
// The error, if any, is that of all that is still in the batch.
func (s *records) change(ctx context.Context, n *name) error {
	if n.now = n.base; n.now.known && store.Now() > n.now.sent.Add(time.Minute) {
		n.now.known = false
	}
	n.now.fresh = false
	defer func() { n.now, n.doing = base{}, nil }()
	goesOn := false // what was asked for is done; those that have come meanwhile may be granted
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
			if lost > 2 { // it is not what is there any more
				n.now.known = false
			}
		}
	}
}

// joined is ctx for what is sent for all of the batch.
func joined(ctx context.Context, batch []*op) context.Context {
	callers := make([]context.Context, len(batch))
	for i, o := range batch {
		callers[i] = o.ctx
	}
	return store.Join(ctx, callers...) //mutant:record-joined-in-no-trace
}

// more takes what has come to wait into the batch: those that make room for others
// first. What nobody waits for any more is left out: its claim may be given up by an operation behind it.
func (s *records) more(ctx context.Context, n *name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // those of the batch have left, or the store is closed
		return
	}
	n.batch = slices.DeleteFunc(n.batch, func(o *op) bool { return o.left }) //mutant:record-abandoned-is-done-later
	n.left = 0
	for len(n.waiting) > 0 && len(n.batch) < maxBatch {
		o := n.waiting[0]
		n.waiting = n.waiting[1:]
		o.begun = true
		n.batch = append(n.batch, o)
		n.now.fresh = false // what was read before it came does not answer it
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

// done tells the operations of a batch what came of them, but for those that go on, and this process what
// the record says; wrote: it was written now.
func (s *records) done(n *name, a *applied, wrote bool) {
	for i, o := range n.doing {
		o.told = a.told[i]
	}
	if len(n.doing) == 0 || !n.doing[0].rests { // else what is ahead is told, or read, once it is in the record
		s.told(a, n.now.sent, wrote)
	}
	s.finish(n, nil)
}

// finish tells those of the batch that they are done, but for those that go on.
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

// pause lets others go first after a lost race: all that lost together would lose
// together again. Those that make room for others wait least.
func (s *records) pause(ctx context.Context, lost int, batch []*op) error {
	window := min(s.roundTrip()<<min(lost, 8), time.Second)
	if slices.ContainsFunc(batch, func(o *op) bool { return o.gives }) {
		window = min(window, 2*s.roundTrip())
	}
	return sleep(ctx, rand.N(window)+window/8)
}
