package record

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

const (
	maxNames = 10_000 // unused names that are remembered
	maxBatch = MaxNotes
)

// The records of all names, as this process reads and writes them: what it knows of each, and its worker. This
// part knows the rule and the sessions, and no claim but by the operations that it is given. Its methods are safe for
// concurrent use.
type records struct {
	b          Backend
	traits     Traits
	reportsEnd bool // of sessions
	sessions   *session.Set

	elsewhere func(*applied) []Notification       // the notifications of a write for other processes
	deliver   func(*applied, store.Instant, bool) // passes a record to this process

	ctx   context.Context // of all that outlives a call, ended by Close
	tasks sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	names   map[string]*name
	trip    time.Duration // the measured round trip
	clock   int64         // the server's, in microseconds
	clockAt store.Instant // when it was at least that; 0: unknown
}

// A name is what this process knows of one, and what it is about to do to it. The
// operations of this process on one name wait here, and go into one write where
// they wait together. It is guarded by records.mu, except for what only its worker
// uses, which is one goroutine at a time.
type name struct {
	at      string
	users   int
	working bool          // it has a worker
	rested  store.Instant // when that had nothing to do any more
	waiting []*op         // for the worker
	batch   []*op         // that the worker has
	left    int           // of the batch: their callers have left
	crowd   int           // how many held or waited when that was last seen
	cancel  context.CancelFunc

	// The worker's own.
	doing   []*op             // its copy of the batch
	base    base              // the record, as it is remembered
	now     base              // the same, while a batch is done
	pending *string           // the version that an unanswered swap of this process depends on (law 3)
	late    []late            // unanswered joins of this process: they may be done until they are void
	noted   map[store.ID]bool // claims of this process whose note is in the inbox, as far as we know
	met     bool              // it was read or written before
}

// A base is the record as far as it is remembered: it may only be what a conditional
// write depends on, never the source of an answer (law 4).
type base struct {
	Record
	known bool
	inbox bool          // the inbox is known, too
	sent  store.Instant // when the request that returned it was sent
	fresh bool          // it was read for the batch
	lost  bool          // it is not the newest any more: of use for a note only
}

// A late join was not answered.
type late struct {
	in     *session.Session
	number uint64 // the largest of its notes
	claims []store.ID
}

// An op is an operation on one name. apply may be run several times, by the worker; what
// it did last counts. Once done is closed the caller may use what it has set.
type op struct {
	at      string // the name
	apply   func(*view) (queue.Change, error)
	ctx     context.Context // of the caller, who may leave
	gives   bool            // it frees the name for others: it goes first, and waits less
	asks    bool            // it is an ask
	again   bool            // … of a claim that may be in the record
	claim   *store.Claim    // of an ask that may wait: it may be left as a note
	short   *session.Session
	reads   bool     // nothing is to be written
	insists bool     // its claim is to be in the record: a note is not enough
	ahead   int      // how many were ahead of it, by apply
	looks   bool     // it finds out whether its claim is in the record, and does no more
	finds   store.ID // nothing may be left of this claim, not even a note

	done   chan struct{}
	begun  bool  // the worker has it
	left   bool  // its caller does not wait any more
	fresh  bool  // what apply was given was read for it
	result error // of apply
	err    error // why it may not have been done
	rests  bool  // its claim is in the inbox only
	noted  bool  // a note of it was left
	raced  bool  // the server has answered, and another was first
	goesOn bool  // it is not done by the write that was
}

// forgetSome keeps the names from growing without end. records.mu is held.
func (s *records) forgetSome() {
	if len(s.names) < maxNames {
		return
	}
	for at, n := range s.names { // any
		if s.mayForget(n) {
			delete(s.names, at)
			return
		}
	}
}

// mayForget reports whether nothing need be known of a name: what may still be done has to be remembered (law 3).
// records.mu is held.
func (s *records) mayForget(n *name) bool {
	return n.users == 0 && !n.working && n.pending == nil && len(n.late) == 0 && len(n.noted) == 0
}

// took notes how long a request was on its way.
func (s *records) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trip == 0 {
		s.trip = d
	}
	s.trip += (d - s.trip) / 8
}

// roundTrip is how long a request takes, by the recent ones.
func (s *records) roundTrip() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.trip, 50*time.Microsecond), time.Second)
}

// present is this process's estimate of the server's clock, never ahead of it (law
// 5): the time that it returned, plus the time passed since by the local clock.
// Without such a clock it is the wall clock, and nothing but what people see depends
// on it.
func (s *records) present() queue.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clockAt == 0 {
		return queue.At(time.Now())
	}
	us := s.clock + store.Now().Sub(s.clockAt).Microseconds()
	return queue.Time{Clock: us, Wall: us}
}

// The answer with the largest time is the nearest to the server's clock for clockBest; later answers count even
// with a smaller time: the local clock drifts, and the server's may be set. Without an answer for clockTrusted a
// write is preceded by a read.
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

// hear notes the server's clock in an answer that arrived at an instant.
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
