package main

import "fmt"

// A law is a rule of the protocol that can be dropped, to see what it is for.
type law uint64

const (
	rebind      law = 1 << iota // law 1
	keptFrom                    // laws 1 and 6
	final                       // law 2
	together                    // law 2
	endLast                     // law 2
	force                       // law 3
	void                        // law 3
	voidFirst                   // law 3
	callAgain                   // law 3
	keepMark                    // law 3
	markTaken                   // law 3, 12
	unsure                      // law 3
	ownRead                     // law 4
	hintSession                 // law 6
	hintWaits                   // law 6
	takeInOnly                  // law 8
	purgeFirst                  // law 8
	lookOn                      // law 9
	watchAhead                  // law 9
	tellBehind                  // law 9
	heedBusy                    // law 9
	countShort                  // law 10
	countLong                   // law 10
	takeOut                     // law 10
	inboxFirst                  // law 11
	behind
	tells
	newVersion
	retain
	adoptSession
	handFirst
	downFirst
	wantReads
	callAfter
	polls
	onceJoined  // law 4
	toldSession // law 9
	takeFirst
	heldTotals
	ownTotal
	waitTotals
	holdsStay
	beginTells         // law 15
	suspectMoves       // law 15
	suspectTakesNoMore // law 15
	suspectEnds        // law 15
	markFirst          // law 16
	callHeard          // law 16
	grantTells         // law 16
	noticeTells        // law 16
	moveTells          // law 16
	readsOn            // law 16
	livingAsk          // law 16
	fromSending        // laws 1 and 2, of a session
	finalEnd
	renewRefused
	closeSame
	sinceAnswer
	renewsAgain
	laws = iota
	all  = 1<<laws - 1
)

// What each law says.
var says = map[law]string{
	rebind:             "a grant counts from the session that its entry was written under",
	keptFrom:           "a grant that was kept for a later ask counts from its session, not from that ask",
	final:              "only a session whose end is final is passed over",
	together:           "a session that runs out is over for all claims of its process at once",
	endLast:            "a session is ended only when nobody counts on it any more",
	force:              "a swap that was not answered is overwritten",
	void:               "a join that was not answered is made void",
	voidFirst:          "it is made void before the record is read",
	callAgain:          "a call that was not answered is made again",
	keepMark:           "a mark stays as long as its session lives",
	markTaken:          "a note that is taken in leaves its number, as it can come twice",
	unsure:             "an ask that may be under another session too is taken out, though its own is over",
	ownRead:            "whose note may be in the inbox writes only on what it has read itself",
	hintSession:        "a notification is the grant only under the claim's present session",
	hintWaits:          "who has begun to give up is granted nothing",
	takeInOnly:         "a swap takes in only notes that are still there",
	purgeFirst:         "a record is deleted only when no note of its is left, not even one that was taken in or is void",
	lookOn:             "who has joined reads until it has seen itself in the record",
	watchAhead:         "then it reads when a session ahead of it ends",
	tellBehind:         "each write tells those who have another directly ahead of them now",
	heedBusy:           "a notification that comes during an operation has another read follow it",
	countShort:         "until its move is answered a hold ends with the short session",
	countLong:          "from the sending of its move on it ends with the long one too",
	takeOut:            "a hold that may have been moved is taken out, though its short session is over",
	inboxFirst:         "of two readings the inbox is the first",
	behind:             "who comes is put behind those in the record",
	tells:              "the answer to a swap tells the notes that are there",
	newVersion:         "a version is never used again, even if the record was deleted and made again",
	retain:             "a record is deleted only when no request of its name can be under way",
	adoptSession:       "an adoption writes the session of the one who adopts",
	handFirst:          "a hold is over for its owner before it is handed on",
	downFirst:          "an upgrade is over for its owner before the way back is sent",
	wantReads:          "who has an upgrade pending reads with each renewal",
	callAfter:          "who breaks a hold calls its session after the write",
	onceJoined:         "who may be in the record leaves no note",
	toldSession:        "who has joined is told that its note was taken in only under its present session",
	takeFirst:          "who gives back takes in first who has come by then",
	heldTotals:         "a claim is granted only if it fits under the totals of all that hold",
	ownTotal:           "… and under its own",
	waitTotals:         "the totals of those that wait count for nobody else",
	holdsStay:          "a hold stays, whatever total another comes with",
	beginTells:         "the beginning of a session tells which server it was, too",
	suspectMoves:       "what is known to be in a session of another server is written anew, or lost",
	suspectTakesNoMore: "… nothing new goes into it",
	suspectEnds:        "… and it is ended, with what nobody knows of",
	markFirst:          "who asks the holders to give up has that in the record before it reads who they are",
	callHeard:          "a call that is heard during a reading has another follow",
	grantTells:         "who is granted is told if somebody asks to give it up by then, and reads",
	noticeTells:        "… by the notification of its grant, too",
	moveTells:          "a renewal that moves a hold tells who asks to give it up",
	readsOn:            "who was asked to give up reads with each renewal until nobody asks any more",
	livingAsk:          "a waiter whose session has ended asks nobody to give up",
	fromSending:        "a renewal counts from its sending",
	finalEnd:           "the end of a session is made final before anybody relies on it",
	renewRefused:       "a renewal of a session that was ended is refused, however long it has waited",
	closeSame:          "a session is closed only if nobody has renewed it since it was seen",
	sinceAnswer:        "a session was seen unchanged since the answer came, not since the question was sent",
	renewsAgain:        "a renewal that is not answered is sent again after a sixth of the TTL",
	polls:              "who waits reads now and then, as a notification may be lost",
}

