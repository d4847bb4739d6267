// Package object is shared by the backends of package record whose server stores one object per key and writes it
// only if it is as it was read, without TTLs, notifications, or requests for several keys. It has the places of a
// record, its notes and a session; the end of a session, by the clock of the server or of this process; sweeps; and
// the trial of a server that may not do what it claims. It is for the stores of this project, and unstable: it may
// change in any release.
//
// The keys, below a prefix:
//
//	n/NAME.lock         a name: a line of JSON, and then its record
//	j/NAME.lock!N-KEY   the notes of one join
//	s/SESSION           a session
//	c/SESSION           the call counter of a session
//	t/TEXT              a trial
//	w/sweep             how far the last sweep got
//	s/keep and so on    no data: it keeps a directory, see keepDirectories
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
	Key     string // as listed
	Body    []byte // left out in a listing, and after a Put
	Version string // changes with each write of another body, and never recurs for the key; empty: no object

	Written time.Time // when it was written, by the server's clock, truncated to the second; left out after a Put; zero: unknown
	Now     time.Time // the server's clock when it answered, or up to two seconds before; zero: unknown

	Unfit  string // why the server would delete the object, or keep overwritten versions; empty: it does neither
	Server string // what the server calls itself
}

// timed reports whether the answer shows how old the object is.
func (o *Object) timed() bool { return !o.Now.IsZero() && !o.Written.IsZero() }

// A Fate is the result of a conditional write.
type Fate int

// The kinds of Fate.
const (
	_        Fate = iota
	Done          // written
	Refused       // not written: the current version is another
	Conflict      // not written, as another write was under way: the current object is unknown
)

// A Server stores the objects. It sends each request once, and its errors follow the rules of record.Backend. Its
// methods are safe for concurrent use, and return when ctx ends.
type Server interface {
	// Get reads a key, as the newest answered write has left it. A missing object is no error.
	Get(ctx context.Context, key string) (Object, error)
	// Put writes a key if version is its current version; "": if there is no object. Of any number of Puts on one
	// version, one is Done.
	Put(ctx context.Context, key string, body []byte, version string) (Object, Fate, error)
	// Delete deletes a key if version is its current version; "": in any case. Another version, or a missing object,
	// is no error.
	Delete(ctx context.Context, key, version string) error
}

// A Lister is a Server that also lists its keys.
type Lister interface {
	Server
	// List yields the keys that begin with prefix and come after after, in order, as of some moment after the call.
	// Each request asks for at most most keys. An error is the last item.
	List(ctx context.Context, prefix, after string, most int) iter.Seq2[Object, error]
}

// A Backend is a record.Backend without Describe and Check. New makes one.
type Backend struct {
	Address   string        // for people
	Prefix    string        // of all keys, with the slash at its end
	Retention time.Duration // of idle records
	// Atomic reports whether a server, by what it calls itself, compares and deletes in one step. On other servers
	// the objects of idle names stay.
	Atomic func(server string) bool
	// Late is how much earlier than the write Written may be, in addition to the second that is truncated.
	Late time.Duration

	server Server
	lister Lister // nil: the Backend keeps only sessions

	ctx   context.Context // for all work that outlives a call, canceled by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	tried   atomic.Bool // the server has passed the trial
	timed   atomic.Bool // its answers have its times
	deletes atomic.Bool // it compares and deletes in one step

	heard   atomic.Int64 // when the server last answered, a store.Instant
	turns   turnTaker
	deleted deleted
	watched session.Unchanged // sessions of other processes, if the server does not return how old they are

	mu     sync.Mutex
	trying *trying // the trial under way; nil: none
	own    map[session.ID]*own
}

// New returns a Backend. The prefix ends with a slash.
func New(server Lister, address, prefix string) *Backend {
	b := NewSessions(server, address, prefix)
	b.lister = server
	return b
}

// NewSessions returns a Backend that is used only as a session.Backend, for the trial, and for the turns of sweeps. Its
// caller stores the records.
func NewSessions(server Server, address, prefix string) *Backend {
	b := &Backend{Address: address, Prefix: prefix, Retention: store.TokenRetention, Atomic: func(string) bool { return false },
		own: map[session.ID]*own{}, deleted: deleted{notes: map[string]bool{}, taken: map[string][]string{}, left: map[string][]string{}}}
	b.server = noting{server, &b.heard}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// A noting is a Server that notes when it last answered.
type noting struct {
	Server
	heard *atomic.Int64
}

func (n noting) note(err error) {
	if err == nil {
		n.heard.Store(int64(store.Now()))
	}
}

func (n noting) Get(ctx context.Context, key string) (Object, error) {
	o, err := n.Server.Get(ctx, key)
	n.note(err)
	return o, err
}

func (n noting) Put(ctx context.Context, key string, body []byte, version string) (Object, Fate, error) {
	o, what, err := n.Server.Put(ctx, key, body, version)
	n.note(err)
	return o, what, err
}

// maxRaces is how often a write is retried after losing a race.
const maxRaces = 16

// put is Put, repeated while it conflicts with another request. A Refused may then also mean that an earlier try was
// done.
func (b *Backend) put(ctx context.Context, key string, body []byte, version string) (o Object, what Fate, err error) {
	for range maxRaces {
		if o, what, err = b.server.Put(ctx, key, body, version); what != Conflict || err != nil { //mutant:object-put-again
			return o, what, err
		}
	}
	return o, what, fmt.Errorf("%s: each of %d writes met another that was under way", key, maxRaces)
}

// Listen implements [record.Backend]. There are no notifications.
func (b *Backend) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// Await implements [session.Backend]. The end of a session is not reported.
func (b *Backend) Await(context.Context, session.ID) error { return store.ErrUnsupported }

// patience is the timeout of background work.
const patience = 10 * time.Second

// behind runs f in the background; only Close and Finish wait for it. If f fails, a sweep does its work.
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

// together runs f for each number below n, abreast at a time, and returns one of the errors.
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

// abreast is how many requests one operation has under way at once.
const abreast = 16

// page is how many keys one request lists.
const page = 1000
