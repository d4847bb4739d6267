package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

const (
	maxNames = 10_000 // names that are remembered while nobody uses them
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

	elsewhere func(*applied) []Notification       // what a write tells other processes
	told      func(*applied, store.Instant, bool) // what a record tells this one

	ctx   context.Context // of all that outlives a call, ended by Close
	tasks sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	names   map[string]*name
	trip    time.Duration // the measured round trip
	clock   int64         // the server's, in microseconds
	clockAt store.Instant // when it was at least that; 0: never heard
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
	left    int           // of the batch: nobody waits for them any more
	crowd   int           // how many held or waited when that was last seen
	cancel  context.CancelFunc

	// The worker's own.
	doing   []*op             // its copy of the batch
	base    base              // the record, as it is remembered
	now     base              // the same, while a batch is done
	pending *string           // the version that a swap of ours depends on that was not answered (law 3)
	late    []late            // joins of ours that were not answered: they may be done until they are void
	noted   map[store.ID]bool // claims of this process whose note is in the inbox, as far as we know
	met     bool              // it was read or written before
}

// A base is the record as far as it is remembered: it may only be what a conditional
// write depends on, never the source of an answer (law 4).
type base struct {
	Record
	known bool
	inbox bool          // the inbox is known, too
	sent  store.Instant // when the request was sent that told it
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
	gives   bool            // it makes room for others: it goes first, and waits less
	asks    bool            // it is an ask
	again   bool            // … of a claim that may be in the record
	claim   *store.Claim    // of an ask that may wait: it may be left as a note
	short   *session.Session
	insists bool     // its claim is to be in the record: a note is not enough
	ahead   int      // how many were ahead of that, as apply has found
	looks   bool     // it finds out whether its claim is in the record, and does no more
	finds   store.ID // nothing may be left of this claim, not even a note

	done   chan struct{}
	begun  bool  // the worker has it
	left   bool  // its caller does not wait any more
	fresh  bool  // what apply was given was read for it
	told   error // of apply
	err    error // why it may not have been done
	rests  bool  // its claim is in the inbox only
	noted  bool  // a note of it was left
	raced  bool  // the server has answered, and another was first
	goesOn bool  // it is not done by the write that was
}

// do applies an operation to the record of a name, and returns when the change is
// stored. The error is that of apply, or the reason why it may not have been done. If ctx
// ends first that is the error, and what apply has set must not be used.
func (s *records) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.ctx, o.done = ctx, make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return context.Canceled
	}
	n := s.names[o.at]
	if n == nil {
		s.forgetSome()
		n = &name{at: o.at, noted: map[store.ID]bool{}}
		s.names[o.at] = n
	}
	n.users++
	n.waiting = append(n.waiting, o)
	if !n.working {
		n.working = true
		s.tasks.Go(func() { s.work(n) })
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		n.users--
		s.mu.Unlock()
	}()
	select {
	case <-o.done:
	case <-ctx.Done():
		if err := s.leaveOp(ctx, n, o); err != nil {
			return err
		}
	}
	if o.err != nil {
		return o.err
	}
	return o.told
}

// contended is the error of an operation whose context has ended while the server answered (law 7).
func contended(ctx context.Context) error {
	return fmt.Errorf("%w (%w)", store.ErrContended, ctx.Err())
}

// leaveOp takes an op back, or has the worker know that nobody waits for it, as the context has ended. The
// error says so; it is nil if the op was done meanwhile.
func (s *records) leaveOp(ctx context.Context, n *name, o *op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-o.done:
		return nil
	default:
	}
	o.left = true
	if !o.begun {
		n.waiting = slices.DeleteFunc(n.waiting, func(other *op) bool { return other == o })
	} else if n.left++; n.left >= len(n.batch) && n.cancel != nil {
		n.cancel() // nobody waits for any of them
	}
	if o.raced {
		return contended(ctx) //mutant:record-lost-races-are-no-outage
	}
	return ctx.Err()
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

// looksFirst is how often who waits for its note to be taken in looks for itself in the record alone, before it
// reads the inbox and takes in all that is there.
const looksFirst = 2

// oneOf is of how many that have looked so often one reads the inbox, and the next time one of half as many: if the
// owner of the oldest note is dead somebody has to, and if all of a crowd did at once none would be answered.
const oneOf = 8

// place does an ask, and goes on until its claim is in the record itself (law 9): whoever made room
// may not have seen its note, and who comes later is not to overtake it. taken waits for so long for a notification
// that the note was taken in. noted: a note was left.
func (s *records) place(ctx context.Context, o *op, taken func(time.Duration) (bool, error)) (noted bool, err error) {
	err = s.do(ctx, o)
	noted = err != nil && store.Definite(err) && o.noted
	_, peeks := s.b.(Peeker)
	for tried, rests := 0, err == nil && o.rests; rests; tried++ {
		noted = true
		in, err := taken(s.crowded(o.at, tried, o.ahead))
		if in {
			return noted, nil
		}
		if err == nil {
			looks := peeks && (tried < looksFirst || rand.N(max(oneOf>>(tried-looksFirst), 1)) > 0)
			next := &op{at: o.at, apply: o.apply, asks: true, again: true, claim: o.claim, short: o.short, insists: !looks, looks: looks}
			if err = s.do(ctx, next); err == nil {
				rests = next.rests
			}
		}
		if err != nil {
			if !store.Definite(err) {
				s.settleLater(o.at) //mutant:record-note-is-taken-in-later
			}
			return noted, err
		}
	}
	return noted, err
}

// crowded is how long one of many that have come at once leaves it to the others to take all
// in: the longer, the more they are.
func (s *records) crowded(at string, tried, ahead int) time.Duration {
	s.mu.Lock()
	many := 0
	if n := s.names[at]; n != nil {
		many = n.crowd
	}
	s.mu.Unlock()
	if s.traits.Notifies {
		many = max(many, 4*fewCome) // as a rule a notification comes before that
	} else {
		many = min(many, ahead)
	}
	trip := s.roundTrip() * time.Duration(1+min(many, 400)/4) << min(tried, 4)
	return min(trip+rand.N(2*trip), time.Second)
}

// settleName takes in what is in the inbox, drops who has died, and grants those that
// fit then.
func (s *records) settleName(ctx context.Context, at string) error {
	return s.do(ctx, &op{at: at, apply: func(v *view) (queue.Change, error) {
		v.refused = true
		return v.q.Release(v.now, &store.Hold{Name: v.name})
	}})
}

// settleLater has a note taken in whose claim nobody waits for any more, if nobody else
// does: else it would be taken in at any time.
func (s *records) settleLater(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tasks.Go(func() {
		for failed := 0; sleep(s.ctx, s.crowded(at, failed, maxNames)) == nil; failed++ {
			if s.settleName(s.ctx, at) == nil {
				return
			}
		}
	})
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

// roundTrip is how long a request takes, of late.
func (s *records) roundTrip() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.trip, 50*time.Microsecond), time.Second)
}

// present is the server's clock, as far as we know, and never ahead of it (law 5):
// what it showed when we heard, and what has passed since by our own. Without such a
// clock it is the wall clock, and nothing but what people see depends on it.
func (s *records) present() queue.Time {
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
func (s *records) clockKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clockAt != 0 && store.Now() < s.clockAt.Add(clockTrusted) //mutant:record-clock-is-old
}

// hear notes what the server's clock showed in an answer that was heard at an
// instant.
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

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
