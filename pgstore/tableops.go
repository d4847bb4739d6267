package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(&h, turn, weight); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	if err := s.gone(ctx, m); err != nil {
		return store.Answer{}, err
	}
	if m != nil {
		s.claims.mu.Lock()
		m.reads = true // its next renewal finds its state
		s.claims.mu.Unlock()
	}
	for over := (over)(nil); ; {
		f, err := s.act(ctx, "change the weight of", h.Name, over, s.do.change, []byte(h.Name), h.ID[:], h.Token, int64(turn), weight, []byte(h.GiveUp))
		if err = cmp.Or(err, lostOr(f)); err != nil {
			return store.Answer{}, err
		}
		if f.verdict == "I" {
			return store.Answer{}, store.NotUpgradeableError(h.Name)
		}
		if err := s.judge(ctx, f, holders); err != nil {
			return store.Answer{}, err
		}
		if e := f.entry(h.ID); len(f.ended) > 0 && e != nil && e.Want > e.Weight { // ended sessions blocked it
			over = f.ended
			continue
		}
		// The change has been applied. This only computes how the hold stands.
		a, _, err := f.q.Change(f.time(), &h, turn, weight)
		if err == nil && h.GiveUp != "" && a.Want > a.Weight && m != nil {
			s.claims.mu.Lock()
			if m.upgrade != turn {
				m.upgrade, m.asks = turn, "" //mutant:pg-upgrade-calls-once-ever
			}
			s.claims.mu.Unlock()
			s.callHolders(ctx, m, h.GiveUp, 0, f) //mutant:pg-upgrade-calls-nobody
		}
		return a, err
	}
}

func lostOr(f *found) error {
	if f == nil {
		return nil
	}
	return f.lost()
}

// A way is the statement that releases a hold.
type way int

const (
	alone  way = iota // no waiters: the shortest
	next              // grants the next waiter, and does nothing else
	beside            // everything else
)

// waited notes that a claim waited for its grant: there may be waiters behind it, too.
func (s *Store) waited(name string) {
	if s.ways.get(name) == alone {
		s.ways.set(name, next)
	}
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	why := s.gone(ctx, m)
	if broken := (*store.LostError)(nil); why != nil && !errors.As(why, &broken) {
		err := s.drop(ctx, h.Name, over{string(h.ID[:]): 0}, h.Announce) // what is left of it has expired //mutant:pg-expired-is-not-given-back
		if s.leave(m, nil, err == nil); err == nil && h.Token != 0 {
			err = why
		}
		return err
	}
	var err error
	if m == nil {
		err = s.disown(ctx, h.Name, h.ID) //mutant:pg-gives-back-uncalled
	}
	if err == nil {
		err = s.release(ctx, &h, s.lone(m))
	}
	if err == nil || !store.Definite(err) || s.isToken(m, h.Token) { // otherwise the hold was not this claim's
		s.leave(m, &h, isGone(err))
	}
	return err
}

// isGone reports from the result of a release whether nothing is left of a claim. After a denied
// release the claim is still stored, and its session continues.
func isGone(err error) bool { return err == nil || errors.Is(err, store.ErrLost) } //mutant:pg-denied-release-is-repeated

// disown calls the session of the process whose hold this process was about to adopt, before the
// hold is released: its owner may still consider it its own (law 14 of the records).
func (s *Store) disown(ctx context.Context, name string, id store.ID) error {
	f, err := s.look(ctx, name)
	if err != nil {
		return err
	}
	if in := f.in[id]; s.sessions.Own(in) == nil {
		return s.call(ctx, in)
	}
	return nil
}

// isToken reports whether a claim was granted with the token.
func (s *Store) isToken(m *localClaim, token int64) bool {
	if m == nil {
		return false
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.token == token || m.heard == token
}

// lone reports whether a claim has an expiry of its own: no session keeps it.
func (s *Store) lone(m *localClaim) bool {
	if m == nil {
		return !s.keeps()
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.goes()
}

func givenBack(h *store.Hold) []any { return []any{[]byte(h.Name), h.ID[:], h.Token, h.Used} }

// giveBack releases a hold by the full statement.
func (s *Store) giveBack(ctx context.Context, h *store.Hold) (*found, error) {
	return s.act(ctx, "release", h.Name, nil, s.do.release, append(givenBack(h), h.Announce)...)
}

func (s *Store) release(ctx context.Context, h *store.Hold, lone bool) error {
	args := givenBack(h)
	by := s.ways.get(h.Name) // most likely the same as last time
	if h.Token != 0 && by != beside {
		done, woke := false, false
		statement := s.do.releaseFast
		if by == next {
			statement = s.do.releaseNext
		}
		err := s.run(ctx, statement, append(args[:len(args):len(args)], !lone, h.Announce), func() { done, woke = false, false }, func(scan func(...any) error) error {
			done = true
			var durable *string
			return scan(&woke, &durable)
		})
		if err != nil && !isNoTable(err) {
			return s.failed(fmt.Sprintf("release %q", h.Name), err)
		}
		if done {
			if s.seen.set(h.Name, inUse); !woke {
				s.ways.set(h.Name, alone)
				s.seen.set(h.Name, idle)
			}
			return nil
		}
	}
	f, err := s.giveBack(ctx, h)
	if err == nil && h.Token != 0 {
		switch {
		case f.woken == 0:
			s.ways.set(h.Name, alone)
		case by == alone:
			s.ways.set(h.Name, next)
		default: // the shorter statement was in vain
			s.ways.set(h.Name, beside)
		}
	}
	if h.Token == 0 {
		return err
	}
	return cmp.Or(err, lostOr(f))
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	f, err := s.lookJudged(ctx, b.Name, holders)
	if err != nil {
		return err
	}
	// Mark it, call its owner, and only then free it: an owner that was not called would consider
	// the hold its own as long as its session lasts. If a step fails, the hold still exists and can
	// be broken again.
	ended := f.ended
	step := b
	step.Now = false //mutant:pg-dropped-before-the-call
	for ; ; step.Now = true {
		f, err = s.act(ctx, "break", b.Name, ended, s.do.breaks, []byte(b.Name), b.ID[:], b.Token, []byte(queue.StoredReason(&step)), step.Now)
		if err = cmp.Or(err, lostOr(f)); err != nil {
			if step.Now && errors.Is(err, store.ErrLost) { // its owner released it first
				return nil
			}
			return err
		}
		if err := s.call(ctx, f.was); err != nil || step.Now || !b.Now {
			return err
		}
	}
}

// call makes the owner of an entry that a session keeps, or kept a moment ago, read it with its
// next renewal.
func (s *Store) call(ctx context.Context, in session.ID) error {
	if in == (session.ID{}) {
		return nil
	}
	return s.sessions.Call(ctx, in) //mutant:pg-break-calls-nobody
}