// A scheme is how joins are made void.
type scheme uint8

const (
	byCall scheme = iota // it depends on the call counter of its session: a call voids all that are under way
	byMark               // it depends on nothing: the claim's mark in the record voids it
	noJoin               // there is no inbox: a new claim writes the record
)

// rules say which laws of the protocol hold, which features are in this run, and its bounds.
type rules struct {
	keep   law
	scheme scheme
	n      int // claims
	bounds faults

	weight [maxClaims]int8
	limit  int8
	totals [maxClaims]int8 // the limit that each claim is asked for with

	patient       bool // no claim gives up, and a waiter reads only when a law says so
	next          bool // patient, and a waiter watches only the session directly ahead; B may give up
	hogs          bool // A keeps what it has until it loses it, or has its upgrade
	moves         bool // the first session is short, for waiters; a hold moves to the second, which is long
	either        bool // moves, and an ask may be made in the long session first
	reported      bool // a claim that joined may get a notification, late or never, that its note was taken in, and then need not read
	unasked       bool // a new claim checks no session, as it will watch
	notifications bool // notifications may be late, duplicated or lost; else they are true
	keeps         bool // no notifications: a grant that another operation of the process sees is kept for the next ask
	shared        bool // A and B are of one process
	apart         bool // a join is a request of its own
	halves        bool // the inbox and the record are read in two requests
	water         bool // notes are passed by a watermark in the record, and purged later
	leased        bool // the notes of a session that has ended are removed by the server
	order         bool // overtaking is counted
	peeks         bool // an ask may read the record alone, and no answer to a swap has the notes; claims granted at once are counted
	upgrades      bool // A changes its weight to the limit, and back
	detaches      bool // A hands its hold to B
	giveUp        bool // the last claim asks the holders to give up; the others keep their holds until they learn of that. With hogs, A keeps it for good
}

func (r *rules) has(l law) bool { return r.keep&l != 0 }

// locks is the machine of some rules: one name, and the claims for it.
type locks struct{ *rules }

func (m locks) without(l law) run {
	r := *m.rules
	r.keep &^= l
	return locks{&r}
}

func (m locks) explore() result { return explore(m, bound) }

