package session

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// longest bounds a request that no caller bounds by its own context. Tests replace
// it.
var longest = 4 * time.Second

// A Set is the sessions of one process on one server. Its methods are safe for
// concurrent use.
type Set struct {
	b      Backend
	traits Traits
	ended  func() // called, with mu held, when a session of this process is found to have ended

	ctx   context.Context // of all that outlives a call, ended by Close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	wake  chan struct{} // something may be due
	tends bool

	mu      sync.Mutex
	present map[time.Duration]*Session // by TTL: the session that new claims go into
	own     map[ID]*Session            // all of this process that the server may consider alive
	trip    time.Duration              // how long a renewal takes, averaged over the recent ones
	server  int64                      // which server answered last, by Replaceable; 0: unknown
	others  others
	trusts  time.Duration // how long a session of another process is assumed alive
	watches map[ID]*watch
}

// NewSet returns a Set without sessions. ended is called when a session of this process
// is found to have ended or was not renewed in time. It must not block, nor take a
// lock or call the Set.
func NewSet(b Backend, ended func()) *Set {
	s := &Set{
		b: b, traits: b.SessionTraits(), ended: ended, wake: make(chan struct{}, 1),
		present: map[time.Duration]*Session{}, own: map[ID]*Session{}, watches: map[ID]*watch{}, trusts: trusted,
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// A Session is a session of this process. Unexported fields are guarded by Set.mu, except
// those that do not change once it has begun.
type Session struct {
	ID  ID            // its name on the server
	TTL time.Duration // a multiple of the tick

	set     *Set
	lasts   time.Duration // how long it lasts from the sending of an answered renewal
	renewed store.Instant // when the last answered renewal was sent
	calls   int64
	claims  int           // how many claims it keeps
	used    store.Instant // when claims last was above 0
	dead    bool
	ending  bool          // End is under way, or was answered
	suspect bool          // its server was replaced, or it cannot be renewed while others can
	heard   store.Instant // when the server last confirmed it
	flight  *Flight       // the renewal under way
	again   store.Instant // after a failure: no attempt before this
	failed  int           // unanswered renewals since the last answered one
	silent  store.Instant // when the first of those was sent
	spare   *Session      // takes over if this session alone cannot be renewed
	joins   uint64        // the last number that Number returned
	ready   chan struct{} // closed when it has begun, or never will
	err     error         // why it has not begun
}

// A Flight is a renewal under way; many wait for it.
type Flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// NewID returns a random ID.
func NewID() (id ID) {
	rand.Read(id[:]) // never fails
	return id
}

// Ticks is the TTL as the server counts: rounded up to a multiple of the tick, and at
// least MinTTL.
func (t *Traits) Ticks(ttl time.Duration) time.Duration {
	return max((ttl+t.Tick-1)/t.Tick*t.Tick, t.MinTTL) //mutant:session-ttl-rounded-down
}

// Present returns the present session for a TTL, and begins one if there is
// none. The claim that goes into it calls Enter.
func (s *Set) Present(ctx context.Context, ttl time.Duration) (*Session, error) {
	sess := s.warm(s.traits.Ticks(ttl))
	select {
	case <-sess.ready:
		return sess, sess.err
	default:
	}
	select {
	case <-sess.ready:
		return sess, sess.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// Begun returns the present session for a TTL, or nil if it has not begun. It does no
// I/O.
func (s *Set) Begun(ttl time.Duration) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.present[s.traits.Ticks(ttl)]
	if sess == nil || s.own[sess.ID] != sess || s.over(sess) {
		return nil
	}
	return sess
}

func (s *Set) warm(ttl time.Duration) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.present[ttl]
	if sess != nil && s.own[sess.ID] == sess && s.over(sess) {
		sess = nil
	}
	if sess == nil {
		sess = s.another(ttl)
		s.present[ttl] = sess
	}
	sess.used = store.Now() // so that it does not end before the claim has entered
	return sess
}

// another begins one more session. Set.mu is held.
func (s *Set) another(ttl time.Duration) *Session {
	sess := &Session{ID: NewID(), TTL: ttl, set: s, ready: make(chan struct{})}
	s.tasks.Go(func() { s.begin(sess) })
	return sess
}

// begin begins a session. One whose Begin was not answered is never used, and ends
// with its TTL.
func (s *Set) begin(sess *Session) {
	ctx, cancel := context.WithTimeout(s.ctx, longest)
	defer cancel()
	sent := store.Now()
	lasts, err := s.b.Begin(ctx, sess.ID, sess.TTL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.err = err; err != nil {
		if s.present[sess.TTL] == sess {
			delete(s.present, sess.TTL)
		}
	} else {
		sess.lasts, sess.renewed, sess.used, sess.heard = lasts, sent, sent, store.Now()
		s.own[sess.ID] = sess
		s.met()
		if !s.tends {
			s.tends = true
			s.tasks.Go(func() { Tend(s.ctx, s.wake, 5*time.Millisecond, s.due) })
		}
		s.poke()
	}
	close(sess.ready)
}

// Own returns the session of this process that has the ID and may be alive, or nil.
func (s *Set) Own(id ID) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[id]
}

// end is when the session will certainly have ended, as far as this process
// knows. Set.mu is held.
func (sess *Session) end() store.Instant { return sess.renewed.Add(sess.lasts) }

// over reports whether the session has ended, by the server's answer or by this
// process's clock. Once it has reported so, the session has ended for all that it
// keeps (law 2): every later call returns the same. Set.mu is held.
func (s *Set) over(sess *Session) bool {
	if !sess.dead && store.Now() >= sess.end() { //mutant:session-over-by-our-clock
		s.died(sess)
	}
	return sess.dead
}

// died notes that a session has ended. Set.mu is held.
func (s *Set) died(sess *Session) {
	if sess.dead {
		return
	}
	sess.dead = true
	if s.present[sess.TTL] == sess {
		delete(s.present, sess.TTL)
	}
	s.ended()
	s.poke()
}

// met notes which server has answered. If it is not the same server as before, its state of our sessions may be
// old: released entries may be back, and granted ones missing. This process cannot tell which. So each session
// is suspect from then on: nothing new goes into it; the entries that this process knows to be in it are written
// into the present one, or found to be lost; then it ends, with all unknown entries (law 15). Set.mu is held.
func (s *Set) met() {
	r, ok := s.b.(Replaceable)
	if !ok {
		return
	}
	was := s.server
	if s.server = r.Server(); was == 0 || was == s.server {
		return
	}
	for _, sess := range s.own {
		s.suspects(sess) //mutant:session-of-a-replaced-server
	}
}

func (s *Set) suspects(sess *Session) {
	sess.suspect = true
	if s.present[sess.TTL] == sess {
		delete(s.present, sess.TTL) //mutant:session-suspect-takes-more
	}
}

// A State is the state of a session of this process.
type State struct {
	Renewed store.Instant // when its last answered renewal was sent: what it keeps lasts from then
	Lasts   time.Duration // for how long
	Calls   int64         // the calls of the session that the server had done before that renewal
	Failing bool          // a renewal since was not answered
	Suspect bool          // its server was replaced, or others can be renewed and it cannot: what it keeps has to go into the present session
	Over    bool          // it has ended
}

// State returns the state of the session, as this process knows it. It does no I/O.
func (sess *Session) State() State {
	s := sess.set
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.over(sess)
	return State{sess.renewed, sess.lasts, sess.calls, sess.failed > 0, sess.suspect, over}
}

// Wait waits for the renewal, if there is one, and returns the state of the session then.
// A failed renewal is no error: the one before counts.
func (sess *Session) Wait(ctx context.Context, f *Flight) State {
	if f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
		}
	}
	return sess.State()
}

