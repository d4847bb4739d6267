// Package object has what the backends of package record share whose server keeps an object a key and writes one only if it is as it
// was read, and knows no TTL, no notification and no second key in one request: where a record, its notes and a session are, how a session is
// judged by the server's own time, or by that of who asks, the sweeping, and the trial of a server that may not do what it says. It is for the stores of
// this project, and unstable: it may change in any release.
//
// The keys, below a prefix:
//
//	n/NAME.lock         a name: a line of JSON, and then its record
//	j/NAME.lock!N-KEY   the notes of one join
//	s/SESSION           a session
//	c/SESSION           how often a session was called
//	t/TEXT              a trial
//	w/sweep             how far the last sweep came
//	s/keep and so on    nothing: it keeps a directory, see keepDirectories
package object

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// An Object is the result of a read or a write of a key.
type Object struct {
	Key     string // as it is listed
	Body    []byte // left out in a listing, and after a Put
	Version string // changes with each write of another body, and is never that of the key again; empty: nothing is there

	Written time.Time // when the server had the write, by its clock, cut to the second; left out after a Put; zero: it did not tell
	Now     time.Time // its clock as it answered, or up to two seconds before; zero: it did not tell

	Unfit  string // why the server would delete the object, or keep what is written over; empty: it does neither
	Server string // which it is, as it says
}

// timed reports whether the answer tells how old the object is.
func (o *Object) timed() bool { return !o.Now.IsZero() && !o.Written.IsZero() }

// A Fate is what became of a conditional write.
type Fate int

// The kinds of Fate.
const (
	_        Fate = iota
	Done          // it is written
	Refused       // it is not written: the present version is another
	Conflict      // not written, as another write was under way: the current object is unknown
)

// A Server keeps the objects. It sends each request once, and its errors are as record.Backend has them. Its methods are safe for
// concurrent use, and return when ctx ends.
type Server interface {
	// Get reads a key, as the newest answered write has left it. A missing object is no error.
	Get(ctx context.Context, key string) (Object, error)
	// Put writes a key if that is its present version; "": if nothing is. Of any number on one version one is Done.
	Put(ctx context.Context, key string, body []byte, version string) (Object, Fate, error)
	// Delete deletes a key if that is its present version; "": whatever is. Another version, or a missing
	// object, is no error.
	Delete(ctx context.Context, key, version string) error
	// List yields the keys that begin so and come after that one, in their order, as they are at some moment after the call; most is how many it
	// asks for at a time. An error is the last that it yields.
	List(ctx context.Context, prefix, after string, most int) iter.Seq2[Object, error]
}

// A Backend is a record.Backend but for Describe, Check and Close. New makes one.
type Backend struct {
	Address   string        // for people
	Prefix    string        // of all keys, with its slash
	Retention time.Duration // of idle records
	// Atomic reports of a server, as it calls itself, that it compares and deletes in one step. Of others the objects of idle names stay.
	Atomic func(server string) bool

	server Server

	ctx   context.Context // of all that outlives a call, ended by End
	end   context.CancelFunc
	tasks sync.WaitGroup

	tried   atomic.Bool // the server has passed the trial
	timed   atomic.Bool // it tells its times
	deletes atomic.Bool // it compares and deletes in one step

	turns   turnTaker
	deleted deleted
	watched session.Unchanged // sessions of others, where the server does not tell how old they are

	mu     sync.Mutex
	trying *trying // the trial under way; nil: none is
	own    map[session.ID]*own
}

// New returns a Backend. The prefix ends with a slash.
func New(server Server, address, prefix string) *Backend {
	b := &Backend{Address: address, Prefix: prefix, Retention: store.TokenRetention, Atomic: func(string) bool { return false },
		server: server, own: map[session.ID]*own{}, deleted: deleted{notes: map[string]bool{}}}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// maxRaces is how often a write is tried that others were faster with.
const maxRaces = 16

// put is Put, again while another request is under way. What is Refused then may also be what an earlier try has written: conflicts is how
// many there were.
func (b *Backend) put(ctx context.Context, key string, body []byte, version string) (o Object, what Fate, conflicts int, err error) {
	for ; conflicts <= maxRaces; conflicts++ {
		if o, what, err = b.server.Put(ctx, key, body, version); what != Conflict || err != nil { //mutant:object-put-again
			return o, what, conflicts, err
		}
	}
	return o, what, conflicts, fmt.Errorf("%s: each of %d writes met another that was under way", key, conflicts)
}

// Listen implements [record.Backend]: there are no notifications.
func (b *Backend) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// Await implements [session.Backend]: no end is reported.
func (b *Backend) Await(context.Context, session.ID) error { return store.ErrUnsupported }

// patience bounds what is done behind a call.
const patience = 10 * time.Second

// behind runs f in the background; only Close waits for it. If f fails, a
// sweep does its work.
func (b *Backend) behind(f func(ctx context.Context)) {
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		f(ctx)
	})
}

// Finish waits for the background work of calls that have returned.
func (b *Backend) Finish() { b.tasks.Wait() }

// Close implements [record.Backend].
func (b *Backend) Close() error {
	b.end()
	b.tasks.Wait()
	return nil
}

// together runs f for each number below n, many at a time, and returns the error of one of them.
func together(n int, f func(i int) error) (failed error) {
	var running sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, abreast)
	for i := range n {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	running.Wait()
	return failed
}

// abreast is how many requests of one operation are on their way at once.
const abreast = 16

// page is how many keys are listed at a time.
const page = 1000
