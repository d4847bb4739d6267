package natsstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// longestCall bounds one operation: a server that hangs answers none. All
// operations may be repeated. Tests replace it.
var longestCall = 2 * time.Second

// longestTask bounds what the store does of its own accord, again and again.
const longestTask = 2 * time.Second

// bound is a context for one operation.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, longestCall)
}

// errSessionOver says that NATS has ended a session.
var errSessionOver = errors.New("the session is over")

// A session keeps claims of this process: a key with a TTL. What is in it is
// guarded by Store.mu, but for id and ttl, which do not change, and for what only
// the renewal under way has.
type session struct {
	id      string
	ttl     time.Duration
	renewed store.Instant // when the last renewal that was answered had been sent
	dead    bool
	keeps   int           // claims of mine that are in it
	flight  *flight       // the renewal under way
	again   store.Instant // after a renewal that failed: not before
	failed  int           // renewals since the last that was answered
	begun   bool
	ready   chan struct{} // closed when it has its key, or never will
	err     error         // why it never will

	seq     uint64 // of the key's newest message, as far as we know
	count   int    // of the writes
	unclear bool   // one was not answered
}

// A flight is a renewal of a session under way; many wait for it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

type storedSession struct {
	form
	TTL    int64 `json:"ttl,omitempty"` // in seconds
	Count  int   `json:"count,omitempty"`
	Closed bool  `json:"closed,omitempty"` // whatever it kept is gone
}

func (v storedSession) bytes() []byte {
	v.V = version
	b, err := json.Marshal(&v)
	if err != nil {
		panic(err) // numbers
	}
	return b
}

func sessionKey(id string) string { return "s." + id }

// over is when the session is over for sure as far as we know.
func (sess *session) over() store.Instant { return sess.renewed.Add(sess.ttl) }

// open is all sessions that may have a key. s.mu is held.
func (s *Store) open() []*session {
	all := slices.Collect(maps.Keys(s.retired))
	for _, sess := range s.sessions {
		if sess.begun {
			all = append(all, sess)
		}
	}
	return all
}

// whole is the TTL in what NATS counts in.
func whole(ttl time.Duration) time.Duration {
	return (ttl + time.Second - 1) / time.Second * time.Second //mutant:nats-ttl-rounded-down
}

// session returns the present session for the TTL, and begins one if there is
// none.
func (s *Store) session(ctx context.Context, ttl time.Duration) (*session, error) {
	sess := s.warm(ttl)
	select {
	case <-sess.ready:
		return sess, sess.err
	case <-ctx.Done():
		return nil, s.unread(ctx.Err()) // nothing of a claim was sent
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func newSession(ttl time.Duration) *session {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return &session{id: hex.EncodeToString(id), ttl: whole(ttl), ready: make(chan struct{})}
}

// warm is the present session for the TTL, which may not be ready yet.
func (s *Store) warm(ttl time.Duration) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[whole(ttl)]
	if sess != nil && sess.begun && (sess.dead || store.Now() >= sess.over()) {
		s.died(sess)
		sess = nil
	}
	if sess == nil {
		sess = newSession(ttl)
		s.sessions[sess.ttl] = sess
		s.tasks.Go(func() { s.begin(sess) })
	}
	return sess
}

// begin makes the key of a new session. One whose making was not answered is
// never used, and ends with its TTL.
func (s *Store) begin(sess *session) {
	ctx, cancel := context.WithTimeout(s.ctx, longestCall)
	defer cancel()
	sent := store.Now()
	err := s.makeKey(ctx, sess)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.err = err; err != nil {
		if s.sessions[sess.ttl] == sess {
			delete(s.sessions, sess.ttl)
		}
	} else {
		sess.begun, sess.renewed = true, sent
		if !s.tending {
			s.tending = true
			s.sweepAt = firstSweep()
			s.tasks.Go(s.tend)
		}
		s.poke()
	}
	close(sess.ready)
}

func (s *Store) makeKey(ctx context.Context, sess *session) error {
	seq, ok, err := s.put(ctx, sessionKey(sess.id), storedSession{TTL: int64(sess.ttl / time.Second)}.bytes(), 0, sess.ttl)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the key of a new session is in use", store.ErrUnavailable)
	}
	sess.seq = seq
	return err
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
		ctx, cancel := context.WithTimeout(s.ctx, min(max(sess.ttl/6, time.Second/2), longestTask))
		defer cancel()
		sent, err := s.renewKey(ctx, sess)
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.flight = nil
		switch f.err = err; {
		case err == nil:
			sess.renewed, sess.failed = sent, 0 //mutant:nats-session-counts-answer
		case errors.Is(err, errSessionOver):
			s.died(sess) //mutant:nats-hold-outlives-session
		default:
			sess.failed++
			pause := min(sess.ttl/12, (20*time.Millisecond)<<min(sess.failed, 6))
			sess.again = store.Now().Add(pause/2 + mathrand.N(pause))
		}
		close(f.done)
		s.poke()
	})
	return f
}

