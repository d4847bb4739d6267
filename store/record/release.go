package record

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	why, given := s.isGone(m), false
	if m != nil {
		s.mu.Lock()
		m.waits, m.heard = false, nil                                    // a claim that is being given up is granted nothing (law 6)
		given = h.Token != 0 && m.back != nil && m.back.Token == h.Token //mutant:record-release-repeated-is-another
		s.mu.Unlock()
	}
	sent := h
	if broken := (*store.LostError)(nil); given || errors.As(why, &broken) {
		why = nil // it can still be released
	} else if why != nil {
		sent.Token = 0 // release only what is left of it
	}
	there, err := s.giveBack(ctx, m, &sent)
	if m != nil {
		s.mu.Lock()
		switch {
		// takeOut retries until it is done, or the session has ended: an entry whose release was refused is still
		// there.
		case err != nil && !errors.Is(err, store.ErrLost): //mutant:record-release-unanswered-is-left
			m.lose(store.ErrLost)
			if why == nil || h.Token == 0 {
				m.back = &sent
			}
			if !m.drop || m.failed == 0 { // else takeOut is retrying already //mutant:record-release-unanswered-again
				m.drop, m.ends = true, store.Now()
			}
		case !there:
			s.forget(m)
		}
		s.mu.Unlock()
	}
	if err == nil && h.Token != 0 && why != nil {
		return s.whyGone(ctx, m, why)
	}
	return s.failed("release", h.Name, err)
}

// giveBack does a release. there: an entry of the ID has not expired; it is known only without an error or with
// store.ErrLost.
func (s *Store) giveBack(ctx context.Context, m *localClaim, h *store.Hold) (there bool, err error) {
	var kept session.ID
	if h.Token != 0 {
		if kept, err = s.beginKeep(ctx, m); err != nil {
			return false, err
		}
	}
	left := new(bool)
	err = s.gives(ctx, m, h, func(v *view) (queue.Change, error) {
		if e := v.find(h.ID); e != nil && h.Token != 0 && e.Token == h.Token {
			v.keep(h.ID, kept)
		}
		change, err := v.q.Release(v.now, h)
		e := v.find(h.ID)
		*left = e != nil && e.Expires > v.now.Clock
		return change, err
	})
	if err != nil && !errors.Is(err, store.ErrLost) {
		return false, err
	}
	return *left, err
}

// errUncalled says that a session must be called before its entry is given back.
var errUncalled = errors.New("the owner was not called")

// gives runs an operation that gives back all that the ID of a hold has. If this process was about to adopt the hold, another
// may still take it for its own: then the entry goes only once its session was called (law 14).
func (s *Store) gives(ctx context.Context, m *localClaim, h *store.Hold, apply func(*view) (queue.Change, error)) error {
	s.mu.Lock()
	unsure := m != nil && m.unsure
	s.mu.Unlock()
	for called := (session.ID{}); ; {
		in := new(session.ID)
		err := s.records.do(ctx, &op{at: h.Name, gives: true, held: h.Token != 0, finds: h.ID, apply: func(v *view) (queue.Change, error) {
			*in = v.in[h.ID]
			if unsure && v.find(h.ID) != nil && *in != called && s.sessions.Own(*in) == nil { //mutant:record-gives-back-uncalled
				return queue.Change{}, errUncalled
			}
			return apply(v)
		}})
		if err != errUncalled {
			return err
		}
		called = *in
		if err := s.sessions.Call(ctx, called); err != nil {
			return err
		}
	}
}

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, maxAbreast, func(i int) { out[i] = s.Release(ctx, holds[i]) })
	return out
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	if b.ID == foreignID { //mutant:record-foreign-holder-is-broken
		return s.failed("break", b.Name, fmt.Errorf("%w: the holder does not use holdfast, and would go on: end its program", store.ErrUnsupported))
	}
	// Call the owner before another claim is granted (law 14), so that an unanswered break can be repeated until it
	// is answered.
	mark := b
	mark.Now = false //mutant:record-break-drops-first
	in, err := s.breaks(ctx, &mark)
	if err == nil {
		err = s.sessions.Call(ctx, in) // so its owner's next renewal reads //mutant:record-break-calls-nobody
	}
	if err == nil && b.Now {
		if _, err = s.breaks(ctx, &b); errors.Is(err, store.ErrLost) {
			err = nil // it has ended meanwhile //mutant:record-break-gone-meanwhile
		}
	}
	return s.failed("break", b.Name, err)
}

// breaks breaks a hold, and returns its session.
func (s *Store) breaks(ctx context.Context, b *store.Break) (session.ID, error) {
	in := new(session.ID)
	err := s.records.do(ctx, &op{at: b.Name, gives: true, apply: func(v *view) (queue.Change, error) {
		*in = v.in[b.ID]
		v.refused = true
		return v.q.Break(v.now, b)
	}})
	if err != nil {
		return session.ID{}, err
	}
	return *in, nil
}

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, at string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		all := s.b.List(ctx, 0)
		if at != "" {
			if err := store.CheckName(at); err != nil {
				yield(store.State{Name: at}, err)
				return
			}
			all = func(yield func(Named, error) bool) {
				r, err := s.records.read(ctx, at)
				yield(Named{at, r}, err)
			}
		}
		for r, err := range all {
			st := store.State{Name: r.Name}
			if err == nil {
				var v *view
				if v, err = s.records.viewOf(ctx, r.Name, &r.Record, wholly); err == nil {
					st = v.q.State(v.now, r.Name)
				}
			}
			if (err != nil || len(st.Entries) > 0) && !yield(st, s.failed("list", r.Name, err)) {
				return
			}
		}
	}
}
