package natsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// attempts is how often a write is tried that NATS says it did not do. Each
// time another has come through.
const attempts = 24

var errRaced = errors.New("others wrote the name each time before we could")

// known is the newest message of a name that we know of. Another may have written
// since: nothing but a write that depends on it may follow from it.
type known struct {
	seq  uint64
	data []byte
}

// maxKnown is how many names are remembered.
const maxKnown = 10_000

// how an operation goes about it.
type how struct {
	evict bool // find out whether the sessions of others are over
	force bool // write even what is the same, so that no write from before can be done any more
	fresh bool // do not begin with what is known
}

// change applies f to the record of a name, and writes what has become of it,
// unless somebody has written it meanwhile. The error is f's, or the reason why
// it may not have been done.
func (s *Store) change(ctx context.Context, name string, how how, f func(*record) (queue.Change, error)) error {
	end, err := s.turns.take(ctx, name)
	if err != nil {
		return err
	}
	defer end()
	b, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	key := keyOf(name)
	s.mu.Lock()
	newest, cached := s.known[name]
	s.mu.Unlock()
	cached = cached && !how.fresh
	for range attempts {
		m := message{seq: newest.seq, data: newest.data}
		if !cached {
			if m, err = s.get(ctx, key); err != nil {
				return err
			}
		}
		r, err := s.decode(name, m, b.now())
		if err != nil {
			return err
		}
		if how.evict && !cached {
			if err := s.settleSessions(ctx, r, true, true); err != nil {
				return err
			}
		}
		change, told := f(r)
		data, err := r.encode(how.force)
		if err != nil {
			return err
		}
		if bytes.Equal(data, r.data) && !how.force { //mutant:nats-ask-name-never-used-withdrawn
			if !cached { //mutant:nats-remembered-answered
				s.remember(name, known{m.seq, m.data})
				return told
			}
			cached = false
			continue
		}
		ttl := store.TokenRetention
		if len(r.q.Entries) > 0 {
			ttl = 0
		}
		seq, ok, err := s.put(ctx, key, data, m.seq, ttl)
		if err != nil {
			s.unknown(name)
			return err
		}
		if ok {
			s.remember(name, known{seq, data})
			s.tell(change.Woken) //mutant:nats-granted-told-nobody
			return told
		}
		cached = false
	}
	s.unknown(name)
	return errRaced
}

func (s *Store) remember(name string, k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		for other := range s.known { // any
			delete(s.known, other)
			break
		}
	}
	s.known[name] = k
}

func (s *Store) unknown(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
}

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.hold(c.ID)
	if m == nil {
		m = &mine{name: c.Name, id: c.ID, ends: store.Now().Add(c.TTL)}
		s.add(m)
	}
	defer s.done(m)
	ctx, cancel := bound(ctx)
	defer cancel()
	a, err := s.ask(ctx, &c, m)
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
	}
	return a, nil
}

func (s *Store) ask(ctx context.Context, c *store.Claim, m *mine) (a store.Answer, err error) {
	if err := s.isGone(ctx, m); err != nil {
		return a, err
	}
	s.mu.Lock()
	sess, state := m.sess, m.state
	s.mu.Unlock()
	if sess == nil || sess.ttl < c.TTL {
		if sess, err = s.session(ctx, c.TTL); err != nil {
			s.mu.Lock()
			if state == asked && !m.unclear {
				s.leave(m)
			}
			s.mu.Unlock()
			return a, err
		}
	}
	f := s.fresh(sess)
	s.mu.Lock()
	if m.sess == nil {
		m.into(sess)
	}
	unclear := m.unclear
	m.unclear = true
	s.mu.Unlock()
	there := false
	err = s.change(ctx, c.Name, how{evict: true, fresh: unclear}, func(r *record) (change queue.Change, err error) {
		a, change, err = r.q.Ask(r.now, c.Name, c)
		if there = r.find(c.ID) != nil; there && err == nil {
			r.lives[c.ID] = sess.id
		}
		return change, err
	})
	if err != nil && !store.Definite(err) {
		return a, err
	}
	s.mu.Lock()
	m.unclear = false
	s.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrLost):
		s.lost(m, err, there)
		return a, err
	case err != nil || !there:
		s.nothing(m)
		return a, err
	}
	from, err := s.landed(ctx, sess, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone || err != nil {
		return a, store.ErrLost
	}
	if m.sess != sess {
		m.into(sess)
	}
	lasts := c.Place
	m.state = placed
	a.From = from //mutant:nats-place-counts-from-ask
	if a.Granted {
		m.state, lasts = held, c.TTL
		a.TTL = c.TTL
	}
	m.ends = max(m.ends, store.Now().Add(lasts))
	s.poke()
	return a, nil
}

// nothing notes that nothing of a claim is stored.
func (s *Store) nothing(m *mine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(m)
}

