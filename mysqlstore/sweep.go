package mysqlstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	sweepEvery = time.Minute
	sweepOdds  = 8  // of a process that has just come one in so many sweeps; it may not live for a minute
	sweepSteps = 20 // pages at a time
	sweepLimit = 10 * time.Second
)

// A sweeper deletes, a page at a time, the rows of names that nobody has used
// for a day.
type sweeper struct {
	mu    sync.Mutex
	next  time.Time // when to go on; zero: not yet known
	after string    // where
}

// sweep goes on with the sweeping if it is time to, beside the caller, who has
// just used the name.
func (s *Store) sweep(name string) {
	w := &s.swept
	now := time.Now()
	if !w.mu.TryLock() {
		return // it is under way
	}
	first := w.next.IsZero()
	if first {
		w.after = name
	}
	due := first && rand.N(sweepOdds) == 0 || !first && !now.Before(w.next)
	if first || due {
		w.next = now.Add(sweepEvery)
	}
	if !due {
		w.mu.Unlock()
		return
	}
	s.tasks.Go(func() {
		defer w.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.ctx, sweepLimit)
		defer cancel()
		for range sweepSteps {
			if more, err := s.sweepPage(ctx); err != nil || !more {
				return // it is tried again in a while, or by another process
			}
		}
	})
}

// sweepPage looks at the next rows and deletes those that are over, if nobody
// has written them since. It reports whether so many were that there may be
// more.
func (s *Store) sweepPage(ctx context.Context) (more bool, err error) {
	w := &s.swept
	var names []string
	var revs []int64
	last, n := "", 0
	err = s.rows(ctx, s.db, s.sql.page(w.after, "form=1", page), func(r row, err error) error {
		last, n = r.name, n+1
		if err == nil && r.over() {
			names, revs = append(names, r.name), append(revs, r.rev)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	wrapped := n < page
	more = len(names) > page/2 || wrapped && w.after != ""
	if w.after = last; wrapped {
		w.after = ""
	}
	if len(names) > 0 {
		_, err = s.db.ExecContext(ctx, s.sql.remove(names, revs))
	}
	return more && err == nil, err
}

// over reports whether the newest token of the name need not be kept any more.
func (r *row) over() bool {
	end := r.idle
	if len(r.q.Entries) > 0 {
		for _, e := range r.q.State(r.now, "").Entries {
			if e.Ends > 0 {
				return false
			}
		}
		for i := range r.q.Entries {
			e := &r.q.Entries[i]
			end = max(end, e.Expires+e.Delay, e.Since+e.Keep)
		}
	}
	return end+store.TokenRetention.Microseconds() <= r.now.Clock
}
