package zkstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(h.Name, turn, weight); err != nil {
		return store.Answer{}, err
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	a, err := s.change(ctx, &h, turn, weight)
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("change the weight of %q", h.Name), err)
	}
	return a, nil
}

func (s *Store) change(ctx context.Context, h *store.Hold, turn int32, weight int64) (store.Answer, error) {
	m := s.hold(h.ID)
	defer s.done(m)
	if m == nil {
		return store.Answer{}, store.ErrLost
	}
	if err := s.settled(ctx, m); err != nil {
		return store.Answer{}, err
	}
	s.mu.Lock()
	state, token, sess := m.state, m.token, m.sess
	s.mu.Unlock()
	if state != held || token != h.Token {
		return store.Answer{}, store.ErrLost
	}
	if err := s.own(ctx, m); err != nil {
		return store.Answer{}, err
	}
	switch {
	case m.value.Break != "":
		return store.Answer{}, &store.LostError{Reason: m.value.Break}
	case m.limit != store.Full || m.asked != store.Upgradeable:
		return store.Answer{}, store.NotUpgradeableError(h.Name)
	case turn > m.turn:
		m.turn, m.full = turn, weight == store.Full
	}
	for range 2 * attempts {
		v, err := s.look(ctx, sess, h.Name)
		if err != nil {
			return store.Answer{}, err
		}
		if err := s.own(ctx, m); err != nil { // what was heard by this look
			return store.Answer{}, err
		}
		if m.value.Break != "" {
			return store.Answer{}, &store.LostError{Reason: m.value.Break}
		}
		r := v.find(h.ID)
		if r == nil {
			s.lost(m)
			return store.Answer{}, store.ErrLost
		}
		ops := s.step(m, v, r)
		if len(ops) == 0 {
			if err := s.fence(ctx, m, v, r); err != nil {
				return store.Answer{}, err
			}
			return s.changed(ctx, m, v, r, weight)
		}
		sent := store.Now()
		err = s.run(ctx, m, func() error {
			_, err := sess.conn.Multi(ops...)
			return err
		})
		// What is there already, or not there any more, is seen by the next look.
		if err != nil && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
			return store.Answer{}, err
		}
		if err == nil {
			s.mu.Lock()
			s.answered(sess, sent)
			s.mu.Unlock()
		}
	}
	return store.Answer{}, errRaced
}

// step is what has to be written next until the name is as the newest change
// wants it. An upgrade takes two steps: from the first nobody is granted any more, so
// that who was granted then can be read, which the second keeps.
func (s *Store) step(m *mine, v *view, r *row) []any {
	dir := s.nameNode(m.name) + "/"
	switch {
	case !m.full && r.upgrading():
		return []any{&zk.DeleteRequest{Path: r.marker, Version: -1}}
	case m.full && !r.upgrading():
		return []any{&zk.CreateRequest{Path: dir + freezeNode(m.id), Acl: s.o.ACL, Flags: zk.FlagEphemeral}}
	case m.full && r.frozen:
		return []any{
			&zk.DeleteRequest{Path: r.marker, Version: -1},
			&zk.CreateRequest{Path: dir + upToNode(m.id, v.rows[v.wait-1].seq), Acl: s.o.ACL, Flags: zk.FlagEphemeral},
		}
	}
	return nil
}

// fence draws the number of an upgrade that has room, and stores it before its
// owner is told. Whoever was in with the hold has looked at an earlier transaction
// than the one that has removed it.
func (s *Store) fence(ctx context.Context, m *mine, v *view, r *row) error {
	if !r.upgraded {
		if !r.upgrading() {
			m.drawn = false
		}
		return nil
	}
	if m.drawn {
		return nil
	}
	fence := v.rev * maxBlock
	if _, err := s.rewrite(ctx, m, func(v *value) { v.Fence = fence }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.fence, m.drawn = fence, true
	return nil
}

// changed answers how the hold stands.
func (s *Store) changed(ctx context.Context, m *mine, v *view, r *row, weight int64) (store.Answer, error) {
	a := store.Answer{Granted: true}
	if r.weight != weight {
		var err error
		if a, err = s.holders(ctx, m.sess, v, r); err != nil && err != errStale {
			return store.Answer{}, err
		}
		a.Granted, a.Waiting = false, 0
		s.mu.Lock()
		s.watchFor(m, v, r)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Token, a.N, a.Weight, a.Want, a.Fence = m.token, m.n, r.weight, r.wants(), m.fence
	a.Last = max(a.Last, a.Token+int64(a.N)-1, a.Fence)
	return a, nil
}