// landed waits for the renewal of a session, and tells from when it counts. That
// it failed is no error: it then counts from the one before. That the session
// is over is one.
func (s *Store) landed(ctx context.Context, sess *session, f *flight) (store.Instant, error) {
	if f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sess.dead && store.Now() >= sess.over() {
		s.died(sess)
	}
	if sess.dead {
		return 0, store.ErrLost
	}
	return sess.renewed, nil
}

// Look implements [store.Looker].
func (s *Store) Look(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	if err := checkClaim(&c); err != nil {
		return a, err
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	m := s.hold(c.ID)
	defer s.done(m)
	r, err := s.read(ctx, c.Name, true)
	if err == nil {
		err = s.isGone(ctx, m)
	}
	if err == nil {
		a, err = r.q.Look(r.now, c.Name, &c)
	}
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("look at %q", c.Name), err)
	}
	return a, nil
}

// read is the record of a name, without what has expired by its session.
func (s *Store) read(ctx context.Context, name string, cached bool) (*record, error) {
	b, err := s.prepared(ctx, false) //mutant:nats-looking-makes-bucket
	switch {
	case err != nil:
		return nil, err
	case b == nil: // nobody has written anything
		return s.decode(name, message{}, queue.At(time.Now()))
	}
	m, err := s.get(ctx, keyOf(name))
	if err != nil {
		return nil, err
	}
	r, err := s.decode(name, m, b.now())
	if err == nil {
		err = s.settleSessions(ctx, r, cached, false)
	}
	return r, err
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	if err := store.CheckChange(h.Name, turn, weight); err != nil {
		return a, err
	}
	what := fmt.Sprintf("change the weight of %q", h.Name)
	m := s.hold(h.ID)
	defer s.done(m)
	ctx, cancel := bound(ctx)
	defer cancel()
	if err := s.isGone(ctx, m); err != nil {
		return a, s.failed(what, err)
	}
	err = s.change(ctx, h.Name, how{evict: true}, func(r *record) (change queue.Change, err error) {
		a, change, err = r.q.Change(r.now, &h, turn, weight)
		return change, err
	})
	if err != nil {
		return store.Answer{}, s.failed(what, err)
	}
	return a, nil
}

// isGone is why a claim of ours is lost, or nil. Of what was broken and is in the
// way still the reason is looked up: somebody may have broken it again.
func (s *Store) isGone(ctx context.Context, m *mine) error {
	if m == nil {
		return nil
	}
	s.mu.Lock()
	state, why := m.state, m.why
	s.mu.Unlock()
	if state != gone {
		return nil
	}
	if broken := (*store.LostError)(nil); !errors.As(why, &broken) {
		return store.ErrLost
	}
	r, err := s.read(ctx, m.name, true)
	if err != nil {
		return why
	}
	if e := r.find(m.id); e != nil && e.Broken != nil {
		return &store.LostError{Reason: e.Reason()}
	}
	return store.ErrLost
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	m := s.hold(h.ID)
	defer s.done(m)
	ctx, cancel := bound(ctx)
	defer cancel()
	err := s.release(ctx, h, m)
	if err != nil {
		err = s.failed(fmt.Sprintf("release %q", h.Name), err)
	}
	return err
}

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, abreast, func(i int) { out[i] = s.Release(ctx, holds[i]) })
	return out
}

func (s *Store) release(ctx context.Context, h store.Hold, m *mine) error {
	why := s.isGone(ctx, m)
	var broken *store.LostError
	if errors.As(why, &broken) {
		why = nil // it can be given back
	}
	sent := h
	if why != nil {
		sent.Token = 0
	}
	how := how{}
	if m != nil {
		s.mu.Lock()
		how.force, how.fresh = m.unclear, m.unclear //mutant:nats-ask-withdrawn-without-write
		s.mu.Unlock()
	}
	there := false
	err := s.change(ctx, h.Name, how, func(r *record) (queue.Change, error) {
		change, err := r.q.Release(r.now, &sent)
		e := r.find(h.ID)
		there = e != nil && e.Expires > r.now.Clock
		return change, err
	})
	if m != nil {
		s.mu.Lock()
		switch unclear := err != nil && !store.Definite(err); {
		case unclear: // it is tried again until it was done, or the session is over //mutant:nats-given-back-sure-left
			s.lose(m)
			m.drop, m.ends = true, store.Now().Add(soon)
			s.poke()
		case !there:
			m.unclear = false
			s.leave(m)
		}
		s.mu.Unlock()
	}
	if err == nil && h.Token != 0 {
		return why
	}
	return err
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	err := s.change(ctx, b.Name, how{evict: true}, func(r *record) (queue.Change, error) { return r.q.Break(r.now, &b) })
	if err != nil {
		err = s.failed(fmt.Sprintf("break %q", b.Name), err)
	}
	return err
}
