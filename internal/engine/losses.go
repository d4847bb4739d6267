package engine

import (
	"github.com/holdfast-go/holdfast/store"
)

// Losses of holds that have no deadline: no timer of ours ends those, but the
// word of the store, which comes by itself or in answer to a renewal.

// reportLoss is what a store.LossTeller calls.
func (s *scheduler) reportLoss(id store.ID, why error) {
	s.mu.Lock()
	h := s.byID[id]
	if h == nil {
		// Perhaps of a grant whose answer has not been read yet.
		s.orphans++ //mutant:loss-told-early-counted
		s.mu.Unlock()
		return
	}
	s.out(h)
	s.mu.Unlock()
	h.lose(indeterminate(why)) //mutant:loss-store-tells-told
}

// orphaned is how many losses were told of what was not looked after. A hold has
// what it was before the claim was asked for.
func (s *scheduler) orphaned() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphans
}

// expect begins to tell the hold of its loss. If one was told since it was asked
// for that may have been its own: so the store is asked at once. s.mu is held.
func (s *scheduler) expect(h *hold) {
	s.byID[h.ID] = h
	if h.orphans != s.orphans { //mutant:loss-told-early-found
		h.orphans, h.renewAt = s.orphans, s.e.now()
	}
}
