package pgstore

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// sweepBlocks is how many blocks of the table one sweep reads.
	sweepBlocks = 64
	// Bounds of the pause between two sweeps of a Store in use. The pause grows if nothing is found
	// and shrinks if much is, so that rows go as fast as they came, even if each name is used once.
	leastSweep = 100 * time.Millisecond
	mostSweep  = 5 * time.Minute
	// One in this many new processes sweeps at once, because it may not live for that pause. If all
	// did, many processes that start together would all begin with a sweep.
	sweepOdds = 8
)

// A sweeper deletes rows unused for a day, a part of the table at a time,
// concurrently with the calls of a Store.
type sweeper struct {
	next        atomic.Int64  // when to sweep again, on the local clock; 0: at once
	least, most time.Duration // bounds of the pause

	looking atomic.Bool // a sweep is under way; it owns the fields below

	pause time.Duration
	at    int64 // the block to begin with; -1: any
}

// sweep deletes old rows in the background, if that is due.
func (s *Store) sweep() {
	if s.clock != nil {
		return
	}
	next := s.next.Load()
	if int64(store.Now()) < next || !s.looking.CompareAndSwap(false, true) {
		return
	}
	s.next.Store(int64(store.Now().Add(s.most)))
	if next == 0 {
		if s.pause, s.at = s.most, -1; rand.N(sweepOdds) > 0 {
			s.looking.Store(false)
			return
		}
	}
	s.tasks.Go(func() {
		defer s.looking.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		gone, behind, kept, err := s.sweepPart(ctx, s.at)
		if err != nil {
			return // the next sweep comes after the longest pause
		}
		for _, name := range kept {
			_ = s.settle(ctx, name) // a failure is retried by a later sweep
		}
		_ = s.run(ctx, s.do.session.sweep, nil, func() {}, nil)
		s.at = behind
		s.pause = s.nextPause(gone)
		s.next.Store(int64(store.Now().Add(s.pause)))
	})
}

// nextPause returns the pause after a sweep that deleted so many rows.
func (w *sweeper) nextPause(gone int64) time.Duration {
	if gone >= sweepBlocks { // at least one per block //mutant:pg-sweep-pause-shortens
		return max(w.pause/4, w.least)
	}
	return min(2*w.pause, w.most) //mutant:pg-sweep-pause-grows
}

// sweepPart sweeps one part of the table. It returns how many rows it has deleted, where the next
// part begins, and the names there that sessions keep and that were not written for long: if those
// sessions have ended, their holders have crashed.
func (s *Store) sweepPart(ctx context.Context, at int64) (gone, behind int64, kept []string, err error) {
	err = s.run(ctx, s.do.sweep, []any{int64(sweepBlocks), at}, func() { kept = nil }, func(scan func(...any) error) error {
		var names string
		if err := scan(&gone, &behind, &names); err != nil {
			return err
		}
		for _, one := range strings.Fields(names) {
			name, err := hex.DecodeString(one)
			if err != nil {
				return err
			}
			kept = append(kept, string(name))
		}
		return nil
	})
	return gone, behind, kept, err
}
