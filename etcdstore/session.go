package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// longestCall bounds one operation. A member that hangs answers none, and keeps
// its connection until gRPC has missed it, for more than ten seconds; the next
// attempt goes to another member. All operations may be repeated.
const longestCall = 2 * time.Second

// bound is a context for one operation.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.longest)
}

// A session is a lease of etcd's that keeps claims of this process. What is in
// it is guarded by Store.mu, but for lease and ttl, which are set before others
// see it.
type session struct {
	ttl     time.Duration
	lease   clientv3.LeaseID
	renewed store.Instant // when the last renewal that was answered had been sent
	dead    bool
	keeps   int           // claims of mine that are in it
	flight  *flight       // the renewal under way
	again   store.Instant // after a renewal that failed: not before
	failed  int           // renewals since the last that was answered
	ready   chan struct{} // closed when it has its lease, or never will
	err     error         // why it never will

	late     []lateAsk     // that may yet arrive
	search   store.Instant // when to search for them next
	searches bool          // one is under way
}

// A flight is a renewal of a session under way; many wait for it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// over is when the session is over for sure as far as we know.
func (sess *session) over() store.Instant { return sess.renewed.Add(sess.ttl) }

// open is all sessions that may have a lease. s.mu is held.
func (s *Store) open() []*session {
	all := slices.Collect(maps.Keys(s.retired))
	for _, sess := range s.sessions {
		if sess.lease != 0 {
			all = append(all, sess)
		}
	}
	return all
}

// whole is the TTL in what etcd counts in.
func whole(ttl time.Duration) time.Duration {
	return (ttl + time.Second - 1) / time.Second * time.Second
}

// session returns the present session for the TTL, and begins one if there is
// none.
func (s *Store) session(ctx context.Context, ttl time.Duration) (*session, error) {
	sess := s.warm(ttl)
	select {
	case <-sess.ready:
		return sess, sess.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// warm is the present session for the TTL, which may not be ready yet.
func (s *Store) warm(ttl time.Duration) *session {
	ttl = whole(ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[ttl]
	if sess != nil && sess.lease != 0 && (sess.dead || store.Now() >= sess.over()) {
		s.died(sess)
		sess = nil
	}
	if sess == nil {
		sess = &session{ttl: ttl, ready: make(chan struct{})}
		s.sessions[ttl] = sess
		s.tasks.Go(func() { s.begin(sess) })
	}
	return sess
}

// begin grants the lease of a new session.
func (s *Store) begin(sess *session) {
	ctx, cancel := s.bound(s.ctx)
	defer cancel()
	sent := store.Now()
	lease, err := s.lease(ctx, sess.ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.err = err; err != nil {
		if s.sessions[sess.ttl] == sess {
			delete(s.sessions, sess.ttl)
		}
	} else {
		sess.lease, sess.renewed = lease, sent //mutant:etcd-new-session-counts-answer
		if !s.tending {
			s.tending = true
			s.tasks.Go(s.tend)
		}
		s.poke()
	}
	close(sess.ready)
}

// lease grants a lease of exactly this TTL.
func (s *Store) lease(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	r, err := s.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, err
	}
	if granted := time.Duration(r.TTL) * time.Second; granted != ttl { //mutant:etcd-another-ttl-asked-taken
		_, _ = s.client.Revoke(ctx, r.ID) // else it ends by itself
		return 0, fmt.Errorf("%w: a TTL of %v: %s grants %v; the least that it grants is one and a half of its election timeout", store.ErrInvalid, ttl, s.address, granted)
	}
	return r.ID, nil
}

// fresh returns a renewal to wait for, or nil if the session was renewed a
// moment ago.
func (s *Store) fresh(sess *session) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.flight == nil && store.Now() < sess.renewed.Add(sess.ttl/10) {
		return nil
	}
	return s.renew(sess)
}

// renew begins to renew the session, or joins who does. s.mu is held.
func (s *Store) renew(sess *session) *flight {
	if sess.flight != nil {
		return sess.flight
	}
	f := &flight{done: make(chan struct{})}
	sess.flight = f
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, min(max(sess.ttl/6, time.Second/2), s.longest))
		defer cancel()
		sent := store.Now()
		err := s.keepAlive(ctx, sess.lease)
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.flight = nil
		switch f.err = err; {
		case err == nil:
			sess.renewed, sess.failed = sent, 0 //mutant:etcd-session-counts-answer
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.died(sess)
		default:
			sess.failed++
			pause := min(sess.ttl/12, (20*time.Millisecond)<<min(sess.failed, 6))
			sess.again = store.Now().Add(pause/2 + rand.N(pause))
		}
		close(f.done)
		s.poke()
	})
	return f
}

