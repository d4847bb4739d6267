package record

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
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
		s.finishBatch(n, err)
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

// more takes what has come to wait into the batch, and returns it: those that make
// room for others first. What nobody waits for any more is left out: its claim may be
// given up by an operation behind it.
func (s *records) more(ctx context.Context, n *name) (batch []*op, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // those of the batch have left, or the store is closed
		return slices.Clone(n.batch), false
	}
	n.batch = slices.DeleteFunc(n.batch, func(o *op) bool { return o.left }) //mutant:record-abandoned-is-done-later
	n.left = 0
	had := len(n.batch)
	for len(n.waiting) > 0 && len(n.batch) < maxBatch {
		o := n.waiting[0]
		n.waiting = n.waiting[1:]
		o.begun = true
		n.batch = append(n.batch, o)
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
	return slices.Clone(n.batch), len(n.batch) > had
}

// finishBatch tells those of the batch that they are done.
func (s *records) finishBatch(n *name, err error) { s.finishSome(n, err, nil) }

// finishSome tells those that keep does not keep.
func (s *records) finishSome(n *name, err error, keep func(*op) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := n.batch[:0:0]
	n.left = 0
	for _, o := range n.batch {
		if keep != nil && keep(o) {
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

// change does what waits on a name, and more of it with each attempt, until it is
// done. A lost race is no outage (law 7): it is tried for as long as anybody waits for it.
// The error, if any, is that of all that is still in the batch.
func (s *records) change(ctx context.Context, n *name) error {
	b := n.base
	if b.fresh = false; b.known && store.Now() > b.sent.Add(time.Minute) {
		b.known = false
	}
	goesOn := false // what was asked for is done; those that have come meanwhile may be granted
	for lost := 0; ; {
		batch, added := s.more(ctx, n)
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(batch) == 0 && !goesOn {
			return nil
		}
		ctx := joined(ctx, batch)
		b.fresh = b.fresh && !added // what was read before an operation came does not answer it
		if err := s.void(ctx, n, &b); err != nil {
			return err
		}
		if !s.usable(n, &b) || !b.fresh && slices.ContainsFunc(batch, func(o *op) bool { return o.insists || o.looks }) {
			if err := s.begin(ctx, n, &b, batch); err != nil {
				return err
			}
		}
		if err := s.takesInFirst(ctx, n, &b, batch); err != nil {
			return err
		}
		for _, o := range batch {
			o.fresh = b.fresh
		}
		a, err := s.apply(ctx, n.at, &b.Record, batch)
		if err != nil {
			return err
		}
		s.seen(n, &b)
		s.sawCrowd(n, len(a.q.Entries))
		// Nothing that was not answered is done once this is (law 3).
		force := n.pending != nil && *n.pending == b.Version //mutant:record-late-swap-is-left
		for _, l := range n.late {
			force = a.mark(l.in.ID, l.number) || force //mutant:record-late-join-is-left
		}
		s.prune(a.view)
		data := a.encode(force || len(b.Inbox) > 0)
		if len(data) > s.traits.MaxRecord { //mutant:record-max-record
			if !b.fresh { //mutant:record-too-large-as-remembered
				b.known = false // some may have gone since
				continue
			}
			if err := s.tooLarge(n, &b, len(data)); err != nil {
				return err
			}
			continue
		}
		same, rests := bytes.Equal(data, b.Data) && len(b.Inbox) == 0, s.rests(n, a, &b, batch)
		switch {
		case force:
		case needShort(a, batch): // nothing is answered, so nothing need be written or read
			n.base = b
			s.done(n, a, batch, b.sent, false, nil)
			return nil
		case !b.inbox && looksInVain(a, batch): // it may be in the inbox, which is not known
			if room(a, batch) || !s.anotherIsOldest(ctx, n, batch) { //mutant:record-leaves-it-to-others
				for _, o := range batch {
					o.looks, o.insists = false, true
				}
				b.known = false
				continue
			}
			for _, o := range batch {
				o.rests = true
			}
			n.base = base{}
			s.done(n, a, batch, b.sent, false, nil)
			return nil
		case len(batch) == 0 && len(a.granted) == 0: // nobody is helped
			return nil
		case !same && !rests:
		case !b.fresh && len(batch) > 0: //mutant:record-remembered-is-answered
			b.known = false
			continue
		default:
			for _, o := range batch {
				o.rests = rests
			}
			// What was not answered depends on what is not the newest any more.
			n.base, n.pending, n.late = b, nil, nil
			s.done(n, a, batch, b.sent, false, nil)
			return nil
		}
		w := &Swap{Name: n.at, Old: b.Record, Lost: b.lost, Data: data, Idle: len(a.q.Entries) == 0, Notifications: s.elsewhere(a)}
		in := s.join(n, a, w, batch)
		sent := store.Now()
		o, err := s.swap(ctx, w)
		if err != nil {
			s.unanswered(n, w, in, err)
			return err
		}
		s.hear(o.Now.Now, store.Now())
		switch {
		case o.Done:
			b = s.swapped(n, a, &b, w, &o, sent, batch)
			goesOn, lost = b.known && b.inbox && len(b.Inbox) > 0, 0
			continue
		case o.Joined:
			for _, one := range batch {
				n.noted[one.claim.ID], one.noted = true, true //mutant:record-refused-note-goes
			}
			if !o.Told && s.othersTakeIn(ctx, n, batch) {
				for _, one := range batch {
					one.rests = true
				}
				n.base = base{}
				s.finishBatch(n, nil)
				return nil
			}
		}
		s.raced(batch)
		if w.Join == nil && !o.Told && b.fresh && s.alone(batch) { //mutant:record-who-loses-reads-again
			// It has to wait as a rule, and has no session for that. What it was asked on is enough to leave a note.
			b.lost = true
			n.base = b
			s.finishBatch(n, errNeedsShort)
			return nil
		}
		paused := !o.Joined && (b.fresh || !o.Told)
		if b = (base{}); o.Told {
			b = base{Record: o.Now, known: true, inbox: true, sent: sent, fresh: true}
		}
		if paused {
			lost++
			if err := s.pause(ctx, lost, batch); err != nil {
				return err
			}
			if lost > 2 { // it is not what is there any more
				b.known = false
			}
		}
	}
}

// unanswered notes what may still be done of a swap (law 3).
func (s *records) unanswered(n *name, w *Swap, in *session.Session, err error) {
	if n.base = (base{}); store.Definite(err) {
		return
	}
	version := w.Old.Version
	n.pending = &version
	if w.Join != nil {
		n.late = append(n.late, lateJoin(in, w.Join))
	}
}

// swapped notes that a swap was done, tells who was granted and whose operations are done, and
// returns what is known of the record then.
func (s *records) swapped(n *name, a *applied, b *base, w *Swap, o *Outcome, sent store.Instant, batch []*op) base {
	n.base, n.pending, n.late = base{}, nil, nil
	if o.Told {
		n.base = base{Record: o.Now, known: true, inbox: o.Inbox, sent: sent}
		n.base.Data = w.Data
	}
	going := map[*op]bool{} // they leave, and their note may be in the part of the inbox that was not read
	for _, one := range batch {
		going[one] = b.More && n.noted[one.finds] && !holdsNote(&b.Record, one.finds) //mutant:record-leaves-unseen-note
	}
	for id := range n.noted {
		if b.inbox && !b.More || holdsNote(&b.Record, id) {
			delete(n.noted, id)
		}
	}
	s.done(n, a, batch, sent, true, func(one *op) bool { return going[one] })
	return n.base
}

// raced notes that the server has answered a batch, and that another was first.
func (s *records) raced(batch []*op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range batch {
		o.raced = true
	}
}

// tooLarge has less go into a record that would not fit: fewer notes, and then no more
// of those that ask.
func (s *records) tooLarge(n *name, b *base, size int) error {
	if len(b.Inbox) > 0 { //mutant:record-fewer-notes
		b.Inbox, b.More = b.Inbox[:len(b.Inbox)/2], true
		return nil
	}
	err := fmt.Errorf("too many wait: its record would have %d bytes, at most %d are kept", size, s.traits.MaxRecord)
	asks := false
	s.finishSome(n, err, func(o *op) bool {
		asks = asks || o.claim != nil
		return o.claim == nil
	})
	if !asks {
		return err
	}
	return nil
}

// swap sends a swap.
func (s *records) swap(ctx context.Context, w *Swap) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	o, err := s.b.Swap(ctx, w)
	if err == nil {
		s.took(store.Now().Sub(sent))
	}
	return o, err
}

// needShort reports whether all that is asked for has to wait, and has no session to wait in.
func needShort(a *applied, batch []*op) bool {
	return len(batch) > 0 && !slices.ContainsFunc(a.told, func(err error) bool { return err != errNeedsShort })
}

// done tells the operations of a batch what came of them, but for those that go on. wrote: it was written now.
func (s *records) done(n *name, a *applied, batch []*op, sent store.Instant, wrote bool, goesOn func(*op) bool) {
	for i, o := range batch {
		o.told = a.told[i]
	}
	if len(batch) == 0 || !batch[0].rests { // else what is ahead is told, or read, once it is in the record
		s.told(a, sent, wrote)
	}
	s.finishSome(n, nil, goesOn)
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
