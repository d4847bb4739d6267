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

// orphaned is how many losses were reported of holds that are not looked after. A
// hold keeps the number from before its claim was sent.
func (s *scheduler) orphaned() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphans
}

// expect has losses of the hold reported to it from now on. A loss that was
// reported since its claim was sent may have been its own: then the hold is renewed
// at once. s.mu is held.
func (s *scheduler) expect(h *hold) {
	s.byID[h.ID] = h
	if h.orphans != s.orphans { //mutant:loss-told-early-found
		h.orphans, h.renewAt = s.orphans, s.e.now()
	}
}
