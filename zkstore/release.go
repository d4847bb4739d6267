package zkstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	m := s.hold(h.ID)
	defer s.done(m)
	ctx, cancel := bound(ctx)
	defer cancel()
	err := s.release(ctx, &h, m)
	if err != nil {
		err = s.failed(fmt.Sprintf("release %q", h.Name), err)
	}
	return err
}

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, inFlight, func(i int) { out[i] = s.Release(ctx, holds[i]) })
	return out
}

func (s *Store) release(ctx context.Context, h *store.Hold, m *mine) error {
	if m == nil {
		return s.releaseUnknown(ctx, h)
	}
	s.mu.Lock()
	state, drop, left, token := m.state, m.drop, m.left, m.token
	s.mu.Unlock()
	switch {
	case h.Token == 0 && state == gone && !drop:
		return nil
	case h.Token == 0:
		return s.withdraw(ctx, m)
	case state == gone && !left || token != h.Token:
		return store.ErrLost
	}
	was, err := s.remove(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil: //mutant:zk-release-unanswered
		m.left = true
		s.dropSoon(m)
		return err
	case !was:
		err = store.ErrLost
	}
	s.dropped(m)
	s.forget(m)
	return err
}

// withdraw deletes whatever the claim has.
func (s *Store) withdraw(ctx context.Context, m *mine) error {
	_, err := s.remove(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && m.sess != nil && !m.sess.dead {
		s.dropSoon(m)
		return err
	}
	s.dropped(m)
	s.forget(m)
	return nil
}

// dropSoon has what a claim has deleted, as that was not heard to have been done: it
// is tried again until it was, or the session is over. s.mu is held.
func (s *Store) dropSoon(m *mine) {
	s.lose(m)
	m.drop, m.ends = true, store.Now()
	s.poke()
}

// remove deletes the node of a claim of ours, with what belongs to it, and says
// whether it was there. All of its requests go the same way, one after the other: what was
// sent before has been done.
func (s *Store) remove(ctx context.Context, m *mine) (was bool, err error) {
	if err := s.settled(ctx, m); err != nil {
		return false, err
	}
	s.mu.Lock()
	sess, path, unclear, upgrade := m.sess, m.path, m.unclear, m.turn > 0
	s.mu.Unlock()
	if sess == nil {
		return false, nil
	}
	if path != "" && !unclear && !upgrade {
		return s.removed(s.run(ctx, m, func() error { return sess.conn.Delete(path, -1) }))
	}
	for range attempts {
		v, err := s.look(ctx, sess, m.name)
		if err != nil {
			return was, err
		}
		var ops []any
		for _, rows := range [][]row{v.rows, v.extra} {
			for i := range rows {
				if r := &rows[i]; r.id == m.id {
					ops = append(ops, s.without(r)...)
				}
			}
		}
		if len(ops) == 0 {
			return was, nil
		}
		some, err := s.removed(s.run(ctx, m, func() error {
			_, err := sess.conn.Multi(ops...)
			return err
		}))
		if err != nil || some {
			return some, err
		}
	}
	return was, errRaced
}

func (s *Store) removed(err error) (was bool, _ error) {
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// without deletes a row and its upgrade.
func (s *Store) without(r *row) []any {
	ops := []any{&zk.DeleteRequest{Path: r.path, Version: -1}}
	if r.upgrading() {
		ops = append(ops, &zk.DeleteRequest{Path: r.marker, Version: -1})
	}
	return ops
}

// releaseUnknown is of an id that this process has not asked for, as far as it
// knows.
func (s *Store) releaseUnknown(ctx context.Context, h *store.Hold) error {
	sess, err := s.anySession(ctx)
	if err != nil {
		return err
	}
	v, err := s.lookNow(ctx, sess, h.Name)
	if err != nil {
		return err
	}
	r := v.find(h.ID)
	if r == nil || h.Token != 0 && !r.granted {
		if h.Token == 0 {
			return nil
		}
		return store.ErrLost
	}
	_, err = s.await(ctx, func() error {
		_, err := sess.conn.Multi(s.without(r)...)
		return err
	})
	if was, err := s.removed(err); err != nil || was || h.Token == 0 {
		return err
	}
	return store.ErrLost
}