// Over reports whether the session has ended, as far as this process knows.
func (sess *Session) Over() bool {
	sess.set.mu.Lock()
	defer sess.set.mu.Unlock()
	return sess.set.over(sess)
}

// Use reports whether the session lives. If so, the session is not ended as unused before the claim that is about to go
// into it can have entered.
func (sess *Session) Use() bool {
	s := sess.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over(sess) || sess.ending {
		return false
	}
	sess.used = store.Now()
	return true
}

// Enter counts a claim that the session keeps; Leave ends that.
func (sess *Session) Enter() { sess.count(1) }

// Leave ends what Enter began.
func (sess *Session) Leave() { sess.count(-1) }

func (sess *Session) count(n int) {
	s := sess.set
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.claims += n
	sess.used = store.Now()
}

// Number returns a number larger than any that it returned before.
func (sess *Session) Number() uint64 {
	s := sess.set
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.joins++
	return sess.joins
}

// Call calls any session.
func (s *Set) Call(ctx context.Context, id ID) error {
	if err := s.b.Call(ctx, id); err != nil {
		return err
	}
	if sess := s.Own(id); sess != nil { // what we send from now on depends on the counter as it is now
		RenewAll(ctx, map[*Session]bool{sess: true}) //mutant:session-call-is-known
	}
	return nil
}

// Close ends the sessions, and with them all that they keep.
func (s *Set) Close(ctx context.Context) {
	s.mu.Lock()
	s.stop() // from now on no caller starts a goroutine
	s.mu.Unlock()
	s.tasks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var ending sync.WaitGroup
	for id, sess := range s.own {
		sess.dead = true
		ending.Go(func() { _ = s.b.End(ctx, id) }) // what cannot be ended now ends with its TTL
	}
	ending.Wait()
	clear(s.own)
	clear(s.present)
}

// poke has due work checked again. It may be called with Set.mu held.
func (s *Set) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// IDs returns the sessions of this process that the server may consider alive.
func (s *Set) IDs() []ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.own))
}
