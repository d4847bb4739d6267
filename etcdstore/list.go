package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// listPage is how many keys are asked for at once.
const listPage = 2000

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		what := "list the names"
		from, to := s.prefix+"n/", s.prefix+"n0"
		if name != "" {
			if err := store.CheckName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
			what = fmt.Sprintf("look at %q", name)
			from, to = s.keys(name), after(s.keys(name))
		}
		f, err := s.base(ctx)
		if err != nil {
			yield(store.State{Name: name}, s.failed(what, err))
			return
		}
		l := lister{s: s, left: map[int64]time.Duration{}}
		var part string // what encodes the name whose keys are being collected
		var kvs []*mvccpb.KeyValue
		var rev int64
		for more := true; more; {
			// All pages are of one revision.
			r, err := s.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(listPage), clientv3.WithRev(rev))
			if err != nil {
				yield(store.State{Name: name}, s.failed(what, err))
				return
			}
			rev = cmp.Or(rev, r.Header.Revision)
			for _, kv := range r.Kvs {
				encoded, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), s.prefix+"n/"), "/")
				if encoded != part && len(kvs) > 0 {
					if !l.show(ctx, part, kvs, rev, f.base, yield) {
						return
					}
					kvs = nil
				}
				part, kvs = encoded, append(kvs, kv)
				from = string(kv.Key) + "\x00"
			}
			more = r.More
		}
		if len(kvs) > 0 {
			l.show(ctx, part, kvs, rev, f.base, yield)
		}
	}
}

// A lister asks for what is left of a lease once.
type lister struct {
	s    *Store
	left map[int64]time.Duration
}

var nameUnescape = strings.NewReplacer("%25", "%", "%2F", "/")

// show yields the state of one name, and says whether to go on.
func (l *lister) show(ctx context.Context, part string, kvs []*mvccpb.KeyValue, rev, base int64, yield func(store.State, error) bool) bool {
	st := store.State{Name: nameUnescape.Replace(part)}
	if nameEscape.Replace(st.Name) != part || st.Name == "" {
		return yield(store.State{Name: part}, fmt.Errorf("%w: no name has the key %q on %s: it is not of holdfast", store.ErrCorrupt, kvs[0].Key, l.s.address))
	}
	v, err := l.s.parse(st.Name, kvs, rev, base)
	if err != nil {
		return yield(st, err)
	}
	st.Limit, st.Last = v.limit(), v.last()
	for i := range v.rows {
		r := &v.rows[i]
		left, err := l.lasts(ctx, r.lease)
		if err != nil {
			return yield(st, l.s.failed(fmt.Sprintf("look at %q", st.Name), err))
		}
		if left >= 0 {
			st.Entries = append(st.Entries, v.show(r, left))
		}
	}
	return len(st.Entries) == 0 || yield(st, nil)
}

// lasts is how long a lease lasts; below 0: it is over, and its keys are being
// deleted.
func (l *lister) lasts(ctx context.Context, id int64) (time.Duration, error) {
	if left, known := l.left[id]; known {
		return left, nil
	}
	r, err := l.s.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0, err
	}
	l.left[id] = time.Duration(r.TTL) * time.Second
	if r.TTL == 0 { // it is cut to whole seconds
		l.left[id] = time.Millisecond
	}
	return l.left[id], nil
}

// known reports whether the row is a hold that may have this token. One that
// waited for its grant has a token of a later revision, which is stored after a
// second; until then each is taken for it.
func (v *view) known(r *row, token int64) bool {
	e := v.show(r, time.Second)
	return e.Has(token) || r.granted && r.Token == 0 && token >= e.Token+maxBlock
}

// BreakHold implements [store.Inspector]: a hold that was broken is kept by a
// lease of its own from then on, for one TTL at most.
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err := s.breakHold(ctx, &b)
	if err != nil {
		err = s.failed(fmt.Sprintf("break %q", b.Name), err)
	}
	return err
}

func (s *Store) breakHold(ctx context.Context, b *store.Break) error {
	for range attempts {
		v, err := s.look(ctx, b.Name)
		if err != nil {
			return err
		}
		var r *row
		for i := range v.rows {
			if v.rows[i].id == b.ID {
				r = &v.rows[i]
			}
		}
		if r == nil || !v.known(r, b.Token) {
			return store.ErrLost
		}
		ops := []clientv3.Op{clientv3.OpDelete(r.key)}
		if !b.Now && !r.kept {
			lease, err := s.lease(ctx, time.Duration(r.TTL)*time.Second)
			if err != nil {
				return err
			}
			r.Break = cmp.Or(b.Reason, "no reason given")
			if !r.upgraded { // nobody could be told of the upgrade
				r.Want, r.UpTo = 0, 0
			}
			ops = []clientv3.Op{clientv3.OpPut(r.key, r.value.String(), clientv3.WithLease(lease))}
		}
		if !r.kept {
			ops = append(ops, clientv3.OpDelete(keepKey(r.key)))
		}
		t, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(r.key), "=", r.modified)).Then(ops...).Commit()
		if err != nil || t.Succeeded {
			return err
		}
	}
	return errRaced
}
