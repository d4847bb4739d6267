package record

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A step is what comes next for a batch that the rule was applied to.
type step int

const (
	again   step = iota // what was known of the record does not serve, or less of it does
	writes              // what the rule has made is to be stored
	written             // it is
	pauses              // another was first
	answers             // nothing need be written: all are told what came of them
	fails               // those that do not go on are told why
	ends                // nothing is to be done, or it cannot be
)

// decide says what comes next for a batch of which a is what the rule has made.
func (s *records) decide(ctx context.Context, n *name, a *applied) (step, error) {
	s.seen(n, a)
	b := &n.now
	// Nothing that was not answered is done once this is (law 3).
	force := n.pending != nil && *n.pending == b.Version //mutant:record-late-swap-is-left
	for _, l := range n.late {
		force = a.mark(l.in.ID, l.number) || force //mutant:record-late-join-is-left
	}
	s.prune(a.view)
	a.data = a.encode(force || len(b.Inbox) > 0)
	if size := len(a.data); size > s.traits.MaxRecord { //mutant:record-max-record
		if !b.fresh { //mutant:record-too-large-as-remembered
			b.known = false // some may have gone since
			return again, nil
		}
		return s.tooLarge(n, size)
	}
	same, rests := bytes.Equal(a.data, b.Data) && len(b.Inbox) == 0, s.rests(n, a)
	switch {
	case force:
		return writes, nil
	case needShort(n, a): // nothing is answered, so nothing need be written or read
		n.base = *b
		return answers, nil
	case !b.inbox && looksInVain(n, a): // it may be in the inbox, which is not known
		if room(n, a) || !s.anotherIsOldest(ctx, n) { //mutant:record-leaves-it-to-others
			for _, o := range n.doing {
				o.looks, o.insists = false, true
			}
			b.known = false
			return again, nil
		}
		n.rest()
		return answers, nil
	case len(n.doing) == 0 && len(a.granted) == 0: // nobody is helped
		return ends, nil
	case !same && !rests:
		return writes, nil
	case !b.fresh && len(n.doing) > 0: //mutant:record-remembered-is-answered
		b.known = false
		return again, nil
	}
	for _, o := range n.doing {
		o.rests = rests
	}
	// What was not answered depends on what is not the newest any more.
	n.base, n.pending, n.late = *b, nil, nil
	return answers, nil
}

