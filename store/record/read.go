package record

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// ready makes what is known of the record good enough for a batch.
func (s *records) ready(ctx context.Context, n *name) error {
	if err := s.void(ctx, n); err != nil {
		return err
	}
	old := s.traits.Clock && !n.now.fresh && !s.clockKnown() //mutant:record-writes-by-a-clock-of-long-ago
	if old || !n.usable() || !n.now.fresh && slices.ContainsFunc(n.doing, func(o *op) bool { return o.insists || o.looks }) {
		if err := s.begin(ctx, n); err != nil {
			return err
		}
	}
	if err := s.takesInFirst(ctx, n); err != nil {
		return err
	}
	for _, o := range n.doing {
		o.fresh = n.now.fresh
	}
	return nil
}

// usable reports whether a write may depend on n.now. If the note of a claim may be in an unread inbox, a write
// needs a record read since (law 4).
func (n *name) usable() bool {
	b := &n.now
	if !b.known || n.pending != nil && !b.fresh || len(n.late) > 0 && !b.fresh {
		return false
	}
	return b.inbox || len(n.noted) == 0
}

// begin reads the record, without the inbox if the asks do not need it. For a name that this process knows nothing
// of, it assumes that nothing is stored, and a write comes first. It does not do so for a claim that was asked for
// before and may be there: if that has a note in the inbox, too, a notification could replace the read of the record
// (law 4).
func (s *records) begin(ctx context.Context, n *name) error {
	blind := !n.met && (!s.traits.Clock || s.clockKnown()) && n.pending == nil && len(n.late) == 0 && len(n.doing) > 0
	for _, o := range n.doing {
		blind = blind && o.asks && !o.again //mutant:record-asks-again-unread
	}
	if n.met = true; blind {
		n.now = base{known: true, inbox: true, sent: store.Now()}
		return nil
	}
	p, peeks := s.b.(Peeker)
	peeks = peeks && n.pending == nil && len(n.late) == 0 && len(n.doing) > 0
	for _, o := range n.doing {
		peeks = peeks && (o.looks || o.asks && !o.insists && len(n.noted) == 0)
	}
	if !peeks {
		if p, ok := s.b.(Peeker); ok && len(n.noted) == 0 && n.onlyReleases() { //mutant:record-halves-of-the-unknown
			return s.bothHalves(ctx, n, p)
		}
		return s.load(ctx, n, s.b.Load, true)
	}
	return s.load(ctx, n, p.Peek, false)
}

// takesInFirst reads the inbox if a batch does more than ask. An ask may write on the record alone, and so overtake
// a claim whose note is in the inbox. But each granted claim is released, and a release first takes in the notes
// that have come by then. So at most one later hold overtakes a waiter, or a few holds of a process that has seen no
// other (see undisturbed).
func (s *records) takesInFirst(ctx context.Context, n *name) error {
	if n.now.inbox || !slices.ContainsFunc(n.doing, func(o *op) bool { return !o.asks }) || n.undisturbed() { //mutant:record-gives-back-unread
		return nil
	}
	sent := store.Now()
	if p, ok := s.b.(Peeker); ok {
		if n.others && n.onlyReleases() && sent > n.now.sent.Add(2*s.roundTrip()) { // it has probably written the record, too //mutant:record-halves-one-after-the-other
			return s.bothHalves(ctx, n, p)
		}
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		if oldest, err := p.Oldest(ctx, n.at); err != nil {
			return err
		} else if len(oldest.Data) == 0 {
			// The inbox is empty. The record was read before it, so this serves only for a write that depends on the
			// record (law 11).
			n.now.inbox, n.now.fresh = true, false
			n.looked, n.spares = sent, maxSpares
			return nil
		}
	}
	return s.load(ctx, n, s.b.Load, true)
}

