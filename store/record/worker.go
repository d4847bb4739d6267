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
			next, err = s.write(ctx, n, a)
		}
		switch next {
		case answers:
			s.done(n, a, n.now.sent, false)
			return nil
		case ends:
			return err
		case fails:
			s.finish(n, err)
		case written:
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

// raced notes that the server has answered, and that another was first.
func (s *records) raced(n *name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range n.doing {
		o.raced = true
	}
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

// write sends the swap that stores what the rule has made.
func (s *records) write(ctx context.Context, n *name, a *applied) (step, error) {
	w, join := s.toWrite(n, a)
	in, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	o, err := s.b.Swap(in, w)
	if err != nil {
		n.unanswered(w, join, err)
		return ends, err
	}
	heard := store.Now()
	s.took(heard.Sub(sent))
	s.hear(o.Now.Now, heard)
	if o.Done {
		s.swapped(n, a, w, &o, sent)
		return written, nil
	}
	if o.Joined {
		for _, one := range n.doing {
			n.noted[one.claim.ID], one.noted = true, true //mutant:record-refused-note-goes
		}
		if !o.Told && s.othersTakeIn(ctx, n) {
			n.rest()
			return answers, nil
		}
	}
	s.raced(n)
	if w.Join == nil && !o.Told && n.now.fresh && s.alone(n) { //mutant:record-who-loses-reads-again
		// It has to wait as a rule, and has no session for that. What it was asked on is enough to leave a note.
		n.now.lost = true
		n.base = n.now
		return ends, errNeedsShort
	}
	next := again
	if !o.Joined && (n.now.fresh || !o.Told) {
		next = pauses
	}
	if n.now = (base{}); o.Told {
		n.now = base{Record: o.Now, known: true, inbox: true, sent: sent, fresh: true}
	}
	return next, nil
}

// unanswered notes what may still be done of a swap (law 3).
func (n *name) unanswered(w *Swap, join *late, err error) {
	if n.base = (base{}); store.Definite(err) {
		return
	}
	version := w.Old.Version
	n.pending = &version
	if join != nil {
		n.late = append(n.late, *join)
	}
}

// swapped notes that a swap was done, tells who was granted and whose operations are done, and notes
// what is known of the record then.
func (s *records) swapped(n *name, a *applied, w *Swap, o *Outcome, sent store.Instant) {
	for _, one := range n.doing { // who leaves goes on if its note may be in the part of the inbox that was not read
		one.goesOn = n.now.More && n.noted[one.finds] && !a.hasNote(one.finds) //mutant:record-leaves-unseen-note
	}
	for id := range n.noted {
		if n.now.inbox && !n.now.More || a.hasNote(id) {
			delete(n.noted, id)
		}
	}
	if n.now, n.pending, n.late = (base{}), nil, nil; o.Told {
		n.now = base{Record: o.Now, known: true, inbox: o.Inbox, sent: sent}
		n.now.Data = w.Data
	}
	n.base = n.now
	s.done(n, a, sent, true)
}

// done tells the operations of a batch what came of them, but for those that go on, and this process what
// the record says; wrote: it was written now. sent is when the request was sent that told it.
func (s *records) done(n *name, a *applied, sent store.Instant, wrote bool) {
	for i, o := range n.doing {
		o.told = a.told[i]
	}
	if len(n.doing) == 0 || !n.doing[0].rests { // else what is ahead is told, or read, once it is in the record
		s.told(a, sent, wrote)
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
