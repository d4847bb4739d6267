package record

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

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
		v.lately = s.lately(v, len(rec.Inbox) > 0)
		before := v.neighbors()
		s.settle(v)
		a := &applied{view: v, told: make([]error, len(batch)), gone: map[store.ID]bool{}}
		granted, taken := s.takeIn(v, rec.Inbox)
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
		unknown := s.unknown(v, asked)
		if len(unknown) == 0 {
			a.ahead, a.taken = v.news(before, taken), taken
			return a, nil
		}
		if err := s.askLives(ctx, unknown); err != nil {
			return nil, err
		}
	}
}

// askLives asks whether sessions of others live.
func (s *records) askLives(ctx context.Context, ids []session.ID) error {
	ctx, cancel := context.WithTimeout(ctx, longest) //mutant:record-asks-for-lives-without-end
	defer cancel()
	return s.sessions.Ask(ctx, ids)
}

// settle gives each entry the time that its session has left, as far as that is known.
func (s *records) settle(v *view) {
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		if s.traits.bySession() {
			v.wishes(e.ID, e)
		}
		if kept, is := v.kept[e.ID]; is {
			left, known := s.sessions.Known(kept)
			if !known {
				left = time.Duration(unending) * time.Microsecond
			}
			v.keepsOn(e, left)
		}
		if e.Expires <= v.now.Clock {
			continue
		}
		if left, known := s.sessions.Known(v.in[e.ID]); known {
			e.Expires = v.now.Clock + leftOf(left)
		}
	}
}

// leftOf is what a session has left, on the clock of the record. One that lives has some left, however little: to pass over what it
// keeps its end has to be final (law 2).
func leftOf(d time.Duration) int64 {
	return max(micros(d), 0) //mutant:record-a-moment-left-is-none
}

// takeIn puts the notes behind the entries of the record, in the order in which they
// came (law 13), and says who was granted so. A note is taken in once: not if its claim
// is in the record, nor if it is void or was taken in before (laws 3, 12), nor if its
// session has ended.
func (s *records) takeIn(v *view, inbox []Note) (granted []store.Notification, taken []store.ID) {
	for i := range inbox {
		n, ok := parseNote(v.name, inbox[i].Data)
		if !ok {
			continue
		}
		if s.traits.Void == VoidByMark {
			if n.number <= v.marked(n.in) { //mutant:record-note-comes-back
				continue
			}
			v.mark(n.in, n.number) //mutant:record-note-taken-in-leaves-no-mark
		}
		if left, known := s.sessions.Known(n.in); known && left <= 0 || v.find(n.claim.ID) != nil {
			continue
		}
		a, change, err := v.q.Ask(v.now, v.name, &n.claim)
		granted = append(granted, change.Woken...)
		if err != nil {
			continue // its owner is told when it asks again
		}
		v.in[n.claim.ID], taken = n.in, append(taken, n.claim.ID)
		if s.traits.bySession() {
			v.wishes(n.claim.ID, v.find(n.claim.ID))
		}
		if a.Granted {
			granted = append(granted, store.Notification{Name: v.name, ID: n.claim.ID, Token: a.Token, N: a.N})
		}
	}
	return granted, taken
}

// maxMarks is how many marks of sessions without an entry a record has before every other who
// writes asks whether some of them can go: marksAsked, whichever, as most of a crowd live.
const (
	maxMarks   = 64
	marksAsked = 4
)

// askedAgain is of how many sessions who asks again in a crowd asks at the most, of any if it waits for more.
const askedAgain = 256

// unknown is the sessions that matter and of which it is not known whether they live: those of
// the holders, if anybody waits for them. To ask about each waiter would be
// quadratic in a crowd; one that is granted is a holder. Where ends are reported, those who wait
// in a crowd leave the holders to the first of them, as each watches the session ahead of
// its own (law 9); and who asks again, to find out, asks for what it waits for.
func (s *records) unknown(v *view, asked map[session.ID]bool) (ids []session.ID) {
	first := len(asked) == 0
	waits := v.refused || v.all
	crowd := s.reportsEnd && len(v.q.Entries) > fewCome
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		waits = waits || !crowd && !e.Granted || e.Want > e.Weight
		if v.asks && e.GiveUp != nil { //mutant:record-asked-by-the-dead
			v.asks, ids = false, s.unheard(ids, v.in[e.ID], asked)
		}
	}
	if !waits {
		for _, id := range v.again { //mutant:record-who-asks-again-asks-for-nobody
			ahead := v.blocking(id) //mutant:record-asks-for-all-holders
			rand.Shuffle(len(ahead), func(i, j int) { ahead[i], ahead[j] = ahead[j], ahead[i] })
			for _, in := range ahead {
				if len(asked) < askedAgain {
					ids = s.unheard(ids, in, asked)
				}
			}
		}
		return ids
	}
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		if kept := v.keptBy(e); kept != (session.ID{}) {
			ids = s.unheard(ids, kept, asked)
		}
		if (e.Granted && !v.isLeft(e) || v.all) && e.Expires > v.now.Clock {
			ids = s.unheard(ids, v.in[e.ID], asked)
		}
	}
	if first && !v.reads && len(v.marks) > maxMarks+len(v.q.Entries) && rand.N(2) == 0 { //mutant:record-marks-are-few
		for range marksAsked {
			ids = s.unheard(ids, v.marks[rand.N(len(v.marks))].in, asked)
		}
	}
	return ids
}

// unheard adds a session of which nothing is known, once.
func (s *records) unheard(ids []session.ID, in session.ID, asked map[session.ID]bool) []session.ID {
	if asked[in] {
		return ids
	}
	if _, known := s.sessions.Known(in); known {
		return ids
	}
	asked[in] = true
	return append(ids, in)
}

// lately is since when those were granted, on the clock of the record, of whom who waits and polls need not ask whether they live, if the
// name goes from hand to hand: somebody has got it a moment ago, and others wait. It has a living holder then as a rule, and if not a later
// reading finds it. Else it is never, and so it is where the record is ahead of the server's clock.
func (s *records) lately(v *view, waits bool) int64 {
	moment := (s.sessions.Trusted() / 4).Microseconds()
	since, passed := v.now.Clock-moment, false //mutant:record-lately-for-good
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
		if left, known := s.sessions.Known(m.in); !known || left > 0 || s.sessions.Own(m.in) != nil { //mutant:record-mark-goes-before-its-session
			kept = append(kept, m)
		}
	}
	v.marks = kept
}