// bothHalves reads the record and the inbox at once, for a batch of releases. A note that is in neither may have been
// taken in in between, so this serves only for a write that depends on the record (law 11). If there are notes, or
// nothing is written, all is read again.
func (s *records) bothHalves(ctx context.Context, n *name, p Peeker) error {
	first := n.halves
	if n.halves = false; !first || n.pending != nil || len(n.late) > 0 {
		return s.load(ctx, n, s.b.Load, true)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	var oldest Note
	var err error
	inbox := make(chan struct{})
	s.crew.Run(func() {
		defer close(inbox)
		oldest, err = p.Oldest(ctx, n.at)
	})
	r, failed := s.readBy(ctx, n.at, p.Peek)
	if failed != nil {
		cancel()
	}
	<-inbox
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	}
	s.hears(n)
	if len(oldest.Data) > 0 { //mutant:record-halves-leave-notes
		return s.load(ctx, n, s.b.Load, true)
	}
	n.now = base{Record: r, known: true, inbox: true, sent: sent} // not fresh //mutant:record-halves-are-fresh
	n.looked, n.spares = sent, maxSpares
	return nil
}

// onlyReleases reports whether all operations of the batch that do more than ask are releases of holds, and there is
// one; and no ask needs to read.
func (n *name) onlyReleases() bool {
	some := false
	for _, o := range n.doing {
		if !o.asks && !o.held || o.insists || o.looks {
			return false
		}
		some = some || o.held
	}
	return some
}

// A process that locks and unlocks a name again and again, and meets no other there, reads the inbox only with one in
// maxSpares+1 of its releases, and whenever it has not done so for spareTime. Until then the owner of a note is
// overtaken. It is in the record before that, if it gets there by itself.
const (
	maxSpares = 8
	spareTime = 100 * time.Millisecond
)

// undisturbed reports whether a batch only releases holds, and may leave the inbox unread: this process has just seen
// that it was empty, and no trace of another process at the name since.
func (n *name) undisturbed() bool {
	if n.spares == 0 || store.Now() > n.looked.Add(spareTime) || !n.onlyReleases() { //mutant:record-leaves-the-inbox-for-long
		return false
	}
	n.spares-- //mutant:record-leaves-the-inbox-always
	return true
}

// load reads the record, and the inbox if that request returns it.
func (s *records) load(ctx context.Context, n *name, by func(context.Context, string) (Record, error), inbox bool) error {
	sent := store.Now()
	r, err := s.readBy(ctx, n.at, by)
	if err == nil {
		s.hears(n)
		n.now = base{Record: r, known: true, inbox: inbox, sent: sent, fresh: true}
		if inbox {
			n.looked, n.spares = sent, maxSpares // decide sees what is in it
		}
	}
	return err
}

