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
	reportsEnd bool // the server reports the end of a session

	notes   []waiter                     // in the inbox
	left    map[session.ID]time.Duration // the time that each session has left, if known
	stored  map[store.ID]bool            // the entries of the record itself, not of the inbox
	drawn   int64                        // the newest token of the record itself
	had     bool                         // something was written before
	refused bool                         // a claim was refused: it matters whether the holders are alive
	again   []store.ID                   // claims that wait in the record and ask again
	all     bool                         // it matters whether each entry is alive
	asks    bool                         // it matters for the first entries that ask the holders to give up
	reads   bool                         // nothing will be written
	untimed bool                         // the server returns no time, though it should
	doubt   func(session.ID) time.Duration
	comes   bool  // all operations are first asks, or look for their claims
	lately  int64 // a claim granted after this was granted a moment ago, see passedOn
}

// A mark says up to which number the notes of a session are void or taken in.
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

// sessions returns all sessions that the view names.
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

// marked returns the number up to which the notes of a session must not be taken in.
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

// refuse records that a claim is refused: then it matters whether the holders are alive. If the claim waits, the
// check of recent ones is left for later.
func (v *view) refuse(c *store.Claim) {
	if v.refused = true; c.Try { //mutant:record-left-by-a-try
		v.lately = math.MaxInt64
	}
}

// passedOn returns the time, on the clock of the record, since which polls and new claims assume a granted holder to
// be alive, if the name is passed on quickly: a claim was granted a moment ago, and others wait. Then the holder is
// usually alive, and if not, a later read finds out. Otherwise, or if the record is ahead of the server's clock, no
// holder is assumed to be alive.
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

// errUntimed says why times cannot be counted.
func errUntimed() error {
	return fmt.Errorf("%w: a minimum hold and a lock delay are counted by the server's time, and its answers tell none", store.ErrUnsupported)
}

// counts refuses a record with times that the server counts, if the server does not return its time: a process that
// writes such a record would begin or end them by its own clock. A read is for people, and uses the clock of this
// host.
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

// unsure returns how long, at most, the sessions of unexpired entries must still be watched until it is known
// whether they are alive. They may block a refused claim.
func (v *view) unsure() (most time.Duration) {
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; e.Expires > v.now.Clock {
			most = max(most, v.doubt(v.in[e.ID]))
		}
	}
	return most
}

// isLeft reports whether the check of a holder is left for later, because it was granted a moment ago. A claim with
// a lock delay is always checked: a dead one must not be granted.
func (v *view) isLeft(e *queue.Entry) bool {
	return e.LockDelay == 0 && //mutant:record-left-with-a-delay
		e.Since > v.lately //mutant:record-lately-all
}

// settle gives each entry the time that its session has left, if that is known.
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

// leftOf converts the time that a session has left to the clock of the record. A live one has some left, however
// little: its entries may be skipped only once its end is final (law 2).
func leftOf(d time.Duration) int64 {
	return max(micros(d), 0) //mutant:record-a-moment-left-is-none
}

// takeIn appends the notes to the entries of the record, in the order in which they came (law 13), and returns the
// claims that this grants. It takes each note in once. It skips a note if its claim is in the record, if it is void
// or was taken in before (laws 3, 12), or if its session has ended.
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

// If a record has more than maxMarks marks of sessions without an entry, every second writer checks whether some can
// go. It checks marksAsked random ones, as most sessions of a crowd are alive.
const (
	maxMarks   = 64
	marksAsked = 2
)

// askedAgain is the most sessions that a repeated ask in a crowd checks. It does not check the others.
const askedAgain = 256

// learn adds what is known of sessions that the view does not know yet: first of those of the record, and once the
// operations are applied, of those that they added.
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

// unknown returns the sessions that matter and may or may not be alive: those of the holders, if there are waiters.
// Checking each waiter would be quadratic in a crowd; a granted one counts as a holder. If the server reports ends,
// the waiters of a crowd leave the holders to the first of them, as each watches the session ahead of its own (law
// 9); a repeated ask checks those ahead of it.
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
			v.asks = e.Granted // a holder that asks (an upgrade) is asked only by the first waiter //mutant:record-upgrade-asked-by-the-dead
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

// neighbors returns the session of the entry directly ahead of each waiter.
func (v *view) neighbors() map[store.ID]session.ID {
	of := map[store.ID]session.ID{}
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; i > 0 && !e.Granted {
			of[e.ID] = v.blocksWith(&v.q.Entries[i-1])
		}
	}
	return of
}

// blocksWith returns the session by which an entry blocks. If the entry was given back or has expired, that is the
// session of its minimum hold.
func (v *view) blocksWith(e *queue.Entry) session.ID {
	if by := v.keptBy(e); by != (session.ID{}) && e.Expires <= v.now.Clock {
		return by
	}
	return v.in[e.ID]
}

// news returns a notification for each waiter that has another entry directly ahead of it than before, or whose note
// was taken in (law 9). It names the session of the entry ahead.
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

// blocking returns the sessions that a waiting claim waits for (law 9): that of the entry directly ahead, or, for
// the first waiter, those of all holders.
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

// If the server has no clock, a minimum hold is a session of its own, which is never renewed. The entry also blocks
// until that session has ended. Its TTL is what is left of the minimum hold, on the owner's own clock, when the
// owner first shows the token. No two clocks are compared.

// keptBy returns the session that is the minimum hold of an entry, or zero if it has none or that is void.
func (v *view) keptBy(e *queue.Entry) session.ID {
	if !e.Granted || e.MinHold == 0 { // broken, or the minimum hold has ended
		return session.ID{}
	}
	return v.kept[e.ID]
}

// keepsOn makes an entry block for what is left of its minimum hold.
func (v *view) keepsOn(e *queue.Entry, left time.Duration) {
	e.Shown = true
	e.MinHold = max(v.now.Clock+leftOf(left)-e.Since, 0) //mutant:record-minimum-hold-without-clock
}

// bySession reports whether minimum holds are sessions.
func (t *Traits) bySession() bool { return !t.Clock }

// wishes hides from the rule a minimum hold that has not begun.
func (v *view) wishes(id store.ID, e *queue.Entry) {
	if _, began := v.kept[id]; v.traits.bySession() && !began && e.MinHold > 0 {
		v.wish[id], e.MinHold = e.MinHold, 0
	}
}

// keep makes the session the minimum hold of an entry, if that has not begun.
func (v *view) keep(id store.ID, by session.ID) {
	e := v.find(id)
	if e == nil || !e.Granted || e.Broken != nil || v.wish[id] == 0 {
		return
	}
	if delete(v.wish, id); by != (session.ID{}) { // zero: the minimum hold has ended
		v.kept[id] = by
		v.keepsOn(e, time.Duration(unending)*time.Microsecond)
	}
}
