package etcdstore

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(h.Name, turn, weight); err != nil {
		return store.Answer{}, err
	}
	ctx, cancel := s.bound(ctx)
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
	s.mu.Lock()
	state, token := m.state, m.token
	s.mu.Unlock()
	if state != held || token != h.Token {
		return store.Answer{}, store.ErrLost
	}
	for range 2 * attempts {
		v, err := s.look(ctx, h.Name)
		if err != nil {
			return store.Answer{}, err
		}
		r := v.find(h.ID)
		switch {
		case r == nil:
			s.lost(m)
			return store.Answer{}, store.ErrLost
		case r.Break != "":
			return store.Answer{}, &store.LostError{Reason: r.Break}
		case r.limit != store.Full || r.asked != store.Upgradeable:
			return store.Answer{}, store.NotUpgradeableError(h.Name)
		}
		if turn > r.Turn {
			// What it then looks like is looked at anew.
			if err = s.turn(ctx, m, v, r, turn, weight); err == nil {
				continue
			}
		} else if r.upgraded && !r.Drawn {
			err = s.fence(ctx, m, v, r)
		}
		if errors.Is(err, errRaced) {
			continue
		}
		if err != nil {
			return store.Answer{}, err
		}
		return s.changed(m, v, r, weight), nil
	}
	return store.Answer{}, errRaced
}

// turn stores a change that is new. An upgrade is only stored if nobody was
// added since the look, and the first who waits is there still: so those who are
// in are those who were seen to be.
func (s *Store) turn(ctx context.Context, m *mine, v *view, r *row, turn int32, weight int64) error {
	keys := s.keysOf(r)
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.key), "=", r.modified)}
	next := r.value
	next.Turn = turn
	switch {
	case weight == store.Upgradeable:
		next.Want, next.UpTo, next.Drawn = 0, 0, false
	case r.UpTo == 0:
		next.Want, next.UpTo, next.Drawn = store.Full, v.rows[v.wait-1].created, false
		if v.rows[v.wait-1].kept { // no entry is granted: it cannot be
			return errRaced
		}
		when = append(when, clientv3.Compare(clientv3.ModRevision(keys), "<", v.rev+1).WithRange(after(keys)))
		if v.wait < len(v.rows) {
			first := v.rows[v.wait]
			when = append(when, clientv3.Compare(clientv3.CreateRevision(first.key), "=", first.created))
		}
	}
	ops := []clientv3.Op{clientv3.OpPut(r.key, next.String(), clientv3.WithIgnoreLease())}
	if r.hasKeep && r.upgraded && weight == store.Upgradeable {
		back := *r
		back.upgraded = false
		ops = append(ops, clientv3.OpPut(keepKey(r.key), back.keepAgain(), clientv3.WithIgnoreLease()))
	}
	t, err := s.client.Txn(ctx).If(when...).Then(ops...).Commit()
	if err != nil {
		return err
	}
	if !t.Succeeded {
		return errRaced
	}
	return nil
}

// fence draws the number of an upgrade that has room, and stores it before its
// owner is told.
func (s *Store) fence(ctx context.Context, _ *mine, v *view, r *row) error {
	r.Fence, r.Drawn = v.base+v.rev*maxBlock, true
	var also []clientv3.Op
	if r.hasKeep {
		also = append(also, clientv3.OpPut(keepKey(r.key), r.keepAgain(), clientv3.WithIgnoreLease()))
	}
	_, err := s.rewrite(ctx, r, nil, also...)
	return err
}

// changed answers how the hold stands.
func (s *Store) changed(m *mine, v *view, r *row, weight int64) store.Answer {
	a := store.Answer{Granted: true, Last: v.last()}
	if r.weight != weight {
		a = v.refused(r)
		a.Granted, a.Waiting = false, 0
		s.mu.Lock()
		s.await(m, v, r)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Token, a.N, a.Weight, a.Want, a.Fence = m.token, m.n, r.weight, r.wants(), r.Fence
	a.Last = max(a.Last, a.Token, a.Fence)
	return a
}
