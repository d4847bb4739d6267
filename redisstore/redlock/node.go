package redlock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisnames"
	"github.com/holdfast-go/holdfast/store"
)

// A node is one of the servers. Its operations are sent in lanes: operations of one claim go
// in order, and those that come while an exchange is in progress share the next pipeline.
// Callers decide how long they wait for a node.
type node struct {
	s       *Store
	i       int
	client  *redis.Client
	address string
	offset  atomic.Int64 // its clock minus the local one, in µs, as last measured

	names func() *redisnames.Names // the watched names

	runID string // of its server process, as found last; guarded by s.mu

	mu       sync.Mutex
	state    state
	since    store.Instant // when its check began
	err      error         // why it is not up
	opens    store.Instant // when it may grant again; 0 if unknown
	lanes    [2]lane
	fastest  [8]time.Duration // durations of the latest exchanges
	measured int
	owed     []*job // releases that could not be sent to it

	full  error     // the latest refusal of an ask because its memory is full; nil once it grants again
	again time.Time // when another ask may be sent to a full node
	stuck bool      // its memory is full, and it refuses renewals and releases too
}

type state int

const (
	unknown state = iota // it is being checked
	up
	down
)

// most is how many operations may wait for a node before it is left out.
const most = 10_000

// A lane holds the operations that wait while an exchange is in progress. One goroutine
// makes all exchanges until the Store is closed, because the stack of each new goroutine
// would have to grow.
type lane struct {
	waiting []*job
	flying  bool
	since   time.Time     // when the exchange under way began
	wake    chan struct{} // nil until the goroutine has started

	// Only that goroutine uses these: the context of its exchanges, and the timer that ends the
	// context, which is reset for each exchange. Both are replaced after the context has ended.
	ctx   context.Context
	timer *time.Timer
}

// A job is one operation on one node.
type job struct {
	n     *node
	ctx   context.Context // of the caller, or nil
	claim *claim          // of an ask, or of the release of a claim; else nil
	id    store.ID
	sc    *script
	args  []any // the whole command; shared, so never changed
	index int   // of the hold, in a batch
	out   chan<- reply
	owed  store.Instant // a release is retried until then
	mends *mending      // of a renewal: restores the vote of a node that lacks the hold
	vote  *claim        // of an ask that restores a vote: whose vote

	left  bool // it must no longer be sent; guarded by n.mu
	first bool // an ask of a claim that is new to the node
}

// A reply is the outcome of a job.
type reply struct {
	n      *node
	index  int
	answer string
	err    error
}

func (j *job) done(answer string, err error) {
	if err != nil {
		err = j.n.failed(err)
	}
	if j.out != nil {
		j.out <- reply{j.n, j.index, answer, err}
	}
	if j.mends != nil && answer == "A" {
		j.mends.lacks(j.n)
	}
}

func (j *job) isAsk() bool     { return j.sc == &j.n.s.scripts.ask }
func (j *job) isRelease() bool { return j.sc == &j.n.s.scripts.release }

var errNotYet = errors.New("it has not answered yet")

var errLate = errors.New("no answer in time")

var errBusy = errors.New("it is slow, and was left out")

var errReleased = errors.New("the hold was released meanwhile")

// send queues the job, and sends its outcome to its channel when it is done. It does not
// block.
func (n *node) send(j *job) {
	n.mu.Lock()
	answer, err, over := n.queue(j)
	n.mu.Unlock()
	if over {
		j.done(answer, err)
	}
}

