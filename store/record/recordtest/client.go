package recordtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// A Fate is what happens to one request.
type Fate int

// The kinds of Fate. The sender of a request that is not answered gets [ErrNoAnswer] at once, except with Hangs.
const (
	Answered   Fate = iota // it is done, and answered
	Lost                   // it is never done, and not answered
	Unanswered             // it is done, and not answered
	Late                   // it is not answered, and is done with Memory.Deliver
	Twice                  // it is done and answered, and done once more with Memory.Deliver
	Hangs                  // it is never done, and not answered until its context ends
)

// ErrNoAnswer is the error of an unanswered request. It is not definite.
var ErrNoAnswer = errors.New("the server has not answered")

// An Op is the kind of a request.
type Op string

// The requests of a Client. A Join is a request of its own only with Options.Apart, and an Inbox only with
// Options.Halves. A Notify is the delivery of one notification. With session.ByOwnClock, a Left is a ReadSession for
// each session, and a CloseSession for each that has ended.
const (
	OpLoad         Op = "load"
	OpInbox        Op = "inbox"
	OpSwap         Op = "swap"
	OpJoin         Op = "join"
	OpList         Op = "list"
	OpListen       Op = "listen"
	OpNotify       Op = "notify"
	OpBegin        Op = "begin"
	OpRenew        Op = "renew"
	OpCall         Op = "call"
	OpLeft         Op = "left"
	OpReadSession  Op = "read session"
	OpCloseSession Op = "close session"
	OpEnd          Op = "end"
	OpAwait        Op = "await"
)

// A Request is on its way to the server, or is a notification on its way back.
type Request struct {
	Op           Op                   // what is asked for
	Name         string               // of a load, inbox, swap, join
	Session      session.ID           // of a begin, renew, call, end, await, read or close of a session
	Swap         *record.Swap         // of a swap and a join; not to be changed
	Notification *record.Notification // of a notify; not to be changed
}

// A Client is the connection of one process to a Memory. It is a [record.Backend], and
// closing it leaves the Memory as it is.
type Client struct {
	m     *Memory
	ctx   context.Context // ended by Close
	close context.CancelFunc
	link  link

	server    atomic.Int64 // the one that answered last; 0: unknown
	unchanged session.Unchanged

	mu   sync.Mutex
	fate func(Request) Fate
	cut  bool
}

var _ interface {
	record.Backend
	session.Replaceable
	session.Doubter
} = (*Client)(nil)

// Client returns a new connection.
func (m *Memory) Client() *Client {
	c := &Client{m: m}
	c.ctx, c.close = context.WithCancel(context.Background())
	return c
}

// Fates sets f to be called for each request of this client, and each notification to it, before anything is done;
// nil: all are answered. f may block, and may use the server through other clients. So a test can act between two
// requests.
func (c *Client) Fates(f func(Request) Fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fate = f
}

// Cut cuts the connection: requests and notifications are lost until Mend.
func (c *Client) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}

// Mend connects again.
func (c *Client) Mend() {
	c.mu.Lock()
	c.cut = false
	c.mu.Unlock()
	c.again()
}

// again sends all listeners the notification of a new connection.
func (c *Client) again() {
	c.m.mu.Lock()
	var all []*listener
	for l := range c.m.listening {
		if l.client == c {
			all = append(all, l)
		}
	}
	c.m.mu.Unlock()
	for _, l := range all { //mutant:recordtest-connected-again
		l.sink(record.Notification{})
	}
	c.m.looked("", c) //mutant:recordtest-watches-again
}

func (c *Client) met(q Request) Fate {
	c.mu.Lock()
	fate, cut := c.fate, c.cut
	c.mu.Unlock()
	if cut {
		return Lost
	}
	if fate == nil {
		return Answered
	}
	return fate(q)
}

// send sends a request to the server, and applies its fate.
func send[T any](ctx context.Context, c *Client, q Request, do func() T) (out T, err error) {
	if err := ctx.Err(); err != nil { //mutant:recordtest-context-first
		return out, err
	}
	again := func() { do() }
	fate := c.met(q)
	switch fate {
	case Lost:
		return out, ErrNoAnswer
	case Late:
		c.m.keep(again)
		return out, ErrNoAnswer
	case Hangs:
		<-ctx.Done() //mutant:recordtest-context
		return out, ctx.Err()
	case Twice:
		c.m.keep(again)
	}
	if err := c.link.request(ctx, again); err != nil {
		return out, err
	}
	done := do()
	if err := c.link.answer(ctx); err != nil { //mutant:recordtest-answer-lost
		return out, err
	}
	if fate == Unanswered {
		return out, ErrNoAnswer
	}
	return done, nil
}

// hear delivers a notification, or applies its fate.
func (c *Client) hear(l *listener, n record.Notification) {
	q := Request{Op: OpNotify, Name: n.Name, Notification: &n}
	fate := c.met(q)
	if c.link.deaf() {
		return
	}
	deliver := func() {
		c.m.mu.Lock()
		there := c.m.listening[l]
		c.m.mu.Unlock()
		if there {
			l.sink(n) //mutant:recordtest-notification-whole
		}
	}
	switch fate {
	case Answered, Unanswered:
		deliver()
	case Late:
		c.m.keep(deliver)
	case Twice:
		deliver()
		c.m.keep(deliver)
	}
}

