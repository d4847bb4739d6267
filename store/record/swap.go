package record

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// change does what waits on a name, and more of it with each attempt, until it is
// done. A lost race is no outage (law 7): it is tried for as long as anybody waits for it.
// The error, if any, is that of all that is still in the batch.
func (s *Store) change(ctx context.Context, n *name) error {
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
		b.fresh = b.fresh && !added // what was read before an operation came does not answer it
		if err := s.void(ctx, n, &b); err != nil {
			return err
		}
		if !s.usable(n, &b) || !b.fresh && slices.ContainsFunc(batch, func(o *op) bool { return o.insists || o.looks }) {
			if err := s.begin(ctx, n, &b, batch); err != nil {
				return err
			}
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
			s.done(n, a, batch, b.sent, nil)
			return nil
		case !b.inbox && looksInVain(a, batch): // it may be in the inbox, which is not known
			for _, o := range batch {
				o.rests = true
			}
			n.base = base{}
			s.done(n, a, batch, b.sent, nil)
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
			s.done(n, a, batch, b.sent, nil)
			return nil
		}
		w := &Swap{Name: n.at, Old: b.Record, Data: data, Idle: len(a.q.Entries) == 0, Notifications: s.elsewhere(a)}
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
				n.noted[one.claim.ID] = true
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
func (s *Store) unanswered(n *name, w *Swap, in *session.Session, err error) {
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
func (s *Store) swapped(n *name, a *applied, b *base, w *Swap, o *Outcome, sent store.Instant, batch []*op) base {
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
		if !b.More || holdsNote(&b.Record, id) {
			delete(n.noted, id)
		}
	}
	s.tellOwn(a)
	s.done(n, a, batch, sent, func(one *op) bool { return going[one] })
	return n.base
}

// tooLarge has less go into a record that would not fit: fewer notes, and then no more
// of those that ask.
func (s *Store) tooLarge(n *name, b *base, size int) error {
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

// othersTakeIn reports whether it is for others to take in the notes that a batch has left: in a crowd, where
// in a while most are in the record by no request of their own, and where an older note is there.
func (s *Store) othersTakeIn(ctx context.Context, n *name, batch []*op) bool {
	if n.crowd > fewCome {
		return true
	}
	p, ok := s.b.(Peeker)
	if !ok || !s.traits.Notifies {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	oldest, err := p.Oldest(ctx, n.at)
	if err != nil {
		return false // what follows fails, too
	}
	note, ok := parseNote(n.at, oldest.Data)
	return ok && !slices.ContainsFunc(batch, func(o *op) bool { return o.claim.ID == note.claim.ID })
}

// usable reports whether a write may depend on the base. A claim whose note may be in an
// inbox that is not known writes only on what was read since (law 4).
func (s *Store) usable(n *name, b *base) bool {
	if !b.known || n.pending != nil && !b.fresh || len(n.late) > 0 && !b.fresh {
		return false
	}
	return b.inbox || len(n.noted) == 0
}

// begin reads the record; or, of a name that this process knows nothing of, begins with a
// write as if nothing were stored: there may be nothing.
func (s *Store) begin(ctx context.Context, n *name, b *base, batch []*op) error {
	blind := !n.met && (!s.traits.Clock || s.clockKnown()) && n.pending == nil && len(n.late) == 0 && len(batch) > 0
	for _, o := range batch {
		blind = blind && o.asks
	}
	if n.met = true; blind {
		*b = base{known: true, inbox: true, sent: store.Now()}
		return nil
	}
	sent := store.Now()
	p, peeks := s.b.(Peeker)
	peeks = peeks && n.pending == nil && len(n.late) == 0 && len(batch) > 0
	for _, o := range batch {
		peeks = peeks && (o.looks || o.asks && !o.insists && len(n.noted) == 0)
	}
	load := s.b.Load
	if peeks {
		load = p.Peek
	}
	r, err := s.readBy(ctx, n.at, load)
	if err == nil {
		*b = base{Record: r, known: true, inbox: !peeks, sent: sent, fresh: true}
	}
	return err
}

// void makes the joins that were not answered impossible, before the record is read (law
// 3). By mark, that is done by the write that follows.
func (s *Store) void(ctx context.Context, n *name, b *base) error {
	if s.traits.Void != VoidByCall || len(n.late) == 0 {
		return nil
	}
	for len(n.late) > 0 {
		l := n.late[0]
		if !l.in.Over() {
			ctx, cancel := context.WithTimeout(ctx, longest)
			err := s.sessions.Call(ctx, l.in.ID)
			cancel()
			if err != nil {
				return err
			}
		}
		n.late = n.late[1:]
		for _, id := range l.claims {
			n.noted[id] = true // it may have been done before
		}
	}
	b.known, b.fresh = false, false
	return nil
}

// read reads a record from the server.
func (s *Store) read(ctx context.Context, at string) (Record, error) {
	return s.readBy(ctx, at, s.b.Load)
}

func (s *Store) readBy(ctx context.Context, at string, load func(context.Context, string) (Record, error)) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	r, err := load(ctx, at)
	heard := store.Now()
	if err == nil {
		s.took(heard.Sub(sent))
		s.hear(r.Now, heard)
	}
	return r, err
}

// swap sends a swap.
func (s *Store) swap(ctx context.Context, w *Swap) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	o, err := s.b.Swap(ctx, w)
	if err == nil {
		s.took(store.Now().Sub(sent))
	}
	return o, err
}

// rests reports whether nothing need be written now: all that was asked for are in the
// inbox, among others, and nobody was granted. Of the many that come at once some take in
// all: each goes on after a while, and then insists. In a crowd it is as a rule who releases
// that takes them in, and says so.
func (s *Store) rests(n *name, a *applied, b *base, batch []*op) bool {
	// In a crowd a grant of another is left to its owner, who has seen it, too, and to who made room.
	crowd := s.traits.Notifies && len(a.q.Entries) > fewCome
	if len(batch) == 0 || !crowd && (len(a.granted) > 0 || len(b.Inbox) <= len(batch)) {
		return false
	}
	for i, o := range batch {
		if o.claim == nil || o.insists || a.told[i] != nil || a.stored[o.claim.ID] || !n.noted[o.claim.ID] {
			return false
		}
		if e := a.find(o.claim.ID); e == nil || e.Granted {
			return false
		}
	}
	return true
}

// needShort reports whether all that is asked for has to wait, and has no session to wait in.
func needShort(a *applied, batch []*op) bool {
	return len(batch) > 0 && !slices.ContainsFunc(a.told, func(err error) bool { return err != errNeedsShort })
}

// looksInVain reports whether a claim is looked for in the record that is not there.
func looksInVain(a *applied, batch []*op) bool {
	return slices.ContainsFunc(batch, func(o *op) bool { return o.looks && !a.stored[o.claim.ID] }) //mutant:record-looks-and-writes
}

// holdsNote reports whether a note of the claim is in the inbox.
func holdsNote(r *Record, id store.ID) bool {
	for i := range r.Inbox {
		if n, ok := parseNote("", r.Inbox[i].Data); ok && n.claim.ID == id {
			return true
		}
	}
	return false
}

// join has the swap leave notes if it is refused: of asks that may wait, which all have
// the same session. It returns that.
func (s *Store) join(n *name, a *applied, w *Swap, batch []*op) *session.Session {
	if len(batch) == 0 || len(n.late) > 0 {
		return nil
	}
	in := batch[0].short
	for i, o := range batch {
		if o.claim == nil || o.short == nil || o.short != in || n.noted[o.claim.ID] || a.stored[o.claim.ID] || a.told[i] != nil {
			return nil
		}
	}
	st := in.State()
	if st.Over {
		return nil
	}
	w.Join = &Join{Session: in.ID, Calls: st.Calls}
	for _, o := range batch {
		one := waiter{*o.claim, in.ID, in.Number()}
		w.Join.Notes = append(w.Join.Notes, one.note())
	}
	return in
}

// lateJoin is a join that was not answered.
func lateJoin(in *session.Session, j *Join) late {
	l := late{in: in}
	for i := range j.Notes {
		if n, ok := parseNote("", j.Notes[i].Data); ok {
			l.number = max(l.number, n.number)
			l.claims = append(l.claims, n.claim.ID)
		}
	}
	return l
}

// seen forgets the notes that are not in the inbox any more. That a claim is in the
// record does not say so: it may be there without its note.
func (s *Store) seen(n *name, b *base) {
	for id := range n.noted {
		if b.inbox && !b.More && !holdsNote(&b.Record, id) {
			delete(n.noted, id)
		}
	}
}

// done tells the operations of a batch what came of them, but for those that go on.
func (s *Store) done(n *name, a *applied, batch []*op, sent store.Instant, goesOn func(*op) bool) {
	for i, o := range batch {
		o.told = a.told[i]
	}
	if len(batch) == 0 || !batch[0].rests { // else what is ahead is told, or read, once it is in the record
		s.watchAhead(a, sent)
	}
	s.finishSome(n, nil, goesOn)
}

// sawCrowd notes how many hold or wait.
func (s *Store) sawCrowd(n *name, many int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.crowd = many
}

// settleLater has a note taken in whose claim nobody waits for any more, if nobody else
// does: else it would be taken in at any time.
func (s *Store) settleLater(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tasks.Go(func() {
		for failed := 0; sleep(s.ctx, s.crowded(at, failed)) == nil; failed++ {
			if s.settleName(s.ctx, at) == nil {
				return
			}
		}
	})
}

// fewCome is how many wait for a name at the most without being a crowd.
const fewCome = 8

// crowded is how long one of many that have come at once leaves it to the others to take all
// in: the longer, the more they are.
func (s *Store) crowded(at string, tried int) time.Duration {
	s.mu.Lock()
	many := 0
	if n := s.names[at]; n != nil {
		many = n.crowd
	}
	s.mu.Unlock()
	if s.traits.Notifies {
		many = max(many, 4*fewCome) // as a rule a notification comes before that
	}
	trip := s.roundTrip() * time.Duration(1+min(many, 400)/4) << min(tried, 4)
	return min(trip+rand.N(2*trip), time.Second)
}

// settleName takes in what is in the inbox, drops who has died, and grants those that
// fit then.
func (s *Store) settleName(ctx context.Context, at string) error {
	return s.do(ctx, at, &op{apply: func(v *view) (queue.Change, error) {
		v.refused = true
		return v.q.Release(v.now, &store.Hold{Name: v.name})
	}})
}

// pause lets others go first after a lost race: all that lost together would lose
// together again. Those that make room for others wait least.
func (s *Store) pause(ctx context.Context, lost int, batch []*op) error {
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
