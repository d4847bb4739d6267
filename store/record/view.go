package record

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// A view is a record at an instant, ready for the rule.
type view struct {
	name  string
	q     queue.Queue
	now   queue.Time
	in    map[store.ID]session.ID // the session of each entry
	kept  map[store.ID]session.ID // the session that is its minimum hold, see below
	wish  map[store.ID]int64      // the minimum hold that has not begun, in microseconds
	marks []mark

	of         *Record
	traits     *Traits
	reportsEnd bool // of sessions

	notes   []waiter                     // those of the inbox
	left    map[session.ID]time.Duration // what each session has left, as far as it is known
	stored  map[store.ID]bool            // the entries of the record itself, not of the inbox
	drawn   int64                        // the newest token of the record itself
	had     bool                         // something was written before
	refused bool                         // a claim was refused: it matters whether the holders are alive
	again   []store.ID                   // those that wait in the record and ask again
	all     bool                         // it matters of all entries whether they live
	asks    bool                         // it matters of the first that ask the holders to give up
	reads   bool                         // nothing is to be written
	untimed bool                         // the server tells no time, though it should
	doubt   func(session.ID) time.Duration
	comes   bool  // nobody does anything but come, or look for its note
	lately  int64 // who was granted since then was so a moment ago, see passedOn
}

// A mark says up to which number the notes of a session are void, or were taken in.
type mark struct {
	in     session.ID
	number uint64
}

func (v *view) find(id store.ID) *queue.Entry {
	for i := range v.q.Entries {
		if v.q.Entries[i].ID == id {
			return &v.q.Entries[i]
		}
	}
	return nil
}

// hasNote reports whether a note of the claim is in the inbox.
func (v *view) hasNote(id store.ID) bool {
	return slices.ContainsFunc(v.notes, func(n waiter) bool { return n.claim.ID == id })
}

// sessions is all that are named.
func (v *view) sessions() []session.ID {
	all := slices.AppendSeq(slices.Collect(maps.Values(v.in)), maps.Values(v.kept))
	for i := range v.marks {
		all = append(all, v.marks[i].in)
	}
	for i := range v.notes {
		all = append(all, v.notes[i].in)
	}
	return all
}

// marked is up to which number the notes of a session are not to be taken in.
func (v *view) marked(in session.ID) uint64 {
	for i := range v.marks {
		if v.marks[i].in == in {
			return v.marks[i].number
		}
	}
	return 0
}

// mark raises the mark of a session. It reports whether that changed anything.
func (v *view) mark(in session.ID, number uint64) bool {
	for i := range v.marks {
		if m := &v.marks[i]; m.in == in {
			raised := number > m.number
			m.number = max(m.number, number)
			return raised
		}
	}
	v.marks = append(v.marks, mark{in, number})
	return true
}

// refuse notes that a claim is refused: it matters whether the holders are alive. For waiters that check is left
// for later.
func (v *view) refuse(c *store.Claim) {
	if v.refused = true; c.Try { //mutant:record-left-by-a-try
		v.lately = math.MaxInt64
	}
}

// passedOn is the time, on the clock of the record, since which a granted hold is assumed alive by polls and new
// claims, if the name is passed on quickly: a claim was granted a moment ago, and others wait. Then the holder
// is usually alive, and if not a later read finds out. Otherwise, and if the record is ahead of the server's
// clock, it is never.
func (v *view) passedOn(moment, present int64) int64 {
	since, passed, waits := v.now.Clock-moment, false, len(v.notes) > 0 //mutant:record-lately-for-good
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		passed, waits = passed || e.Since > since, waits || !e.Granted
	}
	if passed && waits && v.traits.Clock && !v.untimed && (v.comes || !v.traits.Notifies) { //mutant:record-lately-alone
		if v.now.Clock-present <= moment { // else it was set back: a grant from before lies in the future //mutant:record-lately-by-a-clock-set-back
			return since
		}
	}
	return math.MaxInt64
}

// errUntimed is why nothing can be counted.
func errUntimed() error {
	return fmt.Errorf("%w: a minimum hold and a lock delay are counted by the server's time, and its answers tell none", store.ErrUnsupported)
}

// counts refuses a record with a time that the server counts, if the server does not report its time: a process that writes such a record would
// begin or end it by its own clock. A reading is for people, and uses the clock of this host.
func (v *view) counts() error {
	if !v.untimed || v.reads { //mutant:record-reads-are-refused
		return nil
	}
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; e.MinHold > 0 || e.LockDelay > 0 { //mutant:record-counts-by-no-time
			return errUntimed()
		}
	}
	for i := range v.notes {
		if c := &v.notes[i].claim; c.MinHold > 0 || c.LockDelay > 0 {
			return errUntimed()
		}
	}
	return nil
}

// unsure is for how long at most what blocks a claim that was refused has to be watched still until it is known whether it lives.
func (v *view) unsure() (most time.Duration) {
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; e.Expires > v.now.Clock {
			most = max(most, v.doubt(v.in[e.ID]))
		}
	}
	return most
}

// isLeft reports whether it is left for later whether a holder lives: it was granted a moment ago. One that is dead and has a lock
// delay is not to be granted.
func (v *view) isLeft(e *queue.Entry) bool {
	return e.LockDelay == 0 && //mutant:record-left-with-a-delay
		e.Since > v.lately //mutant:record-lately-all
}

// settle gives each entry the time that its session has left, as far as that is known.
func (v *view) settle() {
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		v.wishes(e.ID, e)
		if kept, is := v.kept[e.ID]; is {
			left, known := v.left[kept]
			if !known {
				left = time.Duration(unending) * time.Microsecond
			}
			v.keepsOn(e, left)
		}
		if e.Expires <= v.now.Clock {
			continue
		}
		if left, known := v.left[v.in[e.ID]]; known {
			e.Expires = v.now.Clock + leftOf(left)
		}
	}
}

