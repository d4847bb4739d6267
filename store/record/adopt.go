package record

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// adopting records, before the request is sent, that a hold may become a claim of this process, so that its entry is
// removed if the adoption is given up.
func (s *Store) adopting(now *localClaim, h *store.Hold, sess *session.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.sess == nil {
		now.into(sess)
	}
	now.unsure, now.ends = true, max(now.ends, store.Now().Add(h.TTL)) //mutant:record-adoption-is-not-sure
}

// notAdopted records why an adoption failed. An unanswered one may be repeated as long as the hold lasts.
func (s *Store) notAdopted(now *localClaim, got *renewing, err error) {
	broken := (*store.LostError)(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !store.Definite(err) || now.token != 0: // if it was adopted before, its own renewals report its state
	case errors.Is(err, store.ErrLost) && (got.there || !errors.As(err, &broken)): // it is not there under its new id
		s.forget(now)
	default: // it may have been done before
		now.lose(store.ErrLost) //mutant:record-adoption-refused-later
	}
}

// detach gives a hold an ID of no process, and a session of its own that is never renewed. So the hold outlives its
// process.
func (s *Store) detach(ctx context.Context, m *localClaim, h *store.Hold) store.Renewal {
	id := session.NewID()
	ttl := s.ticks(h.TTL)
	sent := store.Now()
	lasts, err := s.b.Begin(ctx, id, ttl)
	if err != nil {
		return store.Renewal{Err: err}
	}
	kept, err := s.beginKeep(ctx, m)
	if err != nil {
		return store.Renewal{Err: err}
	}
	got := &renewing{}
	if err := s.show(ctx, m, h, id, kept, got); err != nil {
		return store.Renewal{Err: s.notRenewed(m, got, err)}
	}
	s.nothing(m)
	out := got.r
	out.TTL, out.From = min(h.TTL, lasts), sent
	return out
}
