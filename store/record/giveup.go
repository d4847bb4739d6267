package record

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// askHolders calls the sessions of those that hold the name as a waiting claim begins to ask them to give up, each once (law 16): so
// their next renewals read why. What fails is for the next ask. Who is granted from then on is told with the grant.
func (s *Store) askHolders(ctx context.Context, m *localClaim, c *store.Claim) {
	s.mu.Lock()
	waits := m.waits
	s.mu.Unlock()
	if !waits {
		m.uncalled = nil
		return
	}
	if m.uncalled == nil {
		r, err := s.records.read(ctx, c.Name)
		if err != nil {
			return
		}
		v, err := decode(c.Name, r.Data, s.records.present())
		if err != nil {
			return
		}
		m.uncalled = map[session.ID]bool{}
		for i := range v.q.Entries {
			if e := &v.q.Entries[i]; e.Granted {
				m.uncalled[v.in[e.ID]] = true //mutant:record-asked-to-give-up-unheard
			}
		}
	}
	for in := range m.uncalled {
		if s.sessions.Call(ctx, in) == nil { //mutant:record-call-that-failed-is-forgotten
			delete(m.uncalled, in)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.ends = max(m.ends, store.Now().Add(c.PositionTTL)) // its owner hears only now that it waits
}

// why has a renewal of a hold that stands tell why a waiter asks to give it up. It writes nothing, and what fails is for the
// next renewal: so no hold is lost by being asked.
func (s *Store) why(ctx context.Context, m *localClaim, h *store.Hold, r store.Renewal, began store.Instant) store.Renewal {
	var now store.Renewal
	rec, err := s.records.read(ctx, h.Name)
	if err == nil {
		_, err = s.records.apply(ctx, h.Name, &rec, []*op{{apply: func(v *view) (change queue.Change, _ error) {
			v.asks = true
			now, change = v.q.Renew(v.now, h)
			return change, nil
		}}})
	}
	if err != nil {
		return r //mutant:record-asked-needs-an-answer
	}
	r.GiveUp = now.GiveUp
	s.mu.Lock()
	defer s.mu.Unlock()
	m.told.GiveUp, m.asked = r.GiveUp, r.GiveUp != "" || m.askedAt >= began //mutant:record-asked-while-it-reads-why
	return r
}