func (r *rules) start() (s state) {
	s.left = r.bounds
	for i := range s.c {
		if s.c[i].at = idle; i >= r.n {
			s.c[i].at = done
		}
	}
	if s.ver = vNow; r.bounds.deletes > 0 {
		s.ver, s.top = vAbsent, vAbsent
	}
	return s
}

func (m locks) next(s state, yield func(what string, who int, fault bool, to state)) {
	r := m.rules
	for i := range r.n {
		s.claimSteps(r, i, yield)
	}
	step := func(what string, who int, fault bool, change func(to *state)) {
		to := s
		change(&to)
		yield(what, who, fault, to)
	}
	s.server(r, step)
	s.operator(r, step)
}

// wrong returns what must never be, if it is so.
func (r *rules) wrong(s state) string {
	inside, least := int8(0), r.limit
	for i := range r.n {
		if c := &s.c[i]; c.at == holds {
			least = min(least, r.totals[i])
			if inside += r.weight[i]; c.has {
				inside += r.limit - r.weight[i]
			}
		}
	}
	if inside > least {
		return "MORE INSIDE THAN FIT"
	}
	for _, n := range s.behind {
		switch {
		case n >= tooMany:
			return "AN ENTRY IS OVERTAKEN"
		case n > 1:
			return "A NOTE IS OVERTAKEN TWICE"
		}
	}
	return ""
}

// rests reports whether all claims have left and nothing blocks. Remains of expired sessions go as soon as the
// server has ended these.
func (r *rules) rests(s state) bool {
	lapsed := s.lapsedAll(r)
	for i := range r.n {
		c := &s.c[i]
		if c.at < done && !r.keepsOn(&s, i) {
			return false
		}
	}
	for _, e := range s.rec.e[:s.rec.n] {
		if lapsed&bit(e.session) == 0 && !r.keepsOn(&s, int(e.claim)) {
			return false
		}
	}
	for _, k := range s.inbox.k[:s.inbox.n] {
		if lapsed&bit(r.sessionOf(k)) == 0 && !s.rec.void(r, k) && !r.keepsOn(&s, k.claim()) {
			return false
		}
	}
	for i := range s.late {
		if s.late[i].kind == swap {
			return false
		}
	}
	return true
}

func (r *rules) stuck() string {
	switch {
	case r.giveUp && r.hogs:
		return "A HOLDER IS ASKED BY NOBODY"
	case r.patient:
		return "SOMEBODY WAITS FOREVER"
	}
	return "THE NAME STAYS TAKEN"
}

func (r *rules) who(i int) string { return [...]string{"A", "B", "C", ""}[i] }

// text returns the state of the server, for people.
func (r *rules) text(s state) (out string) {
	out = "record"
	for _, e := range s.rec.e[:s.rec.n] {
		out += " " + names[e.claim]
		if e.claim != nobody {
			out += fmt.Sprint(e.session%2 + 1)
		}
		for i, mark := range []string{"!", "^", "!", "x", "?"} {
			if e.flags&(1<<i) != 0 {
				out += mark
			}
		}
	}
	for k, number := range s.rec.marks {
		if number > 0 {
			out += fmt.Sprintf(" void:%s%d#%d", names[k/2], k%2+1, number)
		}
	}
	if r.bounds.deletes > 0 {
		if out += fmt.Sprintf(" v%d", s.ver-vAbsent); s.ver == vAbsent {
			out = "no record"
		}
	}
	if s.inbox.n > 0 {
		out += "; inbox"
		for _, k := range s.inbox.k[:s.inbox.n] {
			if out += fmt.Sprintf(" %s%d", names[k.claim()], k.key()%2+1); r.scheme == byMark {
				out += fmt.Sprintf("#%d", k.number())
			}
		}
	}
	inside := ""
	for i := range r.n {
		if s.c[i].at == holds {
			inside += " " + names[i]
		}
	}
	if inside != "" {
		out += "; inside" + inside
	}
	return out
}
