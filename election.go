package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// An Election is one name that at most one candidate leads at a time, wherever
// the candidates are. It is the [Locker.Mutex] of the name: the holder leads.
// Candidates of one process are served in the order of arrival; processes take
// turns, in the order in which the first candidate of each came (see
// [Lock.Lock]). Others see a candidate's Options.Owner and Options.Note. A leader
// can change its note: [Lease.SetNote]. It keeps no state of its own and is safe
// for concurrent use.
type Election struct{ claimed engine.Target }

// Election returns the election of the name: any UTF-8 of 1 to 512 bytes. A bad
// name is an ErrInvalid of the first call.
func (l *Locker) Election(name string) *Election {
	// Others learn the leader from the store, so the store must know each one: no hand-over.
	l = l.With(&Options{HandOver: &HandOver{}}) //mutant:candidate-handed-lead
	return &Election{l.engine.Leader(name)}
}

// Campaign waits until the caller leads, and returns the lease of that term.
// Releasing it resigns. See [Lock.Lock].
func (e *Election) Campaign(ctx context.Context) (*Lease, error) { return lockFor(ctx, &e.claimed) }

// Lead campaigns and runs fn while the caller leads. The context of fn ends with ctx or
// with the term, and [LeaseFrom] finds the lease in it.
//
// When fn returns, Lead resigns and returns fn's error, or a *[ReleaseError] if the
// lease did not end well. But if the term was lost before fn returned, fn's error is
// taken as a result of the loss and only logged, and Lead campaigns again, behind all
// waiters: fn is then called once for each term. Lead never returns before fn, and a
// panic in fn resigns.
//
// While the store does not answer, Lead goes on campaigning until ctx ends, and logs
// it: an outage must not leave a name without candidates. Any other error of a campaign
// is returned; see [Lock.Lock]. It matches [ErrNotRun] if fn was called in no term.
// Options.Wait bounds each campaign by itself.
func (e *Election) Lead(ctx context.Context, fn func(context.Context) error) error {
	for ran := false; ; ran = true {
		lease, err := e.claimed.Campaign(ctx)
		if err != nil && !ran { //mutant:lead-has-run
			return notRun(err)
		}
		if err != nil {
			return err
		}
		var term context.Context
		err = run(ctx, (*Lease)(lease), func(ctx context.Context) error {
			term = ctx
			return fn(ctx)
		})
		if !errors.Is(context.Cause(term), ErrLost) { //mutant:term-without-end
			return err
		}
		lease.TermLost(err)
	}
}

// IsLeader reports whether this process leads: whether it holds the lease of a
// campaign by the Locker of this Election, or by any that shares its store through
// [Locker.With]. It does no I/O and reads the clocks itself, as [Lease.Valid] does.
func (e *Election) IsLeader() bool { return e.claimed.Leads() }

// Leader reads the current leader from the store; the zero Leader means that there
// is none. Its errors are those of [Election.Observe], and one that matches the
// error of ctx.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, err := e.claimed.WhoLeads(ctx)
	return Leader(leader), err
}

// A Leader is the leader of an election at the time of a read. The zero Leader
// means that there is none. Its times are on this machine's clock, computed
// from the durations that the store returned.
type Leader struct {
	Owner
	ID      string    // of the claim; empty: there is no leader
	Token   int64     // of the term: each has a larger one
	Since   time.Time // when the term began
	Expires time.Time // unless renewed
}

// Nobody reports whether the election has no leader.
func (l Leader) Nobody() bool { return l.ID == "" }

// String returns who leads and since when, on one line.
func (l Leader) String() string {
	if l.Nobody() {
		return "nobody"
	}
	return fmt.Sprintf("%v, since %s (%s)", l.Owner, l.Since.Format(time.TimeOnly), engine.Short(time.Since(l.Since)))
}

// Observe yields the leader: first the current one, then each change, until ctx ends. A change to no leader is a
// change too, and so is another Note. A renewal is not. If the leader's lease has expired, Observe yields the
// zero Leader, even if the store has not granted the name to another yet. Changes made while the loop's body
// runs are skipped: the next value is the newest.
//
// Where the store can notify of a name (memory, Redis, Redlock, PostgreSQL's table, etcd, ZooKeeper and NATS) it
// reads the store after each notification, and every ten seconds. Changes by elections are announced at once.
// Changes by the mutex or another lock of the same name may be seen only at the next of those reads. Elsewhere,
// behind a pooler of PostgreSQL that shares connections, and while the store cannot be reached, it polls, with
// pauses that grow from Options.PollMin to Options.PollMax (2 ms to 800 ms) while nothing changes: a change is
// seen up to PollMax late, and each observer makes one query per pause. It also reads when the leader's lease
// would expire. It writes nothing, and takes no part in the election.
//
// While the store does not answer, Observe yields ErrUnavailable once and goes on. When the store is back it
// yields the leader. Any other error is the last value that it yields: ErrInvalid, ErrDenied, ErrCorrupt,
// ErrClosed, ErrMismatch if the name is in use as a semaphore, and ErrUnsupported if the store cannot list
// holders.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		for l, err := range e.claimed.Observe(ctx) {
			if !yield(Leader(l), err) {
				return
			}
		}
	}
}
