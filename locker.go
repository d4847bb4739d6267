package holdfast

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A Locker makes locks on one store. It is safe for concurrent use, and meant
// to be made once a process.
type Locker struct {
	e   *engine
	o   *Options  // as given, over the parent's
	s   *settings // o with the defaults, checked
	err error     // why s is no good
}

// New returns a Locker on the store. It does no I/O. From now on the store
// belongs to the Locker, and [Locker.Close] closes it; the client that the
// store was made from stays the caller's.
//
// If the options are nonsense the error is ErrInvalid, or ErrUnsupported where
// the store cannot do what they ask.
func New(s store.Store, o *Options) (*Locker, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: holdfast.New needs a store, got nil", ErrInvalid)
	}
	l := (&Locker{e: newEngine(s), o: &Options{}}).With(o)
	if l.err != nil {
		return nil, l.err
	}
	return l, nil
}

// With returns a Locker on the same store with other options. If they are
// nonsense, every call on it gives the error.
func (l *Locker) With(o *Options) *Locker {
	m := &Locker{e: l.e, o: o.over(l.o)}
	m.s, m.err = m.o.settle(&l.e.desc)
	return m
}

// Close gives back every lease of this Locker and of all that With returned,
// ends every wait with ErrClosed, waits until what is under way has ended
// (bounded by five seconds an operation), and closes the store. Later calls
// are ErrClosed; a second Close does nothing.
func (l *Locker) Close() error { return l.e.close() }

// An engine is what all lockers of one store share.
type engine struct {
	store   store.Store
	desc    store.Description
	process store.Process
	now     func() clock.Instant

	gates  gates
	hints  hints
	sched  scheduler
	bounds bounds

	first   sync.Once      // starts what is done once, at the first claim
	work    sync.WaitGroup // every goroutine of the engine, and every call
	mu      sync.Mutex     // guards closed against work.Add
	closed  bool
	life    context.Context // ends when close begins
	end     context.CancelFunc
	closing <-chan struct{} // life.Done()
	ended   chan struct{}   // closed by close when it has ended
	err     error           // of store.Close
}

func newEngine(s store.Store) *engine {
	e := &engine{
		store: s, desc: s.Describe(), process: store.NewProcess(),
		now: clock.Now, ended: make(chan struct{}),
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.closing = e.life.Done()
	if e.desc.InProcess {
		e.now = clock.Awake
	}
	e.gates.init()
	e.hints.init(e)
	e.sched.init(e)
	return e
}

// enter keeps close waiting until work.Done is called, and says whether it
// did: after close nothing new begins. Whoever is inside may start goroutines
// with work.Go.
func (e *engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.work.Add(1)
	}
	return !e.closed
}

func (e *engine) close() error {
	e.mu.Lock()
	again := e.closed
	e.closed = true
	e.mu.Unlock()
	if again {
		<-e.ended
		return e.err
	}
	e.end() // and with it the waits
	e.sched.releaseAll()
	e.work.Wait()
	e.sched.stop()
	e.bounds.stop()
	e.err = e.store.Close()
	close(e.ended)
	return e.err
}

func (e *engine) isClosing() bool { return e.life.Err() != nil }

// begin does what the engine does once, at the first claim: it asks the server
// what an operator should hear.
func (e *engine) begin(s *settings) {
	e.first.Do(func() {
		c, ok := e.store.(store.Checker)
		if !ok {
			return
		}
		e.work.Go(func() {
			ctx, cancel := context.WithTimeout(e.life, longestCall)
			defer cancel()
			warnings, err := c.Check(ctx)
			if err != nil && !e.isClosing() {
				s.Logger.Warn("holdfast: could not check the store", "store", e.desc.Store, "err", err)
			}
			for _, w := range warnings {
				s.Logger.Warn("holdfast: "+w, "store", e.desc.Store)
			}
		})
	})
}

// longestCall bounds every single operation on the store.
const longestCall = 5 * time.Second

// bounded runs an operation on the store, on a context that ends after d at the
// latest. It is never a caller's, so that no operation is cut off half-way.
func (e *engine) bounded(d time.Duration, op func(context.Context)) {
	if e.desc.InProcess {
		op(context.Background())
		return
	}
	c := e.bounds.begin(d)
	defer c.end()
	op(c)
}
