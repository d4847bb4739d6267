package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// maxOps is how many operations etcd takes in one transaction.
const maxOps = 128

// Renew implements [store.Store]: one renewal of each session that has any of the
// holds, and beside it a reading of their keys, 128 at once. Only what its owner
// tells anew is written.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	var read []renewing
	flights := map[*session]*flight{}
	for i := range holds {
		h := &holds[i]
		out[i].TTL = h.TTL
		if out[i].Err = bounds.CheckRenewal(h); out[i].Err != nil {
			continue
		}
		if h.NewID != (store.ID{}) {
			out[i] = s.adopt(ctx, h)
			continue
		}
		m := s.hold(h.ID)
		if m == nil {
			out[i].Err = store.ErrLost
			continue
		}
		defer s.done(m)
		s.mu.Lock()
		state, sess, token := m.state, m.sess, m.token
		s.mu.Unlock()
		if state != held || token != h.Token {
			out[i].Err = store.ErrLost
			continue
		}
		if _, under := flights[sess]; !under {
			flights[sess] = s.fresh(sess)
		}
		read = append(read, renewing{m, h, &out[i], flights[sess]})
	}
	for len(read) > 0 {
		n := 0
		for seen := map[*mine]bool{}; n < min(len(read), maxOps) && !seen[read[n].m]; n++ {
			seen[read[n].m] = true // twice the same one after the other
		}
		s.renewSome(ctx, read[:n])
		read = read[n:]
	}
	for i, h := range holds {
		if err := out[i].Err; err != nil {
			out[i].Err = s.failed(fmt.Sprintf("renew %q", h.Name), err)
		}
	}
	return out
}

// A renewing is one hold on its way to being renewed.
type renewing struct {
	m *mine
	h *store.Hold
	r *store.Renewal
	f *flight
}

func (s *Store) renewSome(ctx context.Context, some []renewing) {
	fail := func(err error) {
		for _, r := range some {
			r.r.Err = err
		}
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	f, err := s.base(ctx)
	if err != nil {
		fail(err)
		return
	}
	gets := make([]clientv3.Op, len(some))
	for i, r := range some {
		gets[i] = clientv3.OpGet(r.m.key)
	}
	t, err := s.client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		fail(err)
		return
	}
	for i, r := range some {
		if r.r.Err = s.landed(ctx, r.f); r.r.Err == nil {
			r.r.Err = s.renewOne(ctx, r, t.Responses[i], &view{rev: t.Header.Revision, base: f.base})
		}
		if errors.Is(r.r.Err, store.ErrLost) && r.r.Err == store.ErrLost {
			s.lost(r.m)
		}
	}
}

// renewOne reads what is stored of a hold, and writes what is new of it.
func (s *Store) renewOne(ctx context.Context, n renewing, found *pb.ResponseOp, v *view) error {
	m, h := n.m, n.h
	for range attempts {
		kvs := kvsOf(found)
		if len(kvs) == 0 {
			return store.ErrLost
		}
		own, _, err := s.parseRow(m.name, kvs[0])
		if err != nil {
			return err
		}
		r := &own
		if r.id != h.ID { // another process has adopted it
			return store.ErrLost
		}
		if r.Break != "" {
			return &store.LostError{Reason: r.Break}
		}
		if r.UpTo > 0 { // it depends on the others
			if v, err = s.look(ctx, m.name); err != nil {
				return err
			}
			if r = v.find(h.ID); r == nil {
				return store.ErrLost
			}
			if r.upgraded && !r.Drawn {
				err = s.fence(ctx, m, v, r)
			} else if !r.upgraded {
				s.mu.Lock()
				s.await(m, v, r)
				s.mu.Unlock()
			}
		}
		if err == nil {
			err = s.tell(ctx, m, v, r, h)
		}
		if err == nil {
			err = s.lasts(ctx, m, r, h.TTL)
		}
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if m.state == gone {
				return store.ErrLost
			}
			*n.r = store.Renewal{TTL: h.TTL, From: m.sess.renewed, Weight: r.weight, Want: r.wants(), Fence: r.Fence}
			return nil
		}
		if !errors.Is(err, errRaced) {
			return err
		}
		t, err := s.client.Txn(ctx).Then(clientv3.OpGet(m.key)).Commit()
		if err != nil {
			return err
		}
		found, v.rev = t.Responses[0], t.Header.Revision
	}
	return errRaced
}

// tell writes what the owner tells of a hold, if it is new.
func (s *Store) tell(ctx context.Context, m *mine, v *view, r *row, h *store.Hold) error {
	was := r.value
	s.mu.Lock()
	token, since, keep := m.token, m.since, m.keep
	s.mu.Unlock()
	r.tell(v, token, h)
	var also []clientv3.Op
	if left := keep - store.Now().Sub(since); r.Keep > 0 && !r.Shown {
		r.Shown = true
		if left > 0 {
			r.Token = token // the minimum's own key has another revision
			op, err := s.keepOp(ctx, r, left)
			if err != nil {
				return err
			}
			also = append(also, op)
		}
	} else if r.Keep > 0 {
		// The minimum's own key, if it is still there, is what tells of the hold
		// once its session is over.
		key := keepKey(r.key)
		also = append(also, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)},
			[]clientv3.Op{clientv3.OpPut(key, r.keepAgain(), clientv3.WithIgnoreLease())}, nil))
	}
	if r.value == was {
		return nil
	}
	_, err := s.rewrite(ctx, r, nil, also...)
	return err
}