func (n *node) queue(j *job) (answer string, err error, over bool) {
	l := &n.lanes[j.id[len(j.id)-1]%2]
	if j.claim != nil {
		// A newer ask supersedes an unsent one, which then needs no release.
		for _, w := range l.waiting {
			if w.claim == j.claim && w.isAsk() {
				w.left = true
			}
		}
		if j.isRelease() && j.claim.sent.Load()&(1<<n.i) == 0 {
			return "A", nil, true
		}
	}
	switch {
	case j.vote != nil && j.vote.released.Load(): //mutant:redlock-no-vote-behind-release
		return "", errReleased, true
	case n.state != up: //mutant:redlock-away-node-left-alone
		n.owe(j)
		if n.err == nil {
			return "", errNotYet, true
		}
		return "", n.err, true
	case n.full != nil && j.isAsk() && j.claim.newTo(n) && time.Now().Before(n.again): //mutant:redlock-full-node-paused
		return "", n.full, true // entries that the node already has need no memory
	case len(l.waiting) >= most, l.flying && len(l.waiting) > 0 && !j.isRelease() && time.Since(l.since) > n.s.timeout:
		n.owe(j)
		return "", errBusy, true
	}
	l.waiting = append(l.waiting, j)
	if !l.flying {
		l.flying, l.since = true, time.Now()
		if l.wake == nil {
			l.wake = make(chan struct{}, 1)
			n.s.tasks.Go(func() { n.serve(l) })
		} else {
			l.wake <- struct{}{} // the goroutine waits for this or is about to
		}
	}
	return "", nil, false
}

// owe stores a release until the node is back. n.mu is held.
func (n *node) owe(j *job) {
	if j != nil && j.isRelease() && j.owed != 0 && len(n.owed) < most {
		again := *j
		again.out, again.ctx = nil, nil
		n.owed = append(n.owed, &again) //mutant:redlock-owed-to-node
	}
}

// serve sends the jobs of the lane until the Store is closed.
func (n *node) serve(l *lane) {
	for n.fly(l) {
		select {
		case <-l.wake:
		case <-n.s.ctx.Done():
		}
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}

// fly sends waiting jobs until there are none. It returns false once the Store is closed.
func (n *node) fly(l *lane) bool {
	for {
		n.mu.Lock()
		jobs, closed := l.waiting, n.s.ctx.Err()
		l.waiting = nil
		if len(jobs) == 0 || closed != nil {
			l.flying = closed != nil // a closed lane need not be woken
			n.mu.Unlock()
			for _, j := range jobs {
				j.done("", closed)
			}
			return closed == nil
		}
		var left []*job
		jobs = slices.DeleteFunc(jobs, func(j *job) bool {
			if j.left {
				left = append(left, j)
			} else if j.claim != nil && j.isAsk() {
				j.first = j.claim.newTo(n) //mutant:redlock-refused-grant
				j.claim.sent.Or(1 << n.i)
			}
			return j.left
		})
		l.since = time.Now()
		n.mu.Unlock()
		for _, j := range left {
			j.done("", errBusy)
		}
		if len(jobs) > 0 {
			n.exchange(l, jobs)
		}
	}
}

// A command is one run of a script.
type command struct{ *redis.StringCmd }

// NoRetry keeps the client from sending it again: the other nodes make up for a failure.
func (command) NoRetry() bool { return true }

func (n *node) command(ctx context.Context, j *job) command {
	args := j.args
	if n.s.clock != nil {
		args = append(slices.Clip(args), strconv.FormatInt(n.s.clock(), 10))
	}
	return command{redis.NewStringCmd(ctx, args...)}
}

// bounded returns a context that ends if the exchange that begins now takes longer than the
// timeout.
func (l *lane) bounded(s *Store) context.Context {
	if l.timer != nil {
		l.timer.Reset(s.timeout)
		return l.ctx
	}
	ctx, cancel := context.WithCancel(s.ctx)
	l.ctx, l.timer = ctx, time.AfterFunc(s.timeout, cancel)
	return ctx
}

// joined joins ctx with the contexts of the jobs' callers.
func joined(ctx context.Context, jobs []*job) context.Context {
	var callers []context.Context
	for i, j := range jobs {
		if j.ctx != nil && (i == 0 || j.out != jobs[i-1].out) { // once per call
			callers = append(callers, j.ctx)
		}
	}
	if len(callers) == 0 {
		return ctx
	}
	return store.Join(ctx, callers...) //mutant:redlock-joined-in-no-trace
}

// exchange runs the jobs in one pipeline.
func (n *node) exchange(l *lane, jobs []*job) {
	ctx := joined(l.bounded(n.s), jobs)
	defer func() {
		if !l.timer.Stop() { // the timer has ended the context
			l.timer = nil
		}
	}()
	commands := make([]command, len(jobs))
	for i, j := range jobs {
		commands[i] = n.command(ctx, j)
	}
	begun := time.Now()
	if len(jobs) == 1 {
		if err := n.client.Process(ctx, commands[0]); err != nil {
			commands[0].SetErr(err)
		}
	} else {
		pipe := n.client.Pipeline()
		for _, c := range commands {
			pipe.Process(ctx, c)
		}
		pipe.Exec(ctx) // each command has its own error
	}
	granted := false // a new entry, so the node has memory
	for i, j := range jobs {
		granted = granted || j.first && strings.HasPrefix(commands[i].Val(), "O")
	}
	n.took(time.Since(begun), granted)
	for i, j := range jobs {
		answer, err := commands[i].Result()
		if err == nil && answer == "" {
			err = n.strange(answer)
		}
		if j.claim != nil && j.isAsk() {
			j.claim.refusedBy(n, err)
		}
		if err != nil {
			if full(err) {
				n.fills(err, !j.isAsk())
			}
			if !full(err) || !j.isAsk() { //mutant:redlock-full-node-in-use
				n.gone(err, j)
			}
		}
		j.done(answer, err)
	}
}

// gone takes the node out of use until it is checked, if the error requires that. A release
// in j, which may be nil, is then owed to the node.
func (n *node) gone(err error, j *job) {
	var server redis.Error
	if !errors.As(err, &server) {
		n.lose(err, j)
		return
	}
	text := err.Error()
	if strings.HasPrefix(text, "NOSCRIPT") {
		n.lose(errors.New("it was restarted, or its scripts were flushed"), j)
		return
	}
	for _, kind := range []string{"LOADING", "READONLY", "MASTERDOWN", "BUSY", "OOM", "MISCONF", "NOREPLICAS"} { //mutant:redlock-refusing-kinds
		if strings.HasPrefix(text, kind) {
			n.refuses(err, j) //mutant:redlock-refusing-node-leaves
			return
		}
	}
}

// full reports whether the node refused a command because its memory is full.
func full(err error) bool { return strings.HasPrefix(err.Error(), "OOM") }

// fills notes that the node's memory is full. The node still renews and releases its holds,
// and gets new claims only after a pause. It is stuck if it refuses renewals and releases
// too, as it does for a user without the right to PEXPIRE.
func (n *node) fills(err error, stuck bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full, n.again, n.stuck = n.failed(err), time.Now().Add(fullPause), n.stuck || stuck
}

// grants reports whether the node can grant new claims: it is up and has memory, as far as is
// known.
func (n *node) grants() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == up && n.full == nil
}

