package record

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A step is what to do next with a batch that the rule was applied to.
type step int

const (
	again   step = iota // apply the rule again: to a new read, or to fewer notes
	writes              // store the result of the rule
	written             // it is stored
	pauses              // another swap was first: wait a little
	answers             // nothing need be written: all operations get their results
	rests               // all wait until other processes have taken in their notes
	fails               // those that do not go on get the error
	ends                // there is nothing to do, or it cannot be done
)

// decide returns the next step for a batch; a is the result of the rule.
func (s *records) decide(ctx context.Context, n *name, a *applied) (step, error) {
	b := &n.now
	for id := range n.noted { // being in the record does not show that a claim's note is gone
		if b.inbox && !b.More && !a.hasNote(id) {
			delete(n.noted, id)
		}
	}
	if n.others = len(b.Inbox) > 0 || s.meets(a); n.others { //mutant:record-leaves-the-inbox-to-a-crowd
		n.spares = 0
	}
	s.mu.Lock()
	n.crowd = len(a.q.Entries)
	s.mu.Unlock()
	// Once this write is done, no unanswered request can be done any more (law 3).
	force := n.pending != nil && *n.pending == b.Version //mutant:record-late-swap-is-left
	for _, l := range n.late {
		force = a.mark(l.in.ID, l.number) || force //mutant:record-late-join-is-left
	}
	s.prune(a.view)
	a.data = a.encode(force || len(b.Inbox) > 0)
	if size := len(a.data); size > s.traits.MaxRecord { //mutant:record-max-record
		if !b.fresh { //mutant:record-too-large-as-remembered
			b.known = false // some entries may have ended since
			return again, nil
		}
		return s.tooLarge(n, size)
	}
	same, noted := bytes.Equal(a.data, b.Data) && len(b.Inbox) == 0, s.areNoted(n, a)
	same = same && !(b.Free && a.holder() != "") //mutant:record-hold-is-shown-again
	switch {
	case force:
		return writes, nil
	case needShort(n, a): // nothing is answered, so nothing need be written or read
		n.base = *b
		return answers, nil
	case !b.inbox && looksInVain(n, a): // the claim may be in the unread inbox
		if wouldGrant(n, a) || !s.anotherIsOldest(ctx, n) { //mutant:record-leaves-it-to-others
			for _, o := range n.doing {
				o.looks, o.insists = false, true
			}
			b.known = false
			return again, nil
		}
		return rests, nil
	case len(n.doing) == 0 && len(a.granted) == 0: // no one benefits
		return ends, nil
	case !same && !noted:
		return writes, nil
	case !b.fresh && len(n.doing) > 0: //mutant:record-remembered-is-answered
		b.known = false
		return again, nil
	}
	for _, o := range n.doing {
		o.rests = noted
	}
	// An unanswered swap depends on an older version; unanswered joins are void.
	n.base, n.pending, n.late = *b, nil, nil
	return answers, nil
}

// meets reports whether another process has an entry.
func (s *records) meets(a *applied) bool {
	for i := range a.q.Entries {
		if s.sessions.Own(a.in[a.q.Entries[i].ID]) == nil {
			return true
		}
	}
	return false
}

// write sends the swap that stores the result of the rule.
func (s *records) write(ctx context.Context, n *name, a *applied, w *Swap, join *late) (step, error) {
	in, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	o, err := s.b.Swap(in, w)
	if err != nil {
		if n.base = (base{}); !store.Definite(err) { // it may still be done (law 3)
			version := w.Old.Version
			n.pending = &version
			if join != nil {
				n.late = append(n.late, *join)
			}
		}
		return ends, err
	}
	heard := store.Now()
	s.hears(n)
	s.took(heard.Sub(sent))
	s.hear(o.Now.Now, heard)
	if o.Done {
		n.swapped(a, w, &o, sent)
		return written, nil
	}
	n.others, n.spares = true, 0 //mutant:record-leaves-the-inbox-after-a-lost-race
	if o.Joined {
		for _, one := range n.doing {
			n.noted[one.claim.ID], one.noted = true, true //mutant:record-refused-note-goes
		}
		recent := n.now.fresh || n.now.Version == "" || store.Now() < n.now.sent.Add(crowdAge) //mutant:record-crowd-of-long-ago
		if !o.Current && recent && s.othersTakeIn(ctx, n) {
			return rests, nil
		}
	}
	if w.Join == nil && !o.Current && n.now.fresh && s.alone(n) { //mutant:record-who-loses-reads-again
		// The claim usually has to wait, and has no session for that. The record that the ask was based on is enough
		// to leave a note.
		n.now.lost = true
		n.base = n.now
		return ends, errNeedsShort
	}
	next := again
	if !o.Joined && (n.now.fresh || !o.Current) {
		next = pauses
	}
	if n.now = (base{}); o.Current {
		n.now = base{Record: o.Now, known: true, inbox: true, sent: sent, fresh: true}
	}
	return next, nil
}

// swapped records a done swap: what is known of the record now, and which operations go on.
func (n *name) swapped(a *applied, w *Swap, o *Outcome, sent store.Instant) {
	for _, one := range n.doing { // a leaving claim goes on if its note may be in the unread part of the inbox
		one.goesOn = n.now.More && n.noted[one.finds] && !a.hasNote(one.finds) //mutant:record-leaves-unseen-note
	}
	for id := range n.noted {
		if n.now.inbox && !n.now.More || a.hasNote(id) {
			delete(n.noted, id)
		}
	}
	if n.now, n.pending, n.late = (base{sent: sent}), nil, nil; o.Current {
		n.now = base{Record: o.Now, known: true, inbox: o.Inbox, sent: sent}
		n.now.Data = w.Data
	}
	n.base = n.now
}