// keepAlive renews a lease by one question and one answer. The client's own
// KeepAliveOnce asks again without a pause while there is no connection.
func (s *Store) keepAlive(ctx context.Context, id clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(s.client.ActiveConnection()).LeaseKeepAlive(clientv3.WithRequireLeader(ctx))
	if err != nil {
		return rpctypes.Error(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return rpctypes.Error(err)
	}
	r, err := stream.Recv()
	if err != nil {
		return rpctypes.Error(err)
	}
	_ = stream.CloseSend()
	if r.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

// died notes that the session is over: all that was in it is lost. s.mu is held.
func (s *Store) died(sess *session) {
	if sess.dead {
		return
	}
	sess.dead = true
	if s.sessions[sess.ttl] == sess {
		delete(s.sessions, sess.ttl)
	}
	for _, m := range s.mine {
		if m.sess == sess && m.state != gone {
			s.lose(m)
		}
	}
	// By our clock it is over; etcd may not think so yet.
	s.retired[sess] = true
	s.poke()
}

// retire has new claims begin with another session; this one ends with what
// it keeps. s.mu is held.
func (s *Store) retire(sess *session) {
	if s.sessions[sess.ttl] == sess {
		delete(s.sessions, sess.ttl)
	}
	s.retired[sess] = true
	s.poke()
}

// revoke ends sessions that keep nothing any more. What cannot be reached ends
// with its TTL.
func (s *Store) revoke(sess *session) {
	ctx, cancel := s.bound(s.ctx)
	defer cancel()
	_, err := s.client.Revoke(ctx, sess.lease)
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.flight = nil
	if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) || store.Now() > sess.over().Add(2*sess.ttl) {
		delete(s.retired, sess)
	} else {
		sess.again = store.Now().Add(time.Second)
	}
	s.poke()
}

// poke has what is due looked at anew. It may be called with s.mu held.
func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tend renews the sessions and deletes what was not renewed, until Close.
func (s *Store) tend() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		// Not more often than this, however much there is to do.
		next := s.due(store.Now())
		timer.Reset(max(next.Sub(store.Now()), 20*time.Millisecond))
	}
}

// due begins what is due, and returns when to look again at the latest. A timer
// stands still while the machine is suspended, so that is soon.
func (s *Store) due(now store.Instant) (next store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = now.Add(time.Second)
	at := func(when store.Instant) bool {
		if when > now {
			next = min(next, when)
		}
		return when <= now
	}
	for _, sess := range s.open() {
		switch {
		case sess.flight != nil:
		case sess.dead || s.retired[sess] && sess.keeps == 0:
			if at(sess.again) {
				sess.flight = &flight{}
				s.tasks.Go(func() { s.revoke(sess) })
			}
		case now >= sess.over():
			s.died(sess)
			next = now
		default:
			at(sess.over())
			if len(sess.late) > 0 && !sess.searches && at(sess.search) { //mutant:etcd-nobody-searches-late-asks
				sess.searches = true
				s.tasks.Go(func() { s.searchLate(sess) })
			}
			if at(max(sess.renewed.Add(sess.ttl/3), sess.again)) {
				s.renew(sess)
			}
		}
	}
	for _, m := range s.mine {
		switch {
		case m.busy > 0:
		case at(m.ends):
			s.overdue(m)
		case m.tell != 0 && m.state == held && at(m.tell):
			s.told(m)
		}
	}
	return next
}