// renewKey writes the key of a session again, if it still is as we have written
// it, and tells when it was sent. After a write that was not answered that has to
// be looked up: it may have been done.
func (s *Store) renewKey(ctx context.Context, sess *session) (sent store.Instant, err error) {
	for range 2 {
		sess.count++
		sent = store.Now()
		value := storedSession{TTL: int64(sess.ttl / time.Second), Count: sess.count}
		seq, ok, err := s.put(ctx, sessionKey(sess.id), value.bytes(), sess.seq, sess.ttl)
		switch {
		case err != nil:
			sess.unclear = true
			return sent, err
		case ok:
			sess.seq, sess.unclear = seq, false
			return sent, nil
		case !sess.unclear: //mutant:nats-renewal-answered-lost
			return sent, errSessionOver //mutant:nats-session-over-renewed
		}
		v, m, err := s.lookAtSession(ctx, sess.id)
		if err != nil {
			return sent, err
		}
		if m.data == nil || v.Closed {
			return sent, errSessionOver
		}
		sess.seq = m.seq
	}
	return sent, errSessionOver
}

func (s *Store) lookAtSession(ctx context.Context, id string) (v storedSession, m message, err error) {
	m, err = s.get(ctx, sessionKey(id))
	if err == nil && m.data != nil {
		err = s.parse(m.data, &v, &v.form, "session "+id+" in "+s.address)
	}
	return v, m, err
}

// closeKey writes that a session is over, if the newest of its key is still the
// expected message. No renewal can be written after it.
func (s *Store) closeKey(ctx context.Context, id string, expected uint64) (ok bool, err error) {
	_, ok, err = s.put(ctx, sessionKey(id), storedSession{Closed: true}.bytes(), expected, markers)
	return ok, err
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
			m.drop, m.ends = true, store.Now()
		}
	}
	// By our clock it is over; NATS may not think so yet.
	s.retired[sess] = true
	s.poke()
}

// shut ends a session that is over by our clock. What cannot be reached ends
// with its TTL.
func (s *Store) shut(sess *session) {
	ctx, cancel := context.WithTimeout(s.ctx, longestTask)
	defer cancel()
	v, m, err := s.lookAtSession(ctx, sess.id)
	ok := err == nil && (m.data == nil || v.Closed)
	if err == nil && !ok {
		ok, _ = s.closeKey(ctx, sess.id, m.seq) // what fails is tried again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.flight = nil
	if ok || store.Now() > sess.over().Add(2*sess.ttl) {
		delete(s.retired, sess)
	} else {
		sess.again = store.Now().Add(time.Second)
	}
	s.poke()
}

// settleSessions finds out of each session that keeps an entry whether it is over:
// what it kept has expired then. With write set it closes its key first, so that a
// reading that was stale ends nothing. With cached set it asks nothing that it has
// been told a while ago.
func (s *Store) settleSessions(ctx context.Context, r *record, cached, write bool) error {
	left := map[string]time.Duration{} // at most 0: it is over
	var unknown []string
	s.mu.Lock()
	now := store.Now()
	own := map[string]*session{}
	for _, sess := range s.open() {
		own[sess.id] = sess
	}
	for i := range r.q.Entries {
		e := &r.q.Entries[i]
		id := r.lives[e.ID]
		if _, done := left[id]; done || e.Expires <= r.now.Clock {
			continue
		}
		sess := own[id]
		_, over := s.over[id]
		switch {
		case over:
			left[id] = 0
		case sess != nil && !sess.dead:
			left[id] = max(sess.over().Sub(now), time.Millisecond)
		case cached && s.alive[id] > now:
			left[id] = s.alive[id].Sub(now)
		default:
			left[id] = -1
			unknown = append(unknown, id)
		}
	}
	s.mu.Unlock()
	if err := s.askSessions(ctx, unknown, left, write); err != nil {
		return err
	}
	for i := range r.q.Entries {
		e := &r.q.Entries[i]
		if d, known := left[r.lives[e.ID]]; known && e.Expires > r.now.Clock {
			e.Expires = r.now.Clock + max(d.Microseconds(), 0)
		}
	}
	return nil
}

// abreast is how many questions are on their way at once: a thousand renewals are
// done in time on a link that takes 50 ms, too.
const abreast = 64

// askSessions asks NATS about sessions.
func (s *Store) askSessions(ctx context.Context, ids []string, left map[string]time.Duration, write bool) (failed error) {
	if len(ids) == 0 {
		return nil
	}
	b, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, abreast)
	for _, id := range ids {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			lasts, err := s.lasts(ctx, b, id, write)
			mu.Lock()
			defer mu.Unlock()
			if left[id] = lasts; err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	return failed
}

// soon is how long a session lasts at least of which we know no more.
const soon = 50 * time.Millisecond

// lasts is how long a session of another lasts at least; 0: it is over.
func (s *Store) lasts(ctx context.Context, b *bucket, id string, write bool) (time.Duration, error) {
	for range 2 {
		v, m, err := s.lookAtSession(ctx, id)
		if err != nil {
			return soon, err
		}
		if m.data != nil && !v.Closed {
			ttl := time.Duration(v.TTL) * time.Second
			age := max(time.Duration(b.now().Clock-m.at.UnixMicro())*time.Microsecond, 0)
			left := max(ttl-age, soon)
			s.mu.Lock()
			s.alive[id] = store.Now().Add(left)
			s.mu.Unlock()
			return left, nil
		}
		ok := v.Closed || !write
		if !ok {
			if ok, err = s.closeKey(ctx, id, m.seq); err != nil { //mutant:nats-session-closed-before-entries
				return soon, err
			}
		}
		if ok {
			s.mu.Lock()
			delete(s.alive, id)
			if v.Closed || write {
				s.over[id] = store.Now()
			}
			s.mu.Unlock()
			return 0, nil
		}
	}
	return soon, nil
}
