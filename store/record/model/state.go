package main

import "slices"

// Bounds of a state.
const (
	maxClaims = 3
	maxNotes  = 5
	maxLate   = 3
	nobody    = maxClaims     // the claim of a hold on its way to another process
	detached  = 2 * maxClaims // the session of such a hold
	operator  = maxClaims     // the process that breaks holds; it has no claim
)

// Flags of an entry.
const (
	granted    uint8 = 1 << iota
	wanting          // an upgrade of it is pending
	full             // it was upgraded: it weighs as much as the limit
	broken           // by an operator
	giveItUp         // it waits, and asks the holders to give up
	whileAsked       // it was granted while another claim asked to give up, as its notification says
)

// An entry is one of the record. Sessions are numbered over all processes: 2*process or 2*process+1.
type entry struct {
	claim, session int8
	flags          uint8
}

func (e entry) is(flag uint8) bool { return e.flags&flag != 0 }

// A record is the record of one name: its queue, and for each session the number up to which joins are marked void.
type record struct {
	e     [maxClaims]entry
	n     int8
	marks [2 * maxClaims]int8
}

func (q *record) find(claim int) int {
	for i := range int(q.n) {
		if int(q.e[i].claim) == claim {
			return i
		}
	}
	return -1
}

func (q *record) drop(i int) {
	copy(q.e[i:], q.e[i+1:q.n])
	q.n--
	q.e[q.n] = entry{}
}

// A key is the key of a note: its claim, and whether it is under the first or the second session of the claim's
// process.
type key = int8

func keyOf(claim int, local int8) key { return int8(2*claim) + local }

// A note has a key, and with byMark a number. The notes of each session are numbered.
type note int8

const numbered = 8 // keys are below it

func noteOf(k key, number int8) note { return note(numbered*number + k) }
func (n note) key() key              { return int8(n) % numbered }
func (n note) claim() int            { return int(n.key() / 2) }
func (n note) number() int8          { return int8(n) / numbered }

// A list is a list of notes, oldest first.
type list struct {
	k [maxNotes]note
	n int8
}

func (l *list) has(n note) bool {
	return slices.Contains(l.k[:l.n], n)
}

func (l *list) hasKey(k key) bool {
	return slices.ContainsFunc(l.k[:l.n], func(n note) bool { return n.key() == k })
}

func (l *list) of(claim int) bool { return l.hasKey(keyOf(claim, 0)) || l.hasKey(keyOf(claim, 1)) }

func (l *list) add(n note) {
	l.k[l.n] = n // beyond the bound it panics
	l.n++
}

// keep drops the notes for which f is false.
func (l *list) keep(f func(note) bool) {
	var out list
	for _, k := range l.k[:l.n] {
		if f(k) {
			out.add(k)
		}
	}
	*l = out
}

// Versions of a record. If none is ever reused (rules.deletes is 0), the newest is vNow and all others are vOld, so
// that histories that differ in nothing else are merged.
const (
	vNone int8 = iota // nothing is known
	vOld              // no longer the newest, and never again
	vNow
	vAbsent = vNow // with rules.deletes: there is no record; others are above it
)

// A place is how far a claim is, as seen by its owner.
type place uint8

const (
	idle   place = iota
	wants        // it asks
	waits        // the answer was that it waits
	holds        // it holds the lock
	leaves       // it is given up: it must be removed, with retries until it is
	done
	dead
)

// A goal is the purpose of an operation of a claim that holds. The goal of one that wants is to get in, that of one
// that leaves to get out.
type goal uint8

const (
	none       goal = iota
	moving          // to the long session
	upgrading       // to the whole limit
	cancelling      // back to its weight
	detaching       // detaches the hold, for another to adopt
	adopting
	looking // only reads
)

// A step is the progress of an operation.
type step uint8

const (
	begins  step = iota
	halfway      // has read the first of two halves
	decided      // has read, and knows what to do
	joins        // its swap was refused, and its join is another request
)

// A plan is what was decided.
type plan uint8

const (
	undecided plan = iota
	toSwap
	toHold // the answer is: it holds
	toWait // the answer is: it waits
	toGo   // nothing of it is there
	toLose // it was broken, or has ended
)

