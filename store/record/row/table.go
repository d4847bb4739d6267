package row

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// A Found is a row of a list, or why it is foreign.
type Found struct {
	record.Named
	Err error // why the row is foreign, or nil
}

// List yields all rows, in the order of the names. next reads Page rows that follow a name. No read is under way
// when List yields a row: the caller may need the connection.
func List(next func(after string) ([]Found, error)) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		for after := ""; ; {
			all, err := next(after)
			if err != nil {
				yield(record.Named{}, err)
				return
			}
			for i := range all {
				if !yield(all[i].Named, all[i].Err) {
					return
				}
				after = all[i].Name
			}
			if len(all) < Page {
				return
			}
		}
	}
}

// A Left is the state of a session's row: when it expires on the server's clock, 0 once its end is final, and how
// much longer it lasts.
type Left struct {
	ID      session.ID // of the session
	Expires int64      // µs on the server's clock; 0: its end is final
	For     int64      // µs that the session still lasts
}

// JudgeSessions implements Left of [session.Backend]. look reads the present rows. end makes the end of a session
// final if it is still expired once its row is locked, since a renewal may be under way, and reports whether it did.
func JudgeSessions(ids []session.ID, look func() ([]Left, error), end func(session.ID) (bool, error)) ([]time.Duration, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	for {
		rows, err := look()
		if err != nil {
			return nil, err
		}
		goesOn, again := map[session.ID]int64{}, false
		for _, r := range rows {
			if goesOn[r.ID] = r.For; r.Expires <= 0 {
				goesOn[r.ID] = 0
			} else if r.For <= 0 {
				ended, err := end(r.ID) //mutant:row-end-is-final
				if err != nil {
					return nil, err
				}
				again = again || !ended // another process has written it
			}
		}
		if again {
			continue
		}
		left := make([]time.Duration, len(ids))
		for i, id := range ids { // a missing session has ended
			left[i] = max(0, time.Duration(goesOn[id])*time.Microsecond)
		}
		return left, nil
	}
}

const (
	sweepEvery = time.Minute
	sweepOdds  = 32 // one in so many new processes sweeps at once: it may not live for a minute, and leaves a few rows
)

// Sweeps says when a process sweeps its tables. The zero value is ready.
type Sweeps struct {
	mu sync.Mutex
	at store.Instant // 0: not yet known
}

// Due reports whether it is time for a sweep. If so, it expects the caller to sweep.
func (s *Sweeps) Due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, first := store.Now(), s.at == 0
	if now < s.at {
		return false
	}
	s.at = now.Add(sweepEvery)
	return !first || rand.N(sweepOdds) == 0
}

// Pause puts the next sweep off. It is for tests.
func (s *Sweeps) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = store.Now().Add(time.Hour)
}

// A Once does something until it succeeds, and then no more, unless Done is set to false. NewOnce makes one.
type Once struct {
	Done atomic.Bool   // it has succeeded
	busy chan struct{} // of capacity 1; full while a call runs f
}

// NewOnce returns a Once that has done nothing.
func NewOnce() *Once { return &Once{busy: make(chan struct{}, 1)} }

// Do calls f, unless an f has returned nil before. Calls take turns. A call whose context ends stops waiting.
func (o *Once) Do(ctx context.Context, f func() error) error {
	if o.Done.Load() {
		return nil
	}
	select {
	case o.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err() //mutant:row-first-call-waits-for-no-other
	}
	defer func() { <-o.busy }()
	if o.Done.Load() {
		return nil
	}
	err := f()
	o.Done.Store(err == nil)
	return err
}