// failed returns the error of a request: err, or else the one in the answer.
func failed(err, answer error) error {
	if err != nil {
		return err
	}
	return answer
}

// Load implements [record.Backend].
func (c *Client) Load(ctx context.Context, name string) (record.Record, error) {
	if !c.m.o.Halves {
		return send(ctx, c, Request{Op: OpLoad, Name: name}, func() record.Record { return c.m.load(name, true, true) })
	}
	first, err := send(ctx, c, Request{Op: OpInbox, Name: name}, func() record.Record { return c.m.load(name, false, true) })
	if err != nil {
		return first, err
	}
	r, err := send(ctx, c, Request{Op: OpLoad, Name: name}, func() record.Record { return c.m.load(name, true, false) })
	if err != nil {
		return r, err
	}
	r.Inbox, r.More = first.Inbox, first.More //mutant:recordtest-inbox-first
	return r, nil
}

// Swap implements [record.Backend].
func (c *Client) Swap(ctx context.Context, s *record.Swap) (record.Outcome, error) {
	out, err := c.swap(ctx, s)
	switch {
	case !c.m.o.Terse:
	case out.Done:
		out.Inbox, out.Now = false, record.Record{Version: out.Now.Version}
	default:
		out.Current, out.Inbox, out.Now = false, false, record.Record{}
	}
	return out, err
}

func (c *Client) swap(ctx context.Context, s *record.Swap) (record.Outcome, error) {
	if len(s.Data) == 0 || len(s.Data) > c.m.o.MaxRecord || s.Join != nil && len(s.Join.Notes) > record.MaxNotes { //mutant:recordtest-max-record
		return record.Outcome{}, fmt.Errorf("%w: a record of %d bytes", store.ErrInvalid, len(s.Data))
	}
	var out record.Outcome
	var err error
	if !s.Lost || s.Join == nil || !c.m.o.Apart { //mutant:recordtest-lost-joins
		out, err = send(ctx, c, Request{Op: OpSwap, Name: s.Name, Swap: s}, func() record.Outcome { return c.m.write(s, !c.m.o.Apart) })
	}
	if err != nil || out.Done || s.Join == nil || !c.m.o.Apart { //mutant:recordtest-done-joins-not
		return out, err
	}
	return send(ctx, c, Request{Op: OpJoin, Name: s.Name, Swap: s}, func() record.Outcome { return c.m.apart(s.Name, s.Join) })
}

// Listen implements [record.Backend].
func (c *Client) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	if c.m.o.Quiet {
		return store.ErrUnsupported //mutant:recordtest-quiet
	}
	l := &listener{client: c, process: p, sink: sink}
	_, err := send(ctx, c, Request{Op: OpListen}, func() bool {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		if c.ctx.Err() == nil && !l.failed {
			c.m.listening[l] = true //mutant:recordtest-listens
		}
		return true
	})
	if err != nil {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		l.failed = true
		delete(c.m.listening, l) //mutant:recordtest-failed-listen-ends
	}
	return err
}

// List implements [record.Backend].
func (c *Client) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		all, err := send(ctx, c, Request{Op: OpList}, func() []string { return c.m.old(unwritten) })
		if err != nil {
			yield(record.Named{}, err)
			return
		}
		for _, name := range all { //mutant:recordtest-lists-all
			if !yield(record.Named{Name: name, Record: c.m.load(name, true, true)}, nil) { //mutant:recordtest-list-ends
				return
			}
		}
	}
}

// Describe implements [record.Backend].
func (c *Client) Describe() store.Description {
	return store.Description{
		Store: "the memory of a test", Loses: "all, with the process", Crash: store.CrashTTL,
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentWipe},
	}
}

// Check implements [record.Backend].
func (c *Client) Check(context.Context) []store.Finding {
	return []store.Finding{{About: "memory", Found: "it is there"}}
}

// Close implements [record.Backend].
func (c *Client) Close() error {
	c.close() //mutant:recordtest-close
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for l := range c.m.listening {
		if l.client == c { //mutant:recordtest-close-ends-listen
			delete(c.m.listening, l)
		}
	}
	return nil
}

// Traits implements [record.Backend].
func (c *Client) Traits() record.Traits {
	o := &c.m.o
	return record.Traits{Void: o.Void, Notifies: !o.Quiet, Clock: !o.Blind, MaxRecord: o.MaxRecord, Retention: o.Retention} //mutant:recordtest-traits
}

// SessionTraits implements [session.Backend].
func (c *Client) SessionTraits() session.Traits {
	o := &c.m.o
	return session.Traits{Life: o.Life, MinTTL: o.MinTTL, MaxTTL: o.MaxTTL, Tick: o.Tick, ReportsEnd: !o.Silent}
}
