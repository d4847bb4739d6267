package main

import "slices"

// Bounds of what a state can have in it.
const (
	maxClaims = 3
	maxNotes  = 5
	maxLate   = 3
	nobody    = maxClaims     // the id of a hold on its way to another process
	detached  = 2 * maxClaims // the session of such a hold
	operator  = maxClaims     // who breaks holds; it has no claim
)

// Flags of an entry.
const (
	granted    uint8 = 1 << iota
	wanting          // an upgrade of it is pending
	full             // it was upgraded: it weighs as much as the limit
	broken           // by an operator
	giveItUp         // it waits, and asks the holders to give up
	whileAsked       // it was granted while another asked to give up, as its notification says
)

// An entry is in the record. Its session is one of all: 2*process or
// 2*process+1.
type entry struct {
	claim, session int8
	flags          uint8
}

func (e entry) is(flag uint8) bool { return e.flags&flag != 0 }

// A record is what one name has: its queue, and the marks of joins that are
// void: of each session the number up to which they are.
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

// A key is that of a note: of its claim, under the first or the second session
// of the claim's process.
type key = int8

func keyOf(claim int, local int8) key { return int8(2*claim) + local }

// A note has a key, and with byMark a number: they are counted up in each
// session.
type note int8

const numbered = 8 // keys are below it

func noteOf(k key, number int8) note { return note(numbered*number + k) }
func (n note) key() key              { return int8(n) % numbered }
func (n note) claim() int            { return int(n.key() / 2) }
func (n note) number() int8          { return int8(n) / numbered }

// A list is notes, in the order in which they came.
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

// keep drops all for which f is false.
func (l *list) keep(f func(note) bool) {
	var out list
	for _, k := range l.k[:l.n] {
		if f(k) {
			out.add(k)
		}
	}
	*l = out
}

// Versions of a record. Where none is ever used again (rules.deletes is 0) the
// newest is vNow and all others are vOld, so that histories which differ in
// nothing else are one.
const (
	vNone int8 = iota // nothing is known
	vOld              // not the newest any more, nor ever again
	vNow
	vAbsent = vNow // with rules.deletes: there is no record; others are above it
)

// A position is how far a claim is, for those who asked for it.
type place uint8

const (
	idle   place = iota
	wants        // it asks
	waits        // it was answered that it waits
	holds        // it is inside
	leaves       // it is given up: it must be removed, however many tries that takes
	done
	dead
)

// A goal is what an operation of a claim that holds is for. One that wants has
// the goal of getting in, one that leaves of getting out.
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

// A step is how far an operation is.
type step uint8

const (
	begins  step = iota
	halfway      // has read the first of two
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

// A claim, and what its process knows for it.
type claim struct {
	at   place
	goal goal
	step step
	plan plan
	sess int8 // the session that it is asked for in, or holds in: the first or the second of its process

	base   record // what it has read or written last
	ver    int8   // the version of that; vNone: nothing was read
	seen   list   // the notes that it has read with it
	unread bool   // … it has read none: those that are there are not known
	over   uint8  // the sessions that it knew then to have ended

	open   int8    // the version that a swap depends on which was not answered; vNone: there is none
	late   uint8   // the sessions under which a join was not answered, nor made void
	number [2]int8 // of the last join that was not answered, under the first and the second session
	unsure uint8   // the sessions under which an ask was not answered: an entry of it may be there, or come
	in     bool    // it has seen itself in the record since it learned that it waits
	joined bool    // its note may be in the inbox: it has sent a join, and not read since that there is none
	reads  bool    // its session was called: it must read the record
	has    bool    // it learned that its upgrade was granted
	kept   uint8   // a grant that its process has seen, under this session and one more
	ahead  int8    // the session directly ahead of it, which it watches, and one more; 0: none

	heard    bool  // its owner learned that another claim asks it to give up
	asked    bool  // … and so it reads with each renewal
	uncalled uint8 // of a claim that asks: the holders' sessions that are still to be called, and holdersRead
}

// A process has two sessions: the second is begun after the first, or with
// rules.moves it is the long one beside the short.
type process struct {
	lapsed uint8   // those that have run out by its own clock
	joins  [2]int8 // with byMark: notes that were numbered
	behind uint8   // those whose counter of calls is not what it knows
}

// A kind of request.
type kind uint8

const (
	nothing kind = iota
	swap         // of the record, or if it is refused and joins is set a join
	call         // of a session
)

// A request was not answered, or once more than it was sent, and is under way.
type request struct {
	kind   kind
	who    int8
	local  int8 // the session
	ver    int8
	data   record
	takes  list
	joins  bool
	number int8 // of the note
	called bool // the session was called since the counter was read on which the join depends
}

// Faults that are left.
type faults struct {
	silent  int8 // requests without an answer
	copies  int8 // requests that come once more than sent
	lapses  int8 // sessions that run out
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
	passed        list // with a watermark: notes below it that were not purged
	ended         uint8
	begun         bool // the session of a detached hold
	called        int8 // the operator has broken a hold of this session and one more, and not called it yet; or calledBefore
	p             [maxClaims]process
	c             [maxClaims]claim
	late          [maxLate]request
	left          faults
	notifications uint8 // notifications of grants that may arrive from now on, by key
	news          uint8 // … of upgrades, by claim
	reported      uint8 // … that a note was taken in, by key
	behind        [maxClaims]int8
}

// All of a state is bytes, see explore.
func bit[T int | int8](i T) uint8 { return 1 << uint(i) }

// of is the process of a claim.
func (r *rules) of(claim int) int {
	if r.shared && claim == 1 {
		return 0
	}
	return claim
}

// session is one of all, of a claim's process and the first or the second.
func (r *rules) session(claim int, local int8) int8 { return int8(2*r.of(claim)) + local }

// sessionOf is that of a note.
func (r *rules) sessionOf(n note) int8 { return r.session(n.claim(), n.key()%2) }

// void reports whether a note is marked void.
func (q *record) void(r *rules, n note) bool {
	return r.scheme == byMark && n.number() <= q.marks[r.sessionOf(n)]
}

// lives reports whether a claim's process counts on the session that the claim is in.
func (s *state) lives(r *rules, i int) bool { return s.p[r.of(i)].lapsed&bit(s.c[i].sess) == 0 }

func (s *state) free() int {
	for i := range s.late {
		if s.late[i].kind == nothing {
			return i
		}
	}
	return -1
}

// lapsedAll is the sessions that have run out by their owner's clock.
func (s *state) lapsedAll(r *rules) (all uint8) {
	for i := range r.n {
		all |= s.p[r.of(i)].lapsed << uint(2*r.of(i))
	}
	if s.begun {
		all |= bit(detached)
	}
	return all
}
