package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		what := "list the names"
		if name != "" {
			if err := store.CheckName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
			what = fmt.Sprintf("look at %q", name)
		}
		sess, err := s.anySession(ctx)
		if err != nil {
			yield(store.State{Name: name}, s.failed(what, err))
			return
		}
		names := []string{escape(name)}
		if name == "" {
			if names, err = s.names(ctx, sess); err != nil {
				yield(store.State{}, s.failed(what, err))
				return
			}
		}
		for _, node := range names {
			if !s.showName(ctx, sess, node, name != "", yield) {
				return
			}
		}
	}
}

// names lists the nodes of all names.
func (s *Store) names(ctx context.Context, sess *session) ([]string, error) {
	got := make(chan []string, 1)
	_, err := s.await(ctx, func() error {
		if _, err := sess.conn.Sync(s.path + "/n"); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		names, _, err := sess.conn.Children(s.path + "/n")
		if errors.Is(err, zk.ErrNoNode) {
			names, err = nil, nil
		}
		got <- names
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-got, nil
}

// showName yields the state of one name, and says whether to go on.
func (s *Store) showName(ctx context.Context, sess *session, node string, now bool, yield func(store.State, error) bool) bool {
	name, ok := unescape(node)
	if !ok {
		return yield(store.State{Name: node}, s.foreign(s.path+"/n/"+node))
	}
	st := store.State{Name: name}
	v, err := s.looking(ctx, sess, name, now)
	if err != nil {
		return yield(st, s.failed(fmt.Sprintf("look at %q", name), err))
	}
	rows := make([]*row, len(v.rows))
	for i := range rows {
		rows[i] = &v.rows[i]
	}
	if err := s.fetch(ctx, sess, rows); err != nil {
		return yield(st, s.failed(fmt.Sprintf("look at %q", name), err))
	}
	for _, r := range rows {
		if !r.gone {
			st.Entries = append(st.Entries, r.show())
		}
	}
	st.Limit, st.Last = v.limit(), v.last()
	return len(st.Entries) == 0 || yield(st, nil)
}

// known reports whether the row is a hold that may have this token. One that
// waited for its grant has a token of a later transaction, which is stored after a
// second; until then each is taken for it.
func known(r *row, token int64) bool {
	e := r.show()
	return e.Has(token) || r.granted && r.Token == 0 && token > e.Token
}

// BreakHold implements [store.Inspector]: what was broken is marked, and goes with its
// owner, or with his session.
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	err := s.breakHold(ctx, &b)
	if err != nil {
		err = s.failed(fmt.Sprintf("break %q", b.Name), err)
	}
	return err
}

func (s *Store) breakHold(ctx context.Context, b *store.Break) error {
	sess, err := s.anySession(ctx)
	if err != nil {
		return err
	}
	for range attempts {
		v, err := s.lookNow(ctx, sess, b.Name)
		if err != nil {
			return err
		}
		r := v.find(b.ID)
		if r == nil {
			return store.ErrLost
		}
		if err := s.fetch(ctx, sess, []*row{r}); err != nil {
			return err
		}
		if r.gone || !known(r, b.Token) {
			return store.ErrLost
		}
		ops := s.without(r)
		if !b.Now {
			r.Break = cmp.Or(b.Reason, "no reason given")
			ops[0] = &zk.SetDataRequest{Path: r.path, Data: r.value.bytes(), Version: r.stored}
			if r.upgraded { // its owner may have been told
				ops = ops[:1]
			}
		}
		_, err = s.await(ctx, func() error {
			_, err := sess.conn.Multi(ops...)
			return err
		})
		if err == nil || !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return errRaced
}