// void makes the unanswered joins impossible before the record is read (law 3). With VoidByMark the write that
// follows does that.
func (s *records) void(ctx context.Context, n *name) error {
	if s.traits.Void != VoidByCall || len(n.late) == 0 { //mutant:record-late-join-is-void
		return nil
	}
	for len(n.late) > 0 {
		l := n.late[0]
		if !l.in.Over() { //mutant:record-late-join-is-called
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
	n.now.known, n.now.fresh = false, false
	return nil
}

// remember lets the next write depend on what a poll has read, if nothing was done to the name since the poll was
// sent: the poll may lack a later note (law 4).
func (s *records) remember(at string, r *Record, inbox bool, sent store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[at]; n != nil && !n.working && n.rested < sent { //mutant:record-poll-beside-a-note
		n.base = base{Record: *r, known: true, inbox: inbox, sent: sent} //mutant:record-poll-is-remembered
	}
}

// read reads a record from the server.
func (s *records) read(ctx context.Context, at string) (Record, error) {
	return s.readBy(ctx, at, s.b.Load)
}

func (s *records) readBy(ctx context.Context, at string, load func(context.Context, string) (Record, error)) (Record, error) {
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

// look reads the record of a name and returns its view, see viewOf.
func (s *records) look(ctx context.Context, at string, ask func(*view)) (*view, error) {
	r, err := s.read(ctx, at)
	if err != nil {
		return nil, err
	}
	return s.viewOf(ctx, at, &r, ask)
}

// lookFor is look for a claim that waits. The record alone answers for a claim of this process that is in it: what is in
// the inbox comes later. inbox reports whether that was read, too.
func (s *records) lookFor(ctx context.Context, c *store.Claim, own bool) (v *view, inbox bool, err error) {
	refuse := func(v *view) { v.refuse(c) }
	if p, peeks := s.b.(Peeker); peeks && own { //mutant:record-poll-reads-the-inbox
		r, err := s.readBy(ctx, c.Name, p.Peek)
		if err != nil {
			return nil, false, err
		}
		if v, err = s.viewOf(ctx, c.Name, &r, refuse); err != nil || v.find(c.ID) != nil {
			return v, false, err
		}
	}
	v, err = s.look(ctx, c.Name, refuse)
	return v, true, err
}

// wholly asks for all entries whether they are alive.
func wholly(v *view) { v.all = true }

// viewOf returns the view of a record. ask says for which entries it matters whether they are alive.
func (s *records) viewOf(ctx context.Context, at string, r *Record, ask func(*view)) (*view, error) {
	a, err := s.apply(ctx, at, r, []*op{{reads: true, apply: func(v *view) (queue.Change, error) {
		ask(v)
		return queue.Change{}, nil
	}}})
	if err != nil {
		return nil, err
	}
	return a.view, nil
}

// An applied is the result of a batch of operations on a record.
type applied struct {
	*view
	granted []store.Notification // other claims that were granted, also of this process
	ahead   []Notification
	taken   []store.ID // claims whose notes were taken in
	results []error    // by operation
	data    []byte     // the stored form
	asked   bool       // the server was asked whether others live
}

// apply runs the operations on a record. It checks each session that matters and was not seen for a while, and then
// starts over. So a skipped entry has ended for good, by an earlier request than the one that writes (law 2).
func (s *records) apply(ctx context.Context, at string, rec *Record, batch []*op) (*applied, error) {
	for asked := map[session.ID]bool{}; ; {
		v, err := decode(rec.Data, s.present())
		if err != nil {
			return nil, err
		}
		v.heldBy(rec.Foreign) //mutant:record-foreign-holder
		v.name, v.of, v.notes, v.traits, v.reportsEnd = at, rec, parseInbox(rec.Inbox), &s.traits, s.reportsEnd
		v.doubt = s.sessions.Doubt
		v.reads = len(batch) > 0 && !slices.ContainsFunc(batch, func(o *op) bool { return !o.reads })
		v.untimed = s.traits.Clock && !s.clockHeard(2*clockTrusted)
		v.learn(s.sessions.Known)
		v.comes = len(batch) > 0 && !slices.ContainsFunc(batch, func(o *op) bool { return !o.asks || o.again && !o.looks }) //mutant:record-comes-and-gives-back
		v.lately = v.passedOn((s.sessions.Trusted() / 4).Microseconds(), s.present().Clock)
		before := v.neighbors()
		v.settle()
		a := &applied{view: v, results: make([]error, len(batch))}
		if err := v.counts(); err != nil {
			return nil, err
		}
		granted, taken := v.takeIn()
		were := slices.Clone(v.q.Entries)
		for i, o := range batch {
			var change queue.Change
			change, a.results[i] = o.apply(v)
			granted = append(granted, change.Woken...)
		}
		gone := map[store.ID]bool{} // the entries that the batch removes
		for i := range were {
			gone[were[i].ID] = true
		}
		for i := range v.q.Entries {
			delete(gone, v.q.Entries[i].ID)
		}
		for _, h := range granted {
			asks := slices.ContainsFunc(batch, func(o *op) bool { return o.claim != nil && o.claim.ID == h.ID })
			if !asks && !gone[h.ID] { // the asking caller gets the answer
				a.granted = append(a.granted, h)
			}
		}
		v.learn(s.sessions.Known) //mutant:record-own-session-asked-for
		unknown := v.unknown(asked)
		if len(unknown) == 0 {
			a.ahead, a.taken, a.asked = v.news(before, taken), taken, len(asked) > 0
			return a, nil
		}
		in, cancel := context.WithTimeout(ctx, longest) //mutant:record-asks-for-lives-without-end
		err = s.sessions.Ask(in, unknown)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}

// prune drops the marks of sessions that have ended: nothing can be granted under
// them any more (law 12).
func (s *records) prune(v *view) {
	kept := v.marks[:0]
	for _, m := range v.marks {
		if left, known := v.left[m.in]; !known || left > 0 || s.sessions.Own(m.in) != nil { //mutant:record-mark-goes-before-its-session
			kept = append(kept, m)
		}
	}
	v.marks = kept
}
