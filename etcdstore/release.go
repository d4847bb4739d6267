package etcdstore

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	m := s.hold(h.ID)
	defer s.done(m)
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err := s.release(ctx, &h, m)
	if err != nil {
		err = s.failed(fmt.Sprintf("release %q", h.Name), err)
	}
	return err
}

// abreast is how many releases of one call are under way at a time.
const abreast = 64

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, abreast, func(i int) { out[i] = s.Release(ctx, holds[i]) })
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
	case state == gone && !left || token != h.Token: //mutant:etcd-release-cannot-asked-again
		return store.ErrLost
	case m.keep > store.Now().Sub(m.since):
		return s.releaseKept(ctx, h, m)
	}
	was, err := s.remove(ctx, m)
	if err != nil { //mutant:etcd-given-back-sure-left
		s.mu.Lock()
		defer s.mu.Unlock()
		m.left = true
		s.dropSoon(m)
		return err
	}
	return s.released(m, was)
}

// released notes that the key of a claim is gone, and says whether that was this
// release's doing.
func (s *Store) released(m *mine, was bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was {
		s.spare(m)
	}
	s.dropped(m)
	s.forget(m)
	if !was {
		return store.ErrLost
	}
	return nil
}

// withdraw deletes whatever the claim has.
func (s *Store) withdraw(ctx context.Context, m *mine) error {
	s.mu.Lock()
	m.unrun = true
	s.mu.Unlock()
	was, err := s.remove(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.dropSoon(m)
		return err
	}
	if was {
		s.spare(m)
	}
	s.dropped(m)
	if m.keep > 0 {
		s.lose(m) // it may be in the way still, and is gone for its owner
	} else {
		s.forget(m)
	}
	return nil
}

// dropSoon has what a claim has deleted, as that was not heard to have been
// done: it is tried again until it was, or the session is over. s.mu is held.
func (s *Store) dropSoon(m *mine) {
	s.lose(m)
	m.drop, m.ends = true, store.Now().Add(time.Second) //mutant:etcd-withdrawal-tried-once
	s.poke()
}

// remove deletes the key of a claim of ours, unless another process has adopted
// it, and says whether it was there.
func (s *Store) remove(ctx context.Context, m *mine) (was bool, err error) {
	s.mu.Lock()
	var lease clientv3.LeaseID
	if m.sess != nil {
		lease = m.sess.lease
	}
	ops := []clientv3.Op{clientv3.OpDelete(m.key)}
	if m.unrun && m.keep > 0 {
		ops = append(ops, clientv3.OpDelete(keepKey(m.key))) // no minimum hold is kept
	}
	s.mu.Unlock()
	when := clientv3.Compare(clientv3.LeaseValue(m.key), "=", lease)
	for range attempts {
		t, err := s.client.Txn(ctx).If(when).Then(ops...).Else(clientv3.OpGet(m.key)).Commit()
		switch {
		case err != nil:
			s.mu.Lock()
			m.late = true
			s.mu.Unlock()
			return false, err
		case t.Succeeded:
			return t.Responses[0].GetResponseDeleteRange().Deleted > 0, nil
		case len(kvsOf(t.Responses[0])) == 0:
			return false, nil
		}
		r, _, err := s.parseRow(m.name, kvsOf(t.Responses[0])[0])
		if err != nil || r.id != m.id {
			return false, err
		}
		// It was broken, and is ours still.
		when = clientv3.Compare(clientv3.ModRevision(m.key), "=", r.modified)
	}
	return false, errRaced
}

// releaseUnknown is of an id that this process has not asked for, as far as it
// knows.
func (s *Store) releaseUnknown(ctx context.Context, h *store.Hold) error {
	v, err := s.look(ctx, h.Name)
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
	// The key may have been given to another claim since.
	ops := []clientv3.Op{clientv3.OpDelete(r.key)}
	if h.Token == 0 && r.hasKeep {
		ops = append(ops, clientv3.OpDelete(keepKey(r.key))) // nobody ran
	}
	t, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(r.key), "=", r.created)).Then(ops...).Commit() //mutant:etcd-another-process-deletes-seen
	if err == nil && !t.Succeeded && h.Token != 0 {
		err = store.ErrLost
	}
	return err
}

// releaseKept gives back a hold whose minimum is not over: that stays.
func (s *Store) releaseKept(ctx context.Context, h *store.Hold, m *mine) error {
	for range attempts {
		v, err := s.look(ctx, m.name)
		if err != nil {
			return err
		}
		r := v.find(h.ID)
		if r == nil {
			return s.released(m, false)
		}
		r.tell(v, m.token, h)
		if end := m.token + int64(m.n) - 1; m.token <= h.Used && h.Used < end {
			r.N = int(h.Used - m.token + 1) // the rest was not used
		}
		if r.Token == 0 {
			r.Token = m.token // a key of its own has another revision
		}
		ops := []clientv3.Op{clientv3.OpDelete(r.key)}
		when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.key), "=", r.modified)}
		left := m.keep - store.Now().Sub(m.since)
		switch {
		case r.Break != "" || left <= 0: // a break ends it
		case r.hasKeep:
			when = append(when, clientv3.Compare(clientv3.CreateRevision(keepKey(r.key)), ">", 0))
			ops = append(ops, clientv3.OpPut(keepKey(r.key), r.keepValue(left), clientv3.WithIgnoreLease()))
		case !r.Shown:
			op, err := s.keepOp(ctx, r, left)
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		t, err := s.client.Txn(ctx).If(when...).Then(ops...).Commit()
		if err != nil {
			return err
		}
		if t.Succeeded {
			s.mu.Lock()
			s.dropped(m)
			s.lose(m) // it is in the way, and gone for its owner
			s.mu.Unlock()
			return nil
		}
	}
	return errRaced
}