// seen notes how many hold or wait, and forgets the notes that are not in the inbox any more. That a claim is in the
// record does not say so: it may be there without its note.
func (s *records) seen(n *name, a *applied) {
	for id := range n.noted {
		if n.now.inbox && !n.now.More && !a.hasNote(id) {
			delete(n.noted, id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.crowd = len(a.q.Entries)
}

// tooLarge has less go into a record that would not fit: fewer notes, and then no more
// of those that ask.
func (s *records) tooLarge(n *name, size int) (step, error) {
	if b := &n.now; len(b.Inbox) > 0 { //mutant:record-fewer-notes
		b.Inbox, b.More = b.Inbox[:len(b.Inbox)/2], true
		return again, nil
	}
	next := ends
	if slices.ContainsFunc(n.doing, func(o *op) bool { return o.claim != nil }) {
		next = fails
	}
	for _, o := range n.doing {
		o.goesOn = next == fails && o.claim == nil
	}
	return next, fmt.Errorf("too many wait: its record would have %d bytes, at most %d are kept", size, s.traits.MaxRecord)
}

// rest has the claims of a batch wait until others have taken in their notes.
func (n *name) rest() {
	for _, o := range n.doing {
		o.rests = true
	}
	n.base = base{}
}

// toWrite is the swap that stores what the rule has made. If it is refused it leaves notes of asks that may
// wait, which all have the same session: join is those, if it is not answered.
func (s *records) toWrite(n *name, a *applied) (w *Swap, join *late) {
	w = &Swap{Name: n.at, Old: n.now.Record, Lost: n.now.lost, Data: a.data, Idle: len(a.q.Entries) == 0, Notifications: s.elsewhere(a)}
	if len(n.doing) == 0 || len(n.late) > 0 {
		return w, nil
	}
	in := n.doing[0].short
	for i, o := range n.doing {
		if o.claim == nil || o.short == nil || o.short != in || n.noted[o.claim.ID] || a.stored[o.claim.ID] || a.told[i] != nil {
			return w, nil
		}
	}
	st := in.State()
	if st.Over {
		return w, nil
	}
	w.Join, join = &Join{Session: in.ID, Calls: st.Calls}, &late{in: in}
	for _, o := range n.doing {
		one := waiter{*o.claim, in.ID, in.Number()}
		w.Join.Notes = append(w.Join.Notes, one.note())
		join.number, join.claims = one.number, append(join.claims, o.claim.ID)
	}
	return w, join
}

// needShort reports whether all that is asked for has to wait, and has no session to wait in.
func needShort(n *name, a *applied) bool {
	return len(n.doing) > 0 && !slices.ContainsFunc(a.told, func(err error) bool { return err != errNeedsShort })
}

// fewCome is how many wait for a name at the most without being a crowd.
const fewCome = 8

// othersTakeIn reports whether it is for others to take in the notes that a batch has left: in a crowd, where
// in a while most are in the record by no request of their own, and where an older note is there.
func (s *records) othersTakeIn(ctx context.Context, n *name) bool {
	return n.crowd > fewCome || !s.traits.Notifies || s.anotherIsOldest(ctx, n)
}

// anotherIsOldest reports whether the oldest note in the inbox is there, and of no claim of the batch.
func (s *records) anotherIsOldest(ctx context.Context, n *name) bool {
	p, ok := s.b.(Peeker)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	oldest, err := p.Oldest(ctx, n.at)
	if err != nil {
		return false // what follows fails, too
	}
	note, ok := parseNote(n.at, oldest.Data)
	return ok && !slices.ContainsFunc(n.doing, func(o *op) bool { return o.claim != nil && o.claim.ID == note.claim.ID })
}

// alone reports whether each of a batch is an ask that may wait and has no session to wait in yet, of a store whose waiters poll.
func (s *records) alone(n *name) bool {
	return !s.traits.Notifies && len(n.doing) > 0 && !slices.ContainsFunc(n.doing, func(o *op) bool { return o.claim == nil || o.short != nil })
}

// rests reports whether nothing need be written now: all that was asked for are in the
// inbox, among others, and nobody was granted. Of the many that come at once some take in
// all: each goes on after a while, and then insists. In a crowd it is as a rule who releases
// that takes them in, and says so.
func (s *records) rests(n *name, a *applied) bool {
	// In a crowd a grant of another is left to its owner, who has seen it, too, and to who made room.
	crowd := s.traits.Notifies && len(a.q.Entries) > fewCome
	if len(n.doing) == 0 || !crowd && (len(a.granted) > 0 || len(n.now.Inbox) <= len(n.doing)) {
		return false
	}
	for i, o := range n.doing {
		if o.claim == nil || o.insists || a.told[i] != nil || a.stored[o.claim.ID] || !n.noted[o.claim.ID] {
			return false
		}
		if e := a.find(o.claim.ID); e == nil || e.Granted {
			return false
		}
	}
	return true
}

// looksInVain reports whether a claim is looked for in the record that is not there.
func looksInVain(n *name, a *applied) bool {
	return slices.ContainsFunc(n.doing, func(o *op) bool { return o.looks && !a.stored[o.claim.ID] }) //mutant:record-looks-and-writes
}

// room reports whether one of those that look for their claims in vain would be granted: nobody holds the name who
// would take in the notes, so it is for them.
func room(n *name, a *applied) bool {
	return slices.ContainsFunc(n.doing, func(o *op) bool {
		e := a.find(o.claim.ID)
		return o.looks && !a.stored[o.claim.ID] && e != nil && e.Granted
	})
}

// looksFirst is how often who waits for its note to be taken in looks for itself in the record alone, before it
// reads the inbox and takes in all that is there.
const looksFirst = 2

// oneOf is of how many that have looked so often one reads the inbox, and the next time one of half as many: if the
// owner of the oldest note is dead somebody has to, and if all of a crowd did at once none would be answered.
const oneOf = 8

// place does an ask, and goes on until its claim is in the record itself (law 9): whoever made room
// may not have seen its note, and who comes later is not to overtake it. taken waits for so long for a notification
// that the note was taken in. noted: a note was left.
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

// crowded is how long one of many that have come at once leaves it to the others to take all
// in: the longer, the more they are.
func (s *records) crowded(at string, tried, ahead int) time.Duration {
	s.mu.Lock()
	many := 0
	if n := s.names[at]; n != nil {
		many = n.crowd
	}
	s.mu.Unlock()
	if s.traits.Notifies {
		many = max(many, 4*fewCome) // as a rule a notification comes before that
	} else {
		many = min(many, ahead)
	}
	trip := s.roundTrip() * time.Duration(1+min(many, 400)/4) << min(tried, 4)
	return min(trip+rand.N(2*trip), time.Second)
}
