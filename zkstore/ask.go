package zkstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// attempts is how often what ZooKeeper says that it did not do is tried.
const attempts = 4

var errRaced = errors.New("others changed the name each time before we could")

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.hold(c.ID)
	if m == nil {
		m = &mine{name: c.Name, id: c.ID, limit: c.Limit, asked: c.Weight, n: min(c.Tokens(), maxBlock), ends: store.Now().Add(c.TTL)}
		s.add(m)
	}
	defer s.done(m)
	ctx, cancel := bound(ctx)
	defer cancel()
	a, err := s.ask(ctx, &c, m)
	if err == store.ErrLost {
		s.leaveNothing(m)
	}
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
	}
	return a, nil
}

func (s *Store) ask(ctx context.Context, c *store.Claim, m *mine) (store.Answer, error) {
	if err := s.settled(ctx, m); err != nil {
		return store.Answer{}, err
	}
	s.mu.Lock()
	state, sess := m.state, m.sess
	s.mu.Unlock()
	switch state {
	case asked:
		return s.append(ctx, c, m)
	case gone:
		return store.Answer{}, store.ErrLost
	}
	f := s.fresh(sess)
	reading := make(chan error, 1)
	s.tasks.Go(func() { reading <- s.own(ctx, m) })
	v, err := s.look(ctx, sess, c.Name)
	if own := <-reading; own != nil {
		err = own
	} else if err == nil {
		err = s.own(ctx, m) // what was heard by this look
	}
	if err == nil {
		err = s.landed(ctx, f)
	}
	if err != nil {
		return store.Answer{}, err
	}
	return s.answer(ctx, c, m, v)
}

// landed waits for the renewal of a session. That it failed is no error: the
// answer tells from when the session counts. That the session is over is one.
func (s *Store) landed(ctx context.Context, f *flight) error {
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.err == store.ErrLost {
		return f.err
	}
	return nil
}

// append makes the node of a new claim and lists the name, without waiting between them;
// for a try it looks first, and where a node was made before, or may have been.
func (s *Store) append(ctx context.Context, c *store.Claim, m *mine) (store.Answer, error) {
	val := value{Owner: c.Owner, TTL: millis(c.TTL), Asked: time.Now().UnixMicro()}
	if m.n > 1 {
		val.N = m.n
	}
	for range attempts {
		s.mu.Lock()
		sess, unclear := m.sess, m.unclear
		made := m.path != "" //mutant:zk-node-made-once
		s.mu.Unlock()
		if !unclear && !made {
			var err error
			if sess, err = s.session(ctx, c.TTL); err != nil {
				return s.noAnswer(m, err)
			}
			s.mu.Lock()
			lost := m.state == gone // its session ended meanwhile //mutant:zk-lost-asked-in-next
			if !lost {
				m.into(sess)
			}
			s.mu.Unlock()
			if lost {
				// What it made in the next one would be given back by nobody.
				return s.noAnswer(m, store.ErrLost)
			}
		}
		if c.Try || unclear || made {
			v, err := s.look(ctx, sess, c.Name)
			if err != nil {
				return s.noAnswer(m, err)
			}
			if own := v.find(c.ID); own != nil && !usedUp(own.seq) { // the answer was lost
				s.placed(m, own.path)
				return s.stands(ctx, c, m, sess, v)
			}
			if made && !unclear { // somebody has deleted it
				s.lost(m)
				return store.Answer{}, store.ErrLost
			}
			if have := v.limit(); have != 0 && have != c.Limit {
				return s.noAnswer(m, &store.MismatchError{Have: have, Want: c.Limit})
			}
			if c.Try && !v.room(c.Limit, c.Weight) {
				a, err := s.holders(ctx, sess, v, nil)
				if err == errStale {
					continue
				}
				_, err = s.noAnswer(m, err)
				return a, err
			}
		}
		v, err := s.put(ctx, c, m, sess, &val)
		switch {
		case errors.Is(err, zk.ErrSessionExpired):
			s.mu.Lock()
			known := m.state == gone // by another operation, or a renewal
			m.into(nil)
			m.unclear = false // nothing that was asked in it can be there, or come
			s.unplaced(m)
			s.died(sess)
			s.mu.Unlock()
			if known {
				return store.Answer{}, store.ErrLost
			}
			continue
		case err == errRaced, err != nil && m.path == "" && store.Definite(s.failed("", err)): // nothing was made
			return s.noAnswer(m, err)
		case err != nil:
			s.mu.Lock()
			m.unclear = true
			s.mu.Unlock()
			return store.Answer{}, err
		}
		own := v.find(c.ID)
		if own != nil && usedUp(own.seq) {
			if err := s.recount(ctx, m, sess); err != nil {
				return store.Answer{}, err
			}
			continue
		}
		if own == nil && v.limit() != 0 && v.limit() != c.Limit {
			if err := s.withdraw(ctx, m); err != nil {
				return store.Answer{}, err
			}
			return store.Answer{}, &store.MismatchError{Have: v.limit(), Want: c.Limit}
		}
		return s.stands(ctx, c, m, sess, v)
	}
	return s.noAnswer(m, errRaced)
}

