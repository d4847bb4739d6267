package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// changed wakes the callers that wait for a node.
func (s *Store) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
}

// straggle is how long an operation waits for the slower nodes once the answers of the others
// do not decide it alone.
const straggle = 100 * time.Millisecond

// ready waits, at most for the timeout, while nodes are being checked and fewer than need are
// up. A node that is not up by then returns its error when it is used.
func (s *Store) ready(ctx context.Context, need int) error {
	s.start()
	for {
		s.mu.Lock()
		news := s.news
		s.mu.Unlock()
		ups := 0
		var newest store.Instant // when the latest of their checks began
		for _, n := range s.nodes {
			n.mu.Lock()
			switch n.state {
			case up:
				ups++
			case unknown:
				newest = max(newest, n.since)
			}
			n.mu.Unlock()
		}
		if newest == 0 {
			return ctx.Err()
		}
		left := s.timeout
		if ups >= need {
			left = s.straggle
		}
		if left -= store.Now().Sub(newest); left <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(left)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.ctx.Err() != nil {
			return store.ErrClosed
		}
	}
}

// waitsFor returns in how many seconds enough nodes may grant again, if only nodes that may
// have forgotten are missing.
func (s *Store) waitsFor(need int) (seconds int, soon bool) {
	var opens []store.Instant
	for _, n := range s.nodes {
		n.mu.Lock()
		switch {
		case n.state == up:
			opens = append(opens, 0)
		case n.opens != 0:
			opens = append(opens, n.opens)
		}
		n.mu.Unlock()
	}
	if len(opens) < need {
		return 0, false
	}
	slices.Sort(opens)
	left := opens[need-1].Sub(store.Now())
	if opens[need-1] == 0 || left <= 0 {
		return 0, false
	}
	return int((left + time.Second - 1) / time.Second), true
}
