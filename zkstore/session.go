package zkstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// longestCall bounds one operation, and longestStart the beginning of a session,
// which may have to look for a member that answers. Tests replace them.
var (
	longestCall  = 4 * time.Second
	longestStart = 5 * time.Second
)

// longestRenewal bounds the renewal of a session: a member that has not answered it by
// then is left for another.
const longestRenewal = 4 * time.Second

// inspecting is the TTL of a session that is there only to look.
const inspecting = 10 * time.Second

// bound is a context for one operation.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, longestCall)
}

// A session is one of ZooKeeper's that keeps claims of this process, and the
// connection that it has. What is in it is guarded by Store.mu, but for what is set
// before others see it.
type session struct {
	ttl    time.Duration // of its claims
	conn   *zk.Conn
	events <-chan zk.Event // closed when the driver has ended
	wire   *wire
	node   string        // is written to, to renew it
	grants time.Duration // the timeout that the server has granted
	lasts  time.Duration // for how long an answered write shows that it is there

	renewed store.Instant // when the last write that was answered had been sent
	dead    bool
	keeps   int           // claims of mine that are in it
	flight  *flight       // the renewal under way
	again   store.Instant // after a renewal that failed: not before
	failed  int           // renewals since the last that was answered
	ready   chan struct{} // closed when it is there, or never will be
	begun   bool          // it is there
	err     error         // why it never will

	late     []lateAsk     // that may yet be done
	search   store.Instant // when to search for them next
	searches bool          // one is under way
}

// A flight is a renewal of a session under way; many wait for it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// over is when the session may be over, for all we know.
func (sess *session) over() store.Instant { return sess.renewed.Add(sess.lasts) }

// close ends the session, and returns when nothing of it runs any more.
func (sess *session) close() {
	sess.conn.Close()
	sess.wire.cut()
	for range sess.events {
	}
}

// open is all sessions that have begun. s.mu is held.
func (s *Store) open() []*session {
	all := slices.Collect(maps.Keys(s.retired))
	for _, sess := range s.sessions {
		if sess.begun {
			all = append(all, sess)
		}
	}
	return all
}

// session returns the present session for the TTL, and begins one if there is
// none.
func (s *Store) session(ctx context.Context, ttl time.Duration) (*session, error) {
	sess := s.warm(ttl)
	if err := s.hasBegun(ctx, sess); err != nil {
		return nil, err
	}
	switch {
	case sess.grants > sess.ttl: //mutant:zk-session-too-long
		return nil, fmt.Errorf("%w: a TTL of %v: the least that %s grants is %v (two of its ticks, or its minSessionTimeout)", store.ErrInvalid, ttl, s.address, sess.grants)
	case sess.grants < asks(sess.ttl):
		return nil, fmt.Errorf("%w: a TTL of %v: the most that %s grants is %v (twenty of its ticks, or its maxSessionTimeout)", store.ErrInvalid, ttl, s.address, sess.grants)
	}
	return sess, nil
}

// anySession is for who only looks: one that is there, whatever it grants.
func (s *Store) anySession(ctx context.Context) (*session, error) {
	s.mu.Lock()
	var sess *session
	for _, one := range s.open() {
		if !one.dead && !s.retired[one] && (sess == nil || one.renewed > sess.renewed) {
			sess = one
		}
	}
	s.mu.Unlock()
	if sess == nil {
		sess = s.warm(inspecting)
	}
	return sess, s.hasBegun(ctx, sess)
}

