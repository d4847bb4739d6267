package record

import (
	"context"
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
func (s *Store) apply(ctx context.Context, at string, rec *Record, batch []*op) (*applied, error) {
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
func (s *Store) askLives(ctx context.Context, ids []session.ID) error {
	ctx, cancel := context.WithTimeout(ctx, longest) //mutant:record-asks-for-lives-without-end
	defer cancel()
	return s.sessions.Ask(ctx, ids)
}

// present is the server's clock, as far as we know, and never ahead of it (law 5):
// what it showed when we heard, and what has passed since by our own. Without such a
// clock it is the wall clock, and nothing but what people see depends on it.
func (s *Store) present() queue.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clockAt == 0 {
		return queue.At(time.Now())
	}
	us := s.clock + store.Now().Sub(s.clockAt).Microseconds()
	return queue.Time{Clock: us, Wall: us}
}

// The answer that tells most is the nearest to the server's clock for clockBest; what comes later is heeded even if it tells less: our
// clock drifts, and that of the server may be set. Who has heard none for clockTrusted reads before it writes.
const (
	clockBest    = time.Second
	clockTrusted = time.Minute
)

// clockKnown reports whether the server has told its clock of late.
func (s *Store) clockKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clockAt != 0 && store.Now() < s.clockAt.Add(clockTrusted) //mutant:record-clock-is-old
}

// hear notes what the server's clock showed in an answer that was heard at an
// instant.
func (s *Store) hear(now int64, heard store.Instant) {
	if now == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	age := heard.Sub(s.clockAt)
	if s.clockAt == 0 || age > clockBest || now >= s.clock+age.Microseconds() { //mutant:record-clock-is-never-set-back
		s.clock, s.clockAt = now, heard //mutant:record-clock-ahead-of-the-server
	}
}

// settle gives each entry the time that its session has left, as far as that is known.
func (s *Store) settle(v *view) {
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		if s.bySession() {
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
func (s *Store) takeIn(v *view, inbox []Note) (granted []store.Notification, taken []store.ID) {
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
		if s.bySession() {
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
func (s *Store) unknown(v *view, asked map[session.ID]bool) (ids []session.ID) {
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
func (s *Store) unheard(ids []session.ID, in session.ID, asked map[session.ID]bool) []session.ID {
	if asked[in] {
		return ids
	}
	if _, known := s.sessions.Known(in); known {
		return ids
	}
	asked[in] = true
	return append(ids, in)
}

// prune drops the marks of sessions that have ended: nothing can be granted under
// them any more (law 12).
func (s *Store) prune(v *view) {
	kept := v.marks[:0]
	for _, m := range v.marks {
		if left, known := s.sessions.Known(m.in); !known || left > 0 || s.sessions.Own(m.in) != nil { //mutant:record-mark-goes-before-its-session
			kept = append(kept, m)
		}
	}
	v.marks = kept
}

// neighbors is the session of the entry directly ahead of each that waits.
func (v *view) neighbors() map[store.ID]session.ID {
	of := map[store.ID]session.ID{}
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; i > 0 && !e.Granted {
			of[e.ID] = v.blocksWith(&v.q.Entries[i-1])
		}
	}
	return of
}

// blocksWith is the session that an entry blocks with: of one that was given back or has expired,
// that of its minimum hold.
func (v *view) blocksWith(e *queue.Entry) session.ID {
	if by := v.keptBy(e); by != (session.ID{}) && e.Expires <= v.now.Clock {
		return by
	}
	return v.in[e.ID]
}

// news is for each that waits and has another entry directly ahead of it than before, or whose note was
// taken in (law 9): whose session it is now.
func (v *view) news(before map[store.ID]session.ID, taken []store.ID) (all []Notification) {
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		if e.Granted || i == 0 {
			continue
		}
		ahead := v.blocksWith(&v.q.Entries[i-1])
		was, waited := before[e.ID]
		if waited && was != ahead || !waited && slices.Contains(taken, e.ID) {
			all = append(all, Notification{Name: v.name, ID: e.ID, Session: ahead})
		}
	}
	return all
}

// blocking is the sessions that a waiting claim waits for (law 9): that of the entry
// directly ahead; or, of the first that waits, those of all holders.
func (v *view) blocking(id store.ID) (all []session.ID) {
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		if e.ID != id {
			continue
		}
		if e.Granted || i == 0 {
			return nil
		}
		if !v.q.Entries[i-1].Granted {
			return []session.ID{v.in[v.q.Entries[i-1].ID]}
		}
		for j := range v.q.Entries[:i] {
			if h := &v.q.Entries[j]; h.Expires > v.now.Clock || v.keptBy(h) != (session.ID{}) {
				all = append(all, v.blocksWith(h))
			}
		}
		return all
	}
	return nil
}