// tooLarge lets less go into a record that would not fit: fewer notes, and then no more asks.
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

// toWrite returns the swap that stores the result of the rule. If the swap is refused, it leaves notes of asks that
// may wait, provided that all have the same session. join holds these notes in case the swap is not answered.
func (s *records) toWrite(n *name, a *applied) (w *Swap, join *late) {
	w = &Swap{Name: n.at, Old: n.now.Record, Lost: n.now.lost, Data: a.data, Idle: len(a.q.Entries) == 0, Holder: a.holder(), Notifications: s.elsewhere(a)}
	if len(n.doing) == 0 || len(n.late) > 0 {
		return w, nil
	}
	in := n.doing[0].short
	for i, o := range n.doing {
		if o.claim == nil || o.short == nil || o.short != in || n.noted[o.claim.ID] || a.stored[o.claim.ID] || a.results[i] != nil {
			return w, nil
		}
	}
	st := in.State()
	if st.Over {
		return w, nil
	}
	// In a crowd another process is usually first, so the swap is assumed to be refused without asking the server.
	// If the note is refused too, the record is read and written.
	w.Lost = w.Lost || n.crowd > fewCome && !n.now.fresh && store.Now() < n.now.sent.Add(crowdAge) //mutant:record-joins-a-crowd-of-before
	w.Join, join = &Join{Session: in.ID, Calls: st.Calls}, &late{in: in}
	for _, o := range n.doing {
		one := waiter{*o.claim, in.ID, in.Number()}
		w.Join.Notes = append(w.Join.Notes, one.note())
		join.number, join.claims = one.number, append(join.claims, o.claim.ID)
	}
	return w, join
}

// crowdAge is how long a crowd is assumed to last, and may be reported to new claims (law 4).
const crowdAge = time.Second

// needShort reports whether all operations have to wait, and have no session to wait in.
func needShort(n *name, a *applied) bool {
	return len(n.doing) > 0 && !slices.ContainsFunc(a.results, func(err error) bool { return err != errNeedsShort })
}

// fewCome is how many entries a name has at most without being a crowd.
const fewCome = 8

// othersTakeIn reports whether other processes should take in the notes that a batch has left: in a crowd, where
// most claims soon get into the record by no request of their own; if waiters poll; and if there is an older note.
func (s *records) othersTakeIn(ctx context.Context, n *name) bool {
	return n.crowd > fewCome || !s.traits.Notifies || s.anotherIsOldest(ctx, n)
}

// anotherIsOldest reports whether the inbox has a note, and the oldest is of no claim of the batch.
func (s *records) anotherIsOldest(ctx context.Context, n *name) bool {
	p, ok := s.b.(Peeker)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	oldest, err := p.Oldest(ctx, n.at)
	if err != nil {
		return false // the next request fails, too
	}
	note, ok := parseNote(oldest.Data)
	return ok && !slices.ContainsFunc(n.doing, func(o *op) bool { return o.claim != nil && o.claim.ID == note.claim.ID })
}

// alone reports whether the store's waiters poll and each operation of the batch is an ask that may wait and has no
// session to wait in yet.
func (s *records) alone(n *name) bool {
	return !s.traits.Notifies && len(n.doing) > 0 && !slices.ContainsFunc(n.doing, func(o *op) bool { return o.claim == nil || o.short != nil })
}

// areNoted reports whether nothing need be written now: all claims of the batch are in the inbox, with others, and
// no claim was granted. Of many simultaneous claims, some take in all notes: each tries again after a while, and
// then insists. In a crowd usually a release takes them in and notifies them.
func (s *records) areNoted(n *name, a *applied) bool {
	// In a crowd the grant of another claim is left to its owner, which has seen it too, and to the
	// process that freed the name.
	crowd := s.traits.Notifies && len(a.q.Entries) > fewCome
	if len(n.doing) == 0 || !crowd && (len(a.granted) > 0 || len(n.now.Inbox) <= len(n.doing)) {
		return false
	}
	for i, o := range n.doing {
		if o.claim == nil || o.insists || a.results[i] != nil || a.stored[o.claim.ID] || !n.noted[o.claim.ID] {
			return false
		}
		if e := a.find(o.claim.ID); e == nil || e.Granted {
			return false
		}
	}
	return true
}

// looksInVain reports whether an operation only looks for its claim, and the record lacks it.
func looksInVain(n *name, a *applied) bool {
	return slices.ContainsFunc(n.doing, func(o *op) bool { return o.looks && !a.stored[o.claim.ID] }) //mutant:record-looks-and-writes
}

// wouldGrant reports whether an operation that did not find its claim would be granted. Then no holder would take in
// the notes, so this process has to.
func wouldGrant(n *name, a *applied) bool {
	return slices.ContainsFunc(n.doing, func(o *op) bool {
		if !o.looks || a.stored[o.claim.ID] { //mutant:record-room-of-a-try
			return false
		}
		e := a.find(o.claim.ID)
		return e != nil && e.Granted
	})
}