// lose takes the node out of use until it has been checked.
func (n *node) lose(err error, j *job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leave(unknown, err, j) {
		n.s.tasks.Go(n.join)
	}
}

// refuses takes a node out of use that answers but refuses to work. It is checked after a
// pause, because it may pass the check and refuse again at once. Unlike during other checks,
// no call waits for the node.
func (n *node) refuses(err error, j *job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.leave(down, err, j) {
		return
	}
	n.s.tasks.Go(func() {
		select {
		case <-n.s.ctx.Done():
		case <-time.After(leastPause):
			n.join()
		}
	})
}

// leave takes a node that is up out of use, and reports whether it did. j is owed before the
// node can be back. n.mu is held.
func (n *node) leave(to state, err error, j *job) bool {
	n.owe(j)
	if n.state != up || n.s.ctx.Err() != nil {
		return false
	}
	n.state, n.err, n.since = to, n.failed(err), store.Now()
	return true
}

// took notes how long an exchange took, and whether the node granted something new.
func (n *node) took(d time.Duration, granted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if granted {
		n.full = nil //mutant:redlock-full-no-more
	}
	n.fastest[n.measured%len(n.fastest)] = d
	n.measured++
}

// best returns the fastest of the latest exchanges, or 0 if there are too few.
func (n *node) best() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.measured < len(n.fastest) {
		return 0
	}
	return slices.Min(n.fastest[:])
}