// leftOf is what a session has left, on the clock of the record. A live one has some left, however little: its
// entries may be skipped only once its end is final (law 2).
func leftOf(d time.Duration) int64 {
	return max(micros(d), 0) //mutant:record-a-moment-left-is-none
}

// takeIn appends the notes to the entries of the record, in the order in which they
// came (law 13), and returns the claims that this grants. A note is taken in once: not
// if its claim is in the record, nor if it is void or was taken in before (laws 3, 12),
// nor if its session has ended.
func (v *view) takeIn() (granted []store.Notification, taken []store.ID) {
	for i := range v.notes {
		n := &v.notes[i]
		if v.traits.Void == VoidByMark {
			if n.number <= v.marked(n.in) { //mutant:record-note-comes-back
				continue
			}
			v.mark(n.in, n.number) //mutant:record-note-taken-in-leaves-no-mark
		}
		if left, known := v.left[n.in]; known && left <= 0 || v.find(n.claim.ID) != nil {
			continue
		}
		n.claim.Name = v.name
		a, change, err := v.q.Ask(v.now, v.name, &n.claim)
		granted = append(granted, change.Woken...)
		if err != nil {
			continue // its owner learns when it asks again
		}
		v.in[n.claim.ID], taken = n.in, append(taken, n.claim.ID)
		v.wishes(n.claim.ID, v.find(n.claim.ID))
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
	marksAsked = 2
)

// askedAgain is the most sessions that a repeated ask in a crowd checks; of more it checks none.
const askedAgain = 256

// learn notes what is known of sessions that the view does not know yet: first of those
// of the record, and once the operations are applied of those that they added.
func (v *view) learn(known func(session.ID) (time.Duration, bool)) {
	for _, in := range v.sessions() {
		if _, has := v.left[in]; has {
			continue
		}
		if left, known := known(in); known {
			v.left[in] = left
		}
	}
}

// unknown is the sessions that matter and may or may not be alive: those of the holders, if
// there are waiters. Checking each waiter would be quadratic in a crowd; a granted one is a
// holder. If ends are reported, the waiters of a crowd leave the holders to the first of them,
// as each watches the session ahead of its own (law 9); a repeated ask checks those ahead of it.
func (v *view) unknown(asked map[session.ID]bool) (ids []session.ID) {
	first := len(asked) == 0
	unheard := func(in session.ID) { // each unknown session once
		if _, known := v.left[in]; !known && !asked[in] {
			asked[in], ids = true, append(ids, in)
		}
	}
	waits := v.refused || v.all
	crowd := v.reportsEnd && len(v.q.Entries) > fewCome
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		waits = waits || !crowd && !e.Granted || e.Want > e.Weight
		if v.asks && e.Asking(v.now) { //mutant:record-asked-by-the-dead
			v.asks = e.Granted // that one is not asked itself, only by the first waiter //mutant:record-upgrade-asked-by-the-dead
			unheard(v.in[e.ID])
		}
	}
	if !waits {
		for _, id := range v.again { //mutant:record-who-asks-again-asks-for-nobody
			ahead := v.blocking(id) //mutant:record-asks-for-all-holders
			rand.Shuffle(len(ahead), func(i, j int) { ahead[i], ahead[j] = ahead[j], ahead[i] })
			for _, in := range ahead {
				if len(asked) < askedAgain {
					unheard(in)
				}
			}
		}
		return ids
	}
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		if kept := v.keptBy(e); kept != (session.ID{}) {
			unheard(kept)
		}
		if (e.Granted && !v.isLeft(e) || v.all) && e.Expires > v.now.Clock {
			unheard(v.in[e.ID])
		}
	}
	if first && !v.reads && len(v.marks) > maxMarks+len(v.q.Entries) && rand.N(2) == 0 { //mutant:record-marks-are-few
		for range marksAsked {
			unheard(v.marks[rand.N(len(v.marks))].in)
		}
	}
	return ids
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

// If the server has no clock, a minimum hold is a session of its own, which is never
// renewed: the entry blocks until that session has ended, too. Its TTL is what is left of
// the minimum hold on the owner's own clock when the owner first shows the token. No two
// clocks are compared.

// keptBy is the session that is the minimum hold of an entry, if it has one that is not
// void.
func (v *view) keptBy(e *queue.Entry) session.ID {
	if !e.Granted || e.MinHold == 0 { // broken, or over
		return session.ID{}
	}
	return v.kept[e.ID]
}

// keepsOn has an entry block for as long as its minimum hold has left.
func (v *view) keepsOn(e *queue.Entry, left time.Duration) {
	e.Shown = true
	e.MinHold = max(v.now.Clock+leftOf(left)-e.Since, 0) //mutant:record-minimum-hold-without-clock
}

// bySession reports whether minimum holds are sessions here.
func (t *Traits) bySession() bool { return !t.Clock }

// wishes has the rule know nothing of a minimum hold that has not begun.
func (v *view) wishes(id store.ID, e *queue.Entry) {
	if _, began := v.kept[id]; v.traits.bySession() && !began && e.MinHold > 0 {
		v.wish[id], e.MinHold = e.MinHold, 0
	}
}

// keep has the session be the minimum hold of an entry, which has not begun.
func (v *view) keep(id store.ID, by session.ID) {
	e := v.find(id)
	if e == nil || !e.Granted || e.Broken != nil || v.wish[id] == 0 {
		return
	}
	if delete(v.wish, id); by != (session.ID{}) { // otherwise it has ended
		v.kept[id] = by
		v.keepsOn(e, time.Duration(unending)*time.Microsecond)
	}
}