func (s *Store) hasBegun(ctx context.Context, sess *session) error {
	select {
	case <-sess.ready:
		return sess.err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func wholeMS(ttl time.Duration) time.Duration {
	return (ttl + time.Millisecond - 1) / time.Millisecond * time.Millisecond
}

// asks is the timeout that is asked for, so that what a crashed process held is free within
// the TTL and a second. A session ends at the first tick of the server after its timeout: a tick
// late at the most. The tick is not told, but it is 2 s by default, and half the least timeout:
// what of it may be more than a second is asked for less.
func asks(ttl time.Duration) time.Duration {
	return wholeMS(ttl - min(max(ttl/2-time.Second, 0), time.Second)) //mutant:zk-less-asked-than-ttl
}

// counts is for how much of its timeout a session can be counted on after a write that
// was answered. A member tells the leader of whom it has heard every half tick; if
// it dies before, the leader counts from then. No timeout is shorter than two ticks.
func counts(timeout time.Duration) time.Duration { return timeout * 3 / 4 } //mutant:zk-timeout-that-counts

// warm is the present session for the TTL, which may not be ready yet.
func (s *Store) warm(ttl time.Duration) *session {
	ttl = wholeMS(ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[ttl]
	if sess != nil && sess.begun && (sess.dead || store.Now() >= sess.over()) {
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

// begin connects for a new session.
func (s *Store) begin(sess *session) {
	ctx, cancel := context.WithTimeout(s.ctx, longestStart)
	defer cancel()
	sent, err := s.start(ctx, sess)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && sess.dead { // it was over before anybody had it
		s.tasks.Go(sess.close)
		err = errEnded
	}
	if sess.err = err; err != nil {
		if s.sessions[sess.ttl] == sess {
			delete(s.sessions, sess.ttl)
		}
	} else {
		sess.begun, sess.renewed = true, sent
		if !s.tending {
			s.tending = true
			s.tasks.Go(s.tend)
		}
		s.poke()
	}
	close(sess.ready)
}

// start connects, and makes the node of the session: the first write.
func (s *Store) start(ctx context.Context, sess *session) (sent store.Instant, err error) {
	sess.wire = &wire{s: s}
	sess.node = s.path + "/s/" + store.NewProcess().String()
	sess.conn, sess.events, err = s.connect( /*mutant:zk-timeout-asked-for*/ asks(sess.ttl), sess.wire, func(e zk.Event) { s.event(sess, e) })
	if err != nil {
		return 0, err
	}
	done := make(chan store.Instant, 1)
	_, err = s.await(ctx, func() error {
		for _, a := range s.o.Auth { //mutant:zk-session-authenticates
			if err := sess.conn.AddAuth(a.Scheme, []byte(a.Secret)); err != nil {
				return err
			}
		}
		for range attempts {
			sent := store.Now()
			_, err := sess.conn.Create(sess.node, nil, zk.FlagEphemeral, s.o.ACL)
			if err == nil {
				done <- sent
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			if err := s.makePath(sess.conn, s.path+"/s", zk.FlagPersistent); err != nil {
				return err
			}
		}
		return errRaced
	})
	if err != nil {
		s.tasks.Go(sess.close)
		return 0, err
	}
	sess.grants = sess.wire.timeout() //mutant:zk-session-grants
	sess.lasts = counts(sess.grants)
	return <-done, nil
}

// makePath makes a node and those above it that are not there. A container that
// others delete when it is empty may be made again.
func (s *Store) makePath(conn *zk.Conn, path string, kind int32) (err error) {
	for range attempts {
		_, err = conn.Create(path, nil, kind, s.o.ACL) // of a container, too: see wire.outgoing
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || parent(path) == "":
			return err
		}
		if err := s.makePath(conn, parent(path), zk.FlagPersistent); err != nil {
			return err
		}
	}
	return err
}

// event is told by the driver of all that happens. It does not block.
func (s *Store) event(sess *session, e zk.Event) {
	sess.wire.heard(e)
	switch {
	case e.State == zk.StateExpired:
		sess.wire.expire()
		s.mu.Lock()
		defer s.mu.Unlock()
		if sess.begun {
			s.died(sess)
		}
		sess.dead = true
	case e.State == zk.StateDisconnected:
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.mine {
			if m.sess == sess {
				m.read = false // nothing is heard now
			}
		}
	case e.Type == zk.EventNodeDataChanged || e.Type == zk.EventNodeDeleted:
		s.mu.Lock()
		defer s.mu.Unlock()
		if m := s.paths[e.Path]; m != nil && m.sess == sess {
			m.read = false
		}
	}
}

// fresh returns a renewal to wait for, or nil if the session was renewed a
// moment ago.
func (s *Store) fresh(sess *session) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.flight == nil && store.Now() < sess.renewed.Add(sess.lasts/10) {
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
		ctx, cancel := context.WithTimeout(s.ctx, min(max(sess.lasts/4, time.Second/2), longestRenewal))
		defer cancel()
		sent := store.Now()
		_, err := s.await(ctx, func() error {
			_, err := sess.conn.Set(sess.node, nil, -1) //mutant:zk-renewal-writes
			return err
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.flight = nil
		switch f.err = err; {
		case err == nil:
			s.answered(sess, sent)
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrSessionExpired):
			f.err = store.ErrLost
			s.died(sess)
		default:
			if errors.Is(err, context.DeadlineExceeded) {
				sess.wire.drop() //mutant:zk-silent-member-dropped
			}
			sess.failed++
			pause := min(sess.lasts/12, (20*time.Millisecond)<<min(sess.failed, 6))
			sess.again = store.Now().Add(pause/2 + rand.N(pause))
		}
		close(f.done)
		s.poke()
	})
	return f
}

// answered notes that a write in the session was answered: it was there when that was
// sent. s.mu is held.
func (s *Store) answered(sess *session, sent store.Instant) {
	if !sess.dead {
		sess.renewed, sess.failed = max(sess.renewed, sent), 0
	}
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
	// By our clock it is over; ZooKeeper may not think so yet.
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
		case sess.dead || s.retired[sess] && sess.keeps == 0: //mutant:zk-retired-session-ends
			sess.dead = true
			sess.flight = &flight{}
			s.tasks.Go(func() {
				sess.close()
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.retired, sess)
			})
		case now >= sess.over():
			s.died(sess)
			next = now
		default:
			at(sess.over())
			if len(sess.late) > 0 && !sess.searches && at(sess.search) { //mutant:zk-late-asks-searched
				sess.searches = true
				s.tasks.Go(func() { s.searchLate(sess) })
			}
			if at(max(sess.renewed.Add(sess.lasts/3), sess.again)) {
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
