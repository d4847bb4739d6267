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

// A node is one of the servers. Its operations go out in lanes: those of one
// claim one after another, and those that come while others are under way
// together in the next pipeline. No caller waits for a node longer than it
// wants to.
type node struct {
	s       *Store
	i       int
	client  *redis.Client
	address string
	offset  atomic.Int64 // its clock minus the local one, in µs, as last measured

	names func() *redisnames.Names // watched

	runID string // of its process, as found last; guarded by s.mu

	mu       sync.Mutex
	state    state
	since    store.Instant // when it began to be looked at
	err      error         // why it is not up
	opens    store.Instant // when it may grant again, if that is known; else 0
	lanes    [2]lane
	fastest  [8]time.Duration // the newest exchanges
	measured int
	owed     []*job // releases that could not be sent to it

	full  error     // the newest refusal of an ask, as its memory is full, until it grants one; else nil
	again time.Time // when another ask may be sent to it then
	stuck bool      // its memory is full, and it refuses renewals and releases too
}

type state int

const (
	unknown state = iota // it is being looked at
	up
	down
)

// most is how many operations a node may be behind with before it is left out.
const most = 10_000

// A lane has what waits for the exchange that is under way, and the goroutine
// that makes the exchanges, from the first one until the Store is closed: each
// new one would have to grow its stack.
type lane struct {
	waiting []*job
	flying  bool
	since   time.Time     // when the exchange under way began
	wake    chan struct{} // nil until there is a goroutine

	// Of that goroutine alone: the context of its exchanges, and the function that
	// ends it, which is set for each. Both are replaced after it has ended.
	ctx   context.Context
	timer *time.Timer
}

// A job is one operation on one node.
type job struct {
	n     *node
	ctx   context.Context // of the caller, or nil
	claim *claim          // of an ask, and of the release of one; else nil
	id    store.ID
	sc    *script
	args  []any // the whole command; shared, so never changed
	index int   // of the hold, in a batch
	out   chan<- reply
	owed  store.Instant // a release is tried until then
	mends *mending      // of a renewal: what a node lacks is given back to it
	vote  *claim        // of what gives it back: whose vote that is

	left  bool // it is not to be sent any more; guarded by n.mu
	first bool // an ask of a claim that is new to the node
}

// A reply is what became of a job.
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

// send has the job done, and its outcome sent to its channel. It does not
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
		// An unsent ask is superseded by a newer one, and needs no release.
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
		return "", n.full, true // what it has already goes on, as that needs no memory
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
			l.wake <- struct{}{} // it waits, or is about to
		}
	}
	return "", nil, false
}

// owe keeps a release until the node is back. n.mu is held.
func (n *node) owe(j *job) {
	if j != nil && j.isRelease() && j.owed != 0 && len(n.owed) < most {
		again := *j
		again.out, again.ctx = nil, nil
		n.owed = append(n.owed, &again) //mutant:redlock-owed-to-node
	}
}

// serve sends what comes into the lane, until the Store is closed.
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

// fly sends what waits until nothing does. It is false once the Store is closed.
func (n *node) fly(l *lane) bool {
	for {
		n.mu.Lock()
		jobs, closed := l.waiting, n.s.ctx.Err()
		l.waiting = nil
		if len(jobs) == 0 || closed != nil {
			l.flying = closed != nil // then it need not be woken
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

// NoRetry keeps the client from sending it again: the majority is the retry.
func (command) NoRetry() bool { return true }

func (n *node) command(ctx context.Context, j *job) command {
	args := j.args
	if n.s.clock != nil {
		args = append(slices.Clip(args), strconv.FormatInt(n.s.clock(), 10))
	}
	return command{redis.NewStringCmd(ctx, args...)}
}

// bounded is a context that ends when the exchange that begins has taken too
// long.
func (l *lane) bounded(s *Store) context.Context {
	if l.timer != nil {
		l.timer.Reset(s.timeout)
		return l.ctx
	}
	ctx, cancel := context.WithCancel(s.ctx)
	l.ctx, l.timer = ctx, time.AfterFunc(s.timeout, cancel)
	return ctx
}

// joined is ctx for an exchange that is made for all of the jobs.
func joined(ctx context.Context, jobs []*job) context.Context {
	var callers []context.Context
	for i, j := range jobs {
		if j.ctx != nil && (i == 0 || j.out != jobs[i-1].out) { // once for all of a call
			callers = append(callers, j.ctx)
		}
	}
	if len(callers) == 0 {
		return ctx
	}
	return store.Join(ctx, callers...) //mutant:redlock-joined-in-no-trace
}

// exchange has the jobs done in one pipeline.
func (n *node) exchange(l *lane, jobs []*job) {
	ctx := joined(l.bounded(n.s), jobs)
	defer func() {
		if !l.timer.Stop() { // it has ended the context
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
		pipe.Exec(ctx) // the commands have the errors
	}
	granted := false // something new, for which it has memory
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

// gone has the node checked before it is used again, if the error requires
// that. The job with the error is then owed to the node; nil: there is none.
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

// full reports whether the node refused a command as its memory is full.
func full(err error) bool { return strings.HasPrefix(err.Error(), "OOM") }

// fills notes that the node's memory is full. What it has is renewed and released
// there; it is asked for something new after a pause, not as fast as it refuses.
// It is stuck if it refuses renewals and releases too, as a user without the right
// to PEXPIRE finds.
func (n *node) fills(err error, stuck bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full, n.again, n.stuck = n.failed(err), time.Now().Add(fullPause), n.stuck || stuck
}

// grants reports whether the node takes what is new: it is up, and has memory for
// it, as far as is known.
func (n *node) grants() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == up && n.full == nil
}

// lose takes the node out of use until it has been looked at.
func (n *node) lose(err error, j *job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leave(unknown, err, j) {
		n.s.tasks.Go(n.join)
	}
}

// refuses takes a node out of use that answers, but refuses to work. It is
// checked after a pause: it may look fit and refuse again at once. No call waits
// for it, as calls do for a node that is being checked.
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

// leave is what a node does that is in use; n.mu is held. What is owed to it is so
// before it can be back.
func (n *node) leave(to state, err error, j *job) bool {
	n.owe(j)
	if n.state != up || n.s.ctx.Err() != nil {
		return false
	}
	n.state, n.err, n.since = to, n.failed(err), store.Now()
	return true
}

// took notes how long an exchange took, and whether the node has granted anything
// new.
func (n *node) took(d time.Duration, granted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if granted {
		n.full = nil //mutant:redlock-full-no-more
	}
	n.fastest[n.measured%len(n.fastest)] = d
	n.measured++
}

// best is the fastest of the newest exchanges; 0: too few are known.
func (n *node) best() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.measured < len(n.fastest) {
		return 0
	}
	return slices.Min(n.fastest[:])
}
