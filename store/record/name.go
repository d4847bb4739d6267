package record

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

const (
	maxNames = 10_000 // names that are remembered while nobody uses them
	maxBatch = MaxNotes
)

// A name is what this process knows of one, and what it is about to do to it. The
// operations of this process on one name wait here, and go into one write where
// they wait together. It is guarded by Store.mu, except for what only its worker
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
	base    base
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
	fresh bool          // it was read for the operations that are under way
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
	apply   func(*view) (queue.Change, error)
	ctx     context.Context // of the caller, who may leave
	gives   bool            // it makes room for others: it goes first, and waits less
	asks    bool            // it is an ask
	again   bool            // … of a claim that may be in the record
	claim   *store.Claim    // of an ask that may wait: it may be left as a note
	short   *session.Session
	insists bool     // its claim is to be in the record: a note is not enough
	looks   bool     // it finds out whether its claim is in the record, and does no more
	finds   store.ID // nothing may be left of this claim, not even a note

	done  chan struct{}
	begun bool  // the worker has it
	left  bool  // its caller does not wait any more
	fresh bool  // what apply was given was read for it
	told  error // of apply
	err   error // why it may not have been done
	rests bool  // its claim is in the inbox only
	noted bool  // a note of it was left
	raced bool  // the server has answered, and another was first
}

// do applies an operation to the record of a name, and returns when the change is
// stored. The error is that of apply, or the reason why it may not have been done. If ctx
// ends first that is the error, and what apply has set must not be used.
func (s *Store) do(ctx context.Context, at string, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.ctx, o.done = ctx, make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return context.Canceled
	}
	n := s.names[at]
	if n == nil {
		s.forgetSome()
		n = &name{at: at, noted: map[store.ID]bool{}}
		s.names[at] = n
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
func (s *Store) leaveOp(ctx context.Context, n *name, o *op) error {
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

// forgetSome keeps the names from growing without end. Store.mu is held.
func (s *Store) forgetSome() {
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
// Store.mu is held.
func (s *Store) mayForget(n *name) bool {
	return n.users == 0 && !n.working && n.pending == nil && len(n.late) == 0 && len(n.noted) == 0
}

// work does what waits, until nothing does.
func (s *Store) work(n *name) {
	for {
		ctx, cancel := context.WithCancel(s.ctx)
		s.mu.Lock()
		n.batch, n.left, n.cancel = nil, 0, cancel
		if len(n.waiting) == 0 {
			n.working, n.rested = false, store.Now()
			s.mu.Unlock()
			cancel()
			return
		}
		s.mu.Unlock()
		err := s.change(ctx, n)
		cancel()
		s.finishBatch(n, err)
	}
}

// joined is ctx for what is sent for all of the batch.
func joined(ctx context.Context, batch []*op) context.Context {
	callers := make([]context.Context, len(batch))
	for i, o := range batch {
		callers[i] = o.ctx
	}
	return store.Join(ctx, callers...) //mutant:record-joined-in-no-trace
}

// more takes what has come to wait into the batch, and returns it: those that make
// room for others first. What nobody waits for any more is left out: its claim may be
// given up by an operation behind it.
func (s *Store) more(ctx context.Context, n *name) (batch []*op, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // those of the batch have left, or the store is closed
		return slices.Clone(n.batch), false
	}
	n.batch = slices.DeleteFunc(n.batch, func(o *op) bool { return o.left }) //mutant:record-abandoned-is-done-later
	n.left = 0
	had := len(n.batch)
	for len(n.waiting) > 0 && len(n.batch) < maxBatch {
		o := n.waiting[0]
		n.waiting = n.waiting[1:]
		o.begun = true
		n.batch = append(n.batch, o)
	}
	slices.SortStableFunc(n.batch, func(a, b *op) int {
		switch {
		case a.gives == b.gives:
			return 0
		case a.gives:
			return -1
		}
		return 1
	})
	return slices.Clone(n.batch), len(n.batch) > had
}

// finishBatch tells those of the batch that they are done.
func (s *Store) finishBatch(n *name, err error) { s.finishSome(n, err, nil) }

// finishSome tells those that keep does not keep.
func (s *Store) finishSome(n *name, err error, keep func(*op) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := n.batch[:0:0]
	n.left = 0
	for _, o := range n.batch {
		if keep != nil && keep(o) {
			rest = append(rest, o)
			if o.left {
				n.left++
			}
			continue
		}
		o.err = err
		close(o.done)
	}
	n.batch = rest
}