// A claim is a claim and what its process knows about it.
type claim struct {
	at   place
	goal goal
	step step
	plan plan
	sess int8 // its session: the first or the second of its process

	base   record // the record that it last read or wrote
	ver    int8   // the version of that; vNone: nothing was read
	seen   list   // the notes that it read with base
	unread bool   // it has not read the notes
	over   uint8  // the sessions that had ended, as known then

	open   int8    // the version that an unanswered swap depends on; vNone: there is none
	late   uint8   // the sessions with a join that was neither answered nor made void
	number [2]int8 // of the last unanswered join, under the first and the second session
	unsure uint8   // the sessions with an unanswered ask: an entry may be there, or come
	in     bool    // it has seen itself in the record since it learned that it waits
	joined bool    // its note may be in the inbox: it has sent a join, and no read since has shown that there is none
	reads  bool    // its session was called: it must read the record
	has    bool    // it learned that its upgrade was granted
	kept   uint8   // a grant that its process has seen: the number of its session plus 1
	ahead  int8    // the session directly ahead, which it watches, plus 1; 0: none

	heard    bool  // its owner learned that another claim asks it to give up
	asked    bool  // heard, and so it reads with each renewal
	uncalled uint8 // of a claim that asks: the holders' sessions that are still to be called, and holdersRead
}

// A process has two sessions. The second begins after the first; with rules.moves it is the long one beside the
// short.
type process struct {
	lapsed uint8   // the sessions that have expired by its own clock
	joins  [2]int8 // with byMark: how many notes were numbered
	behind uint8   // the sessions whose call counter has changed since it last read it
}

// A kind is a kind of request.
type kind uint8

const (
	nothing kind = iota
	swap         // of the record; if it is refused and joins is set, a join
	call         // of a session
)

// A request is under way: one that was not answered, or a second copy.
type request struct {
	kind   kind
	who    int8
	local  int8 // the session
	ver    int8
	data   record
	takes  list
	joins  bool
	number int8 // of the note
	called bool // the session was called since the read of the counter that the join depends on
}

// faults counts the faults that are left.
type faults struct {
	silent  int8 // requests without an answer
	copies  int8 // requests that arrive twice
	lapses  int8 // sessions that expire
	deaths  int8 // processes killed
	breaks  int8 // holds broken by an operator
	drops   int8 // notifications lost
	deletes int8 // idle records deleted; no fault, but bounded
	ends    int8 // sessions ended by their process; no fault, but bounded
}

type state struct {
	rec           record
	ver           int8
	top           int8 // the newest version that was ever given, where that matters
	inbox         list
	passed        list // with a watermark: notes below it that are not purged
	ended         uint8
	begun         bool // the session of the detached hold has begun
	called        int8 // the operator has broken a hold and not called its session yet: that session plus 1; or calledBefore
	p             [maxClaims]process
	c             [maxClaims]claim
	late          [maxLate]request
	left          faults
	notifications uint8 // notifications of grants that may arrive from now on, by key
	news          uint8 // notifications of upgrades, by claim
	reported      uint8 // notifications that a note was taken in, by key
	behind        [maxClaims]int8
}

// bit returns bit i of a byte. A state has only bytes, see explore.
func bit[T int | int8](i T) uint8 { return 1 << uint(i) }

// of returns the process of a claim.
func (r *rules) of(claim int) int {
	if r.shared && claim == 1 {
		return 0
	}
	return claim
}

// session returns the number of a session: the first or the second of a claim's process.
func (r *rules) session(claim int, local int8) int8 { return int8(2*r.of(claim)) + local }

// sessionOf returns the session of a note.
func (r *rules) sessionOf(n note) int8 { return r.session(n.claim(), n.key()%2) }

// void reports whether a note is marked void.
func (q *record) void(r *rules, n note) bool {
	return r.scheme == byMark && n.number() <= q.marks[r.sessionOf(n)]
}

// lives reports whether a claim's process believes that the session of the claim is alive.
func (s *state) lives(r *rules, i int) bool { return s.p[r.of(i)].lapsed&bit(s.c[i].sess) == 0 }

func (s *state) free() int {
	for i := range s.late {
		if s.late[i].kind == nothing {
			return i
		}
	}
	return -1
}

// lapsedAll returns the sessions that have expired by their owner's clock.
func (s *state) lapsedAll(r *rules) (all uint8) {
	for i := range r.n {
		all |= s.p[r.of(i)].lapsed << uint(2*r.of(i))
	}
	if s.begun {
		all |= bit(detached)
	}
	return all
}
