package record

import (
	"context"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// An applied is what a batch of operations has made of a record.
type applied struct {
	*view
	granted []store.Notification // others that were granted, of this process too
	ahead   []Notification
	taken   []store.ID        // claims of which notes were taken in
	told    []error           // by operation
	data    []byte            // the stored form
	gone    map[store.ID]bool // they were in the record or the inbox, and are not any more
}

// apply runs the operations on a record. Of each session that matters and was not heard
// of for a while it is asked whether it lives, and then all is done again: who is
// passed over has ended for good, by a request before the one that writes (law 2).
func (s *records) apply(ctx context.Context, at string, rec *Record, batch []*op) (*applied, error) {
	for asked := map[session.ID]bool{}; ; {
		v, err := decode(at, rec.Data, s.present())
		if err != nil {
			return nil, err
		}
		v.notes, v.traits, v.reportsEnd = parseInbox(at, rec.Inbox), &s.traits, s.reportsEnd
		v.left = s.sessions.Lives(v.sessions())
		v.lately = s.lately(v)
		before := v.neighbors()
		v.settle()
		a := &applied{view: v, told: make([]error, len(batch)), gone: map[store.ID]bool{}}
		granted, taken := v.takeIn()
		were := slices.Clone(v.q.Entries)
		for i, o := range batch {
			var change queue.Change
			change, a.told[i] = o.apply(v)
			granted = append(granted, change.Woken...)
		}
		for i := range were {
			a.gone[were[i].ID] = true
		}
		for i := range v.q.Entries {
			delete(a.gone, v.q.Entries[i].ID)
		}
		for _, h := range granted {
			asks := slices.ContainsFunc(batch, func(o *op) bool { return o.claim != nil && o.claim.ID == h.ID })
			if !asks && !a.gone[h.ID] { // who asks is told by the answer
				a.granted = append(a.granted, h)
			}
		}
		unknown := v.unknown(asked)
		if len(unknown) == 0 {
			a.ahead, a.taken = v.news(before, taken), taken
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

// lately is since when those were granted, on the clock of the record, of whom who waits and polls need not ask whether they live, if the
// name goes from hand to hand: somebody has got it a moment ago, and others wait. It has a living holder then as a rule, and if not a later
// reading finds it. Else it is never, and so it is where the record is ahead of the server's clock.
func (s *records) lately(v *view) int64 {
	moment := (s.sessions.Trusted() / 4).Microseconds()
	since, passed, waits := v.now.Clock-moment, false, len(v.notes) > 0 //mutant:record-lately-for-good
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		passed, waits = passed || e.Since > since, waits || !e.Granted
	}
	if passed && waits && s.traits.Clock && !s.traits.Notifies { //mutant:record-lately-alone
		if v.now.Clock-s.present().Clock <= moment { // else it was set back: a grant from before lies in the future //mutant:record-lately-by-a-clock-set-back
			return since
		}
	}
	return math.MaxInt64
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
