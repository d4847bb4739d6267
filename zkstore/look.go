package zkstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// Look implements [store.Looker].
func (s *Store) Look(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.hold(c.ID)
	defer s.done(m)
	ctx, cancel := bound(ctx)
	defer cancel()
	a, err := s.lookFor(ctx, &c, m)
	for range attempts {
		if err == errStale {
			a, err = s.lookFor(ctx, &c, m)
		}
	}
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("look at %q", c.Name), err)
	}
	return a, nil
}

func (s *Store) lookFor(ctx context.Context, c *store.Claim, m *mine) (store.Answer, error) {
	sess, err := s.anySession(ctx)
	if err != nil {
		return store.Answer{}, err
	}
	v, err := s.lookNow(ctx, sess, c.Name)
	if err != nil {
		return store.Answer{}, err
	}
	r := v.find(c.ID)
	if r != nil {
		if err := s.fetch(ctx, sess, []*row{r}); err != nil {
			return store.Answer{}, err
		}
		if r.gone {
			r = nil
		}
	}
	var state state
	var token, fence int64
	n := 0
	if m != nil {
		s.mu.Lock()
		state, token, n, fence = m.state, m.token, m.n, m.fence
		s.mu.Unlock()
	}
	switch {
	case state == gone || state != asked && r == nil:
		return store.Answer{}, store.ErrLost
	case r != nil && r.Break != "":
		return store.Answer{}, &store.LostError{Reason: r.Break}
	case v.limit() != 0 && v.limit() != c.Limit:
		return store.Answer{}, &store.MismatchError{Have: v.limit(), Want: c.Limit}
	case r == nil && v.room(c.Limit, c.Weight):
		a := store.Answer{Granted: true, TTL: c.TTL, Weight: c.Weight, Want: c.Weight}
		return a, nil
	case r == nil || !r.granted || v.frozen && state != held:
		return s.holders(ctx, sess, v, r)
	}
	a := store.Answer{Granted: true, TTL: c.TTL, Weight: r.weight, Want: r.wants(), Fence: fence, Last: v.last()}
	if token != 0 {
		a.Token, a.N, a.Last = token, n, max(a.Last, token+int64(n)-1, fence)
	}
	return a, nil
}

// look reads the state of a name, as the member has it that the session is
// connected to: it can only lag, and what it shows is a state that there was.
func (s *Store) look(ctx context.Context, sess *session, name string) (*view, error) {
	return s.looking(ctx, sess, name, false)
}

// lookNow reads the state of a name as it is, after all that others have done.
func (s *Store) lookNow(ctx context.Context, sess *session, name string) (*view, error) {
	return s.looking(ctx, sess, name, true)
}

func (s *Store) looking(ctx context.Context, sess *session, name string, now bool) (*view, error) {
	dir := s.nameNode(name)
	type answer struct {
		children []string
		rev      int64
	}
	got := make(chan answer, 1)
	_, err := s.await(ctx, func() error {
		if now {
			if _, err := sess.conn.Sync(dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		children, stat, err := sess.conn.Children(dir)
		if errors.Is(err, zk.ErrNoNode) {
			got <- answer{}
			return nil
		}
		if err == nil {
			got <- answer{children, stat.Pzxid}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a := <-got
	return s.parse(dir, a.children, a.rev)
}

// fetch reads what is stored in rows, all at once. Those that have gone
// meanwhile are marked.
func (s *Store) fetch(ctx context.Context, sess *session, rows []*row) error {
	type got struct {
		data []byte
		stat *zk.Stat
		err  error
	}
	all := make([]got, len(rows))
	_, err := s.await(ctx, func() error {
		var reading sync.WaitGroup
		for i, r := range rows {
			if i > 0 && i%inFlight == 0 {
				reading.Wait()
			}
			reading.Go(func() { all[i].data, all[i].stat, all[i].err = sess.conn.Get(r.path) })
		}
		reading.Wait()
		return nil
	})
	if err != nil {
		return err
	}
	for i, r := range rows {
		switch err := all[i].err; {
		case errors.Is(err, zk.ErrNoNode):
			r.gone = true
		case err != nil:
			return err
		default:
			if err := s.read(r, all[i].data, all[i].stat); err != nil {
				return err
			}
		}
	}
	return nil
}

// inFlight is how many requests of one operation are under way at once.
const inFlight = 16

// errStale says that those who were in the way have gone since.
var errStale = errors.New("those in the way have gone meanwhile")

// holders is an answer that tells who is in the way of the row, or of one behind
// all.
func (s *Store) holders(ctx context.Context, sess *session, v *view, own *row) (store.Answer, error) {
	var a store.Answer
	var show []*row
	for i := range v.rows {
		r := &v.rows[i]
		if r == own {
			if !r.granted {
				break
			}
			continue
		}
		if !r.granted {
			a.Waiting++
			continue
		}
		a.Holding++
		if len(show) < store.MaxHolders {
			show = append(show, r)
		}
	}
	if err := s.fetch(ctx, sess, show); err != nil {
		return a, err
	}
	for _, r := range show {
		if r.gone {
			a.Holding--
			continue
		}
		a.Holders = append(a.Holders, r.show())
	}
	a.Last = v.last()
	if a.Holding == 0 && (own == nil || own != &v.rows[0]) {
		return a, errStale
	}
	return a, nil
}

// own reads what is stored of a claim of ours, and watches it: as long as nothing is
// heard of it, it is what was read. No answer to a write that was sent later comes
// before what is heard.
func (s *Store) own(ctx context.Context, m *mine) error {
	s.mu.Lock()
	known, sess, path := m.read, m.sess, m.path
	m.read = true // what is heard from now on undoes it
	s.mu.Unlock()
	if known {
		return nil
	}
	type got struct {
		data []byte
		stat *zk.Stat
	}
	one := make(chan got, 1)
	_, err := s.await(ctx, func() error {
		return sess.wire.asking(watched{path: path}, func() error {
			data, stat, err := sess.conn.Get(path)
			one <- got{data, stat}
			return err
		})
	})
	r := row{path: path}
	if err == nil {
		g := <-one
		err = s.read(&r, g.data, g.stat)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		m.read = false
		if errors.Is(err, zk.ErrNoNode) {
			err = store.ErrLost
			s.lose(m)
		}
		return err
	}
	m.value, m.stored, m.created = r.value, r.stored, r.created
	return nil
}

// rewrite changes what is stored of a claim of ours, and returns the transaction
// that did.
func (s *Store) rewrite(ctx context.Context, m *mine, change func(*value)) (rev int64, err error) {
	for range attempts {
		if err := s.own(ctx, m); err != nil {
			return 0, err
		}
		s.mu.Lock()
		next, stored, sess, path := m.value, m.stored, m.sess, m.path
		s.mu.Unlock()
		change(&next)
		sent := store.Now()
		done := make(chan int64, 1)
		err := s.run(ctx, m, func() error {
			stat, err := sess.conn.Set(path, next.bytes(), stored)
			if err == nil {
				done <- stat.Mzxid
			}
			return err
		})
		s.mu.Lock()
		m.read = false // what was written is read again
		if err == nil {
			s.answered(sess, sent)
		}
		s.mu.Unlock()
		switch {
		case errors.Is(err, zk.ErrBadVersion):
		case errors.Is(err, zk.ErrNoNode):
			s.lost(m)
			return 0, store.ErrLost
		case err != nil:
			return 0, err
		default:
			return <-done, nil
		}
	}
	return 0, errRaced
}