// stands answers how a claim stands whose node was made. That of a try which is not granted
// is taken back.
func (s *Store) stands(ctx context.Context, c *store.Claim, m *mine, sess *session, v *view) (store.Answer, error) {
	own := v.find(c.ID)
	if own == nil || !c.Try || own.granted && !v.frozen { //mutant:zk-refused-try-goes
		return s.answer(ctx, c, m, v)
	}
	if err := s.withdraw(ctx, m); err != nil {
		return store.Answer{}, err
	}
	a, err := s.holders(ctx, sess, v, own)
	if err == errStale { // they have gone
		err = nil
	}
	return a, err
}

// put makes the node, and lists the name after it.
func (s *Store) put(ctx context.Context, c *store.Claim, m *mine, sess *session, val *value) (*view, error) {
	dir := s.nameNode(c.Name)
	path := dir + "/" + entryNode(c.Limit, c.Weight, c.ID)
	type answer struct {
		children []string
		stat     *zk.Stat
		err      error
	}
	for range attempts {
		sent := store.Now()
		listed := make(chan answer, 1)
		made := make(chan string, 1)
		err := s.run(ctx, m, func() error {
			// Both are sent, in this order as a rule, before either is answered.
			s.tasks.Go(func() {
				runtime.Gosched()
				children, stat, err := sess.conn.Children(dir)
				listed <- answer{children, stat, err}
			})
			full, err := sess.conn.Create(path, val.bytes(), zk.FlagEphemeralSequential, s.o.ACL)
			made <- full
			if errors.Is(err, zk.ErrNoNode) {
				if err := s.makePath(sess.conn, dir, zk.FlagContainer); err != nil { //mutant:zk-name-is-container
					return err
				}
			}
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue // it was made, or deleted between
		}
		if err != nil {
			return nil, err
		}
		full := <-made
		s.placed(m, full)
		s.mu.Lock()
		s.answered(sess, sent)
		s.mu.Unlock()
		select {
		case l := <-listed:
			if l.err == nil {
				v, err := s.parse(dir, l.children, l.stat.Pzxid)
				if err != nil {
					s.gone(ctx, m)
					return nil, err
				}
				if v.has(full) {
					return v, nil
				}
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		v, err := s.look(ctx, sess, c.Name) // it was listed before it was made
		if err != nil && store.Definite(err) {
			s.gone(ctx, m)
		}
		return v, err
	}
	return nil, errRaced
}

// gone takes back what was made in vain.
func (s *Store) gone(ctx context.Context, m *mine) {
	if s.withdraw(ctx, m) == nil {
		m.path = ""
	}
}

// has reports whether the node is among those that were listed.
func (v *view) has(path string) bool {
	for _, rows := range [][]row{v.rows, v.extra} {
		for i := range rows {
			if rows[i].path == path {
				return true
			}
		}
	}
	return false
}

// noAnswer ends an ask that has left nothing in the store.
func (s *Store) noAnswer(m *mine, err error) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.unclear && m.path == "" {
		s.forget(m)
	}
	return store.Answer{}, err
}

// answer reads from the state of the name how a claim of ours stands.
func (s *Store) answer(ctx context.Context, c *store.Claim, m *mine, v *view) (store.Answer, error) {
	r := v.find(c.ID)
	if r == nil {
		s.lost(m)
		return store.Answer{}, store.ErrLost
	}
	for i := range v.extra { // an ask that slipped in late
		if x := &v.extra[i]; x.id == c.ID {
			sess := m.sess
			if err := s.run(ctx, m, func() error { return sess.conn.Delete(x.path, -1) }); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return store.Answer{}, err
			}
		}
	}
	s.mu.Lock()
	state, sess, broken := m.state, m.sess, m.value.Break
	s.mu.Unlock()
	if broken != "" {
		return store.Answer{}, &store.LostError{Reason: broken}
	}
	if !r.granted || v.frozen && state != held {
		r.granted = false
		s.mu.Lock()
		if m.state == asked {
			m.state = placed
		}
		m.ends = max(m.ends, store.Now().Add(c.Place))
		s.watchFor(m, v, r)
		s.mu.Unlock()
		a, err := s.holders(ctx, sess, v, r)
		if err == errStale {
			if v, err = s.look(ctx, sess, c.Name); err == nil {
				return s.answer(ctx, c, m, v)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if m.state == gone { // by our clock, meanwhile //mutant:zk-lost-waits-on
			return store.Answer{}, store.ErrLost
		}
		return a, err
	}
	if err := s.draw(ctx, m, v, r); err != nil {
		return store.Answer{}, err
	}
	if err := s.fence(ctx, m, v, r); err != nil {
		return store.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone { // by our clock, meanwhile
		return store.Answer{}, store.ErrLost
	}
	m.ends = max(m.ends, store.Now().Add(c.TTL))
	if r.upgrading() && !r.upgraded {
		s.watchFor(m, v, r)
	}
	a := store.Answer{
		Granted: true, Token: m.token, N: m.n, TTL: min(c.TTL, m.sess.lasts), From: m.sess.renewed,
		Weight: r.weight, Want: r.wants(), Fence: m.fence,
	}
	a.Last = max(v.last(), a.Token+int64(a.N)-1, a.Fence)
	return a, nil
}

// draw notes that the owner is told of a grant, with a token of this look: who
// was in the way had gone, and had seen itself at an earlier transaction. Those who
// are in together may have looked at the same one, and differ by their rank.
func (s *Store) draw(ctx context.Context, m *mine, v *view, r *row) error {
	s.mu.Lock()
	token := m.token
	s.mu.Unlock()
	known := token != 0
	if !known && r.asked < r.limit { // else the node alone does not tell
		if err := s.own(ctx, m); err != nil {
			return err
		}
	}
	switch rank := v.rank(r); {
	case known:
	case r.asked == r.limit, v.rev == m.created:
		token = v.rev * maxBlock //mutant:zk-token-of-look
	case rank+1 < maxBlock: //mutant:zk-tokens-of-a-transaction
		token = v.rev*maxBlock + rank + 1 //mutant:zk-token-of-rank
	default: // too many at this transaction: one of its own
		rev, err := s.rewrite(ctx, m, func(*value) {})
		if err != nil {
			return err
		}
		token = rev * maxBlock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone {
		return store.ErrLost
	}
	if !known {
		m.unwatch() // it waits no more; an upgrade does
		m.token = token
		m.tell = store.Now().Add(tellAfter)
		if r.asked < r.limit {
			m.n = 1
		}
	}
	m.state = held
	return nil
}
