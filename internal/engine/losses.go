package engine

import (
	"github.com/holdfast-go/holdfast/store"
)

// Losses of holds that have no deadline. No timer of the engine ends them: the store
// reports the loss, on its own or in answer to a renewal.

// reportLoss is the callback of a store.LossTeller.
func (s *scheduler) reportLoss(id store.ID, why error) {
	s.mu.Lock()
	h := s.byID[id]
	if h == nil {
		// The hold may be one whose grant has not been read yet.
		s.orphans++ //mutant:loss-told-early-counted
		s.mu.Unlock()
		return
	}
	s.out(h)
	s.mu.Unlock()
	h.lose(indeterminate(why)) //mutant:loss-store-tells-told
}

// orphaned returns how many losses were reported of holds that the scheduler did not
// have. A hold keeps the number from before its claim was sent.
func (s *scheduler) orphaned() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphans
}

// expect registers the hold for reports of its loss. If an orphan was reported since
// its claim was sent, that may have been this hold: it is renewed at once, to find out.
// s.mu is held.
func (s *scheduler) expect(h *hold) {
	s.byID[h.ID] = h
	if h.orphans != s.orphans { //mutant:loss-told-early-found
		h.orphans, h.renewAt = s.orphans, s.e.now()
	}
}
