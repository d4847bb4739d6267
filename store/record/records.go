package record

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/crew"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

const (
	maxNames = 10_000 // with so many names, unused ones are forgotten
	maxBatch = MaxNotes
)

// records holds the records of all names as this process reads and writes them: what it knows of each name, and its
// worker. It knows the rule and the sessions, but claims only through the operations that it is given. Its methods
// are safe for concurrent use.
type records struct {
	b          Backend
	traits     Traits
	reportsEnd bool // the server reports the end of a session
	sessions   *session.Set

	elsewhere func(*applied) []Notification       // returns the notifications of a write for other processes
	deliver   func(*applied, store.Instant, bool) // passes a record to this process

	ctx   context.Context // for all work that outlives a call, canceled by Close
	tasks sync.WaitGroup
	crew  crew.Crew // runs the workers

	mu      sync.Mutex
	closed  bool
	names   map[string]*name
	trip    time.Duration // the measured round trip
	clock   int64         // the server's, in microseconds
	clockAt store.Instant // when the server's clock was at least clock; 0: unknown
}

// A name is what this process knows of a name, and the operations that it will apply to it. Operations of this
// process on one name wait here, and those that wait together go into one write. records.mu guards it, except for
// the fields that only its worker uses, which is one goroutine at a time.
type name struct {
	at      string
	users   int
	working bool          // it has a worker
	rested  store.Instant // when the worker last ran out of work
	waiting []*op         // for the worker
	batch   []*op         // taken by the worker
	left    int           // how many of the batch are abandoned
	crowd   int           // holders and waiters, as last seen
	heard   store.Instant // when the server last answered the worker
	cancel  context.CancelFunc

	// Used by the worker alone.
	doing   []*op             // its copy of the batch
	base    base              // the record, as remembered
	now     base              // base, as used and changed for the batch
	pending *string           // the version that an unanswered swap of this process depends on (law 3)
	late    []late            // unanswered joins of this process: they may be done until they are void
	noted   map[store.ID]bool // claims of this process whose note is in the inbox, as far as we know
	met     bool              // this process has read or written it before
	looked  store.Instant     // when the inbox was last found to be empty
	spares  int               // how many releases may leave the inbox unread after that
	others  bool              // another process was at the name, as last seen
	halves  bool              // the batch may begin with both halves read at once
}

// A base is the record as remembered. A conditional write may depend on it, but it is never the source of an answer
// (law 4).
type base struct {
	Record
	known bool
	inbox bool          // the inbox is known, too
	sent  store.Instant // when the request that returned it was sent
	fresh bool          // read for the batch
	lost  bool          // no longer the newest: good only for leaving a note
}

// A late is a join that was not answered.
type late struct {
	in     *session.Session
	number uint64 // the largest of its notes
	claims []store.ID
}

// An op is an operation on one name. The worker may run apply several times; the last run counts. Once done is
// closed, the caller may use what apply has set.
type op struct {
	at      string // the name
	apply   func(*view) (queue.Change, error)
	ctx     context.Context // of the caller, which may abandon the op
	gives   bool            // it frees the name for others: it goes first, and pauses less
	held    bool            // it is the release of a hold
	asks    bool            // it is an ask
	again   bool            // it is an ask for a claim that may be in the record
	claim   *store.Claim    // of an ask that may wait; it may be left as a note
	short   *session.Session
	reads   bool     // it writes nothing
	insists bool     // its claim must go into the record: a note is not enough
	ahead   int      // how many were ahead of it; set by apply
	looks   bool     // it only finds out whether its claim is in the record
	finds   store.ID // the claim of which nothing may be left, not even a note

	began  store.Instant
	done   chan struct{}
	begun  bool  // the worker has taken it
	left   bool  // its caller has abandoned it
	fresh  bool  // apply got a record that was read for it
	result error // of apply
	err    error // why it may not have been done
	rests  bool  // its claim is in the inbox only
	noted  bool  // a note of it was left
	goesOn bool  // the last write did not complete it
	given  bool  // an earlier write has done it, as far as its caller is concerned
}

// forgetSome keeps the map of names from growing without bound. records.mu is held.
func (s *records) forgetSome() {
	if len(s.names) < maxNames {
		return
	}
	for at, n := range s.names { // in any order
		if s.mayForget(n) {
			delete(s.names, at)
			return
		}
	}
}

// mayForget reports whether this process may forget a name. It must remember what may still be done (law 3).
// records.mu is held.
func (s *records) mayForget(n *name) bool {
	return n.users == 0 && !n.working && n.pending == nil && len(n.late) == 0 && len(n.noted) == 0
}

// took records how long a request took.
func (s *records) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trip == 0 {
		s.trip = d
	}
	s.trip += (d - s.trip) / 8
}

// roundTrip is how long recent requests took on average.
func (s *records) roundTrip() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.trip, 50*time.Microsecond), time.Second)
}

// present estimates the server's clock, and is never ahead of it (law 5): the time that the server returned, plus
// the time that has passed since by the local clock. Without such a time it returns the wall clock, and only what
// people see depends on that.
func (s *records) present() queue.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clockAt == 0 {
		return queue.At(time.Now())
	}
	us := s.clock + store.Now().Sub(s.clockAt).Microseconds()
	return queue.Time{Clock: us, Wall: us}
}

// For clockBest, the answer with the largest time is the nearest to the server's clock. After that a later answer
// counts even with a smaller time: the local clock drifts, and the server's may be set. If no answer had a time for
// clockTrusted, a read precedes the next write.
const (
	clockBest    = time.Second
	clockTrusted = time.Minute
)

// clockKnown reports whether an answer of the last minute had the server's clock.
func (s *records) clockKnown() bool { return s.clockHeard(clockTrusted) }

// clockHeard reports whether an answer no older than ago had the server's clock.
func (s *records) clockHeard(ago time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clockAt != 0 && store.Now() < s.clockAt.Add(ago) //mutant:record-clock-is-old
}

// hear records the server's clock from an answer that arrived at heard.
func (s *records) hear(now int64, heard store.Instant) {
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