// tell notes the token, the newest that was used, and the owner.
func (r *row) tell(v *view, token int64, h *store.Hold) {
	if v.tokenOf(r) != token {
		r.Token = token
	}
	if token <= h.Used && h.Used < token+int64(max(r.N, 1)) && h.Used > max(r.Used, token) {
		r.Used = h.Used
	}
	r.Owner = cmp.Or(h.Owner, r.Owner)
}

// keepOp puts the minimum hold of a row, of which so much is left, under a
// lease of its own, so that it outlives the session.
func (s *Store) keepOp(ctx context.Context, r *row, left time.Duration) (clientv3.Op, error) {
	lease, err := s.lease(ctx, whole(left))
	if err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpPut(keepKey(r.key), r.keepValue(left), clientv3.WithLease(lease)), nil
}

// keepValue is what is stored of a minimum hold.
func (r *row) keepValue(left time.Duration) string {
	k := value{
		Owner: r.Owner, TTL: int64(whole(left) / time.Second), Asked: r.Asked, N: r.N, Token: r.Token, Used: r.Used,
		Fence: r.Fence, Full: r.upgraded, ID: r.ID,
	}
	return k.String()
}

// adopt goes on with a hold under another id, in this process's session; or, for
// an id of no process, under a lease of its own.
func (s *Store) adopt(ctx context.Context, h *store.Hold) store.Renewal {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	m := s.hold(h.ID)
	defer s.done(m)
	for range attempts {
		r, err := s.adoptOnce(ctx, h, m)
		if !errors.Is(err, errRaced) {
			r.Err = err
			return r
		}
	}
	return store.Renewal{Err: errRaced}
}

func (s *Store) adoptOnce(ctx context.Context, h *store.Hold, m *mine) (out store.Renewal, err error) {
	v, err := s.look(ctx, h.Name)
	if err != nil {
		return out, err
	}
	r := v.find(h.ID)
	done := v.find(h.NewID)
	switch {
	case h.Token == 0 || r == nil && done == nil:
		return out, store.ErrLost
	case done != nil:
		r = done // and the reply was lost
	}
	switch {
	case !r.granted || m != nil && m.token == 0:
		return out, store.ErrLost
	case r.Break != "":
		return out, &store.LostError{Reason: r.Break}
	}
	if r.upgraded && !r.Drawn {
		r.Fence, r.Drawn = v.base+v.rev*maxBlock, true
	}
	out = store.Renewal{TTL: h.TTL, Weight: r.weight, Want: r.wants(), Fence: r.Fence}
	sess := &session{ttl: whole(h.TTL), renewed: store.Now()}
	alone := h.NewID.Process() == store.Process{}
	if alone {
		sess.lease, err = s.lease(ctx, sess.ttl)
	} else {
		sess, err = s.session(ctx, h.TTL)
	}
	if err != nil {
		return out, err
	}
	r.ID, r.TTL = h.NewID.String(), int64(sess.ttl/time.Second)
	r.tell(v, h.Token, h)
	var also []clientv3.Op
	if r.Keep > 0 && !r.Shown {
		left := time.Duration(r.Keep) * time.Microsecond
		if m != nil {
			left -= store.Now().Sub(m.since)
		}
		r.Shown = true
		if left > 0 {
			r.Token = h.Token
			op, err := s.keepOp(ctx, r, left)
			if err != nil {
				return out, err
			}
			also = append(also, op)
		}
	} else if r.hasKeep {
		// Its end is that of its lease; only who has it is another.
		also = append(also, clientv3.OpPut(keepKey(r.key), r.keepAgain(), clientv3.WithIgnoreLease()))
	}
	if _, err := s.rewrite(ctx, r, sess, also...); err != nil {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m != nil {
		s.expectLate(m)
		s.forget(m)
	}
	for _, other := range s.mine { // whose it was, if he has not heard
		if other.key == r.key && other.id != h.NewID && other.state != gone {
			s.lose(other)
		}
	}
	out.From = sess.renewed
	if !alone {
		n := s.mine[h.NewID]
		if n == nil {
			n = &mine{
				name: h.Name, id: h.NewID, key: r.key, limit: r.limit, asked: r.asked, state: held,
				token: h.Token, n: max(r.N, 1), since: store.Now(), keep: time.Duration(r.Keep) * time.Microsecond,
			}
			s.mine[h.NewID] = n
		}
		n.into(sess)
		n.late = n.late || m != nil && m.unclear // the key can be put again for the old id //mutant:etcd-key-late-ask-may
		n.ends = max(n.ends, store.Now().Add(h.TTL))
		if r.UpTo > 0 && !r.upgraded {
			s.await(n, v, r)
		}
		s.poke()
	}
	return out, nil
}

// keepAgain is what is stored of a minimum hold that has its lease already.
func (r *row) keepAgain() string { return r.keepValue(time.Duration(r.Keep) * time.Microsecond) }
