package etcdstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// attempts is how often what etcd says that it did not do is tried.
const attempts = 4

var (
	errRaced = errors.New("others changed the name each time before we could")
	errOver  = fmt.Errorf("%w, as its session is over", errRaced) // another has to be begun
)

// A floor is what the key of the base holds: the version of the form, and the
// number that all tokens begin with.
type floor struct {
	text string
	base int64
}

// base returns the floor, and writes it if nobody has.
func (s *Store) base(ctx context.Context) (*floor, error) {
	s.mu.Lock()
	f := s.floor
	s.mu.Unlock()
	if f != nil {
		return f, nil
	}
	got, err := s.client.Get(ctx, s.baseKey())
	if err != nil {
		return nil, err
	}
	kvs := got.Kvs
	// The first token is the time of now, whatever this etcd has counted up to: it
	// may be made again, and count from one.
	text := fmt.Sprintf("%d:%d", version, max(0, time.Now().UnixMicro()-got.Header.Revision*maxBlock)) //mutant:etcd-no-floor
	if len(kvs) == 0 {
		r, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(s.baseKey()), "=", 0)).
			Then(clientv3.OpPut(s.baseKey(), text)).
			Else(clientv3.OpGet(s.baseKey())).Commit()
		if err != nil {
			return nil, err
		}
		if !r.Succeeded {
			kvs = r.Responses[0].GetResponseRange().Kvs
		}
	}
	if len(kvs) > 0 {
		text = string(kvs[0].Value)
	}
	have, number, _ := strings.Cut(text, ":")
	form, err1 := strconv.Atoi(have)
	base, err2 := strconv.ParseInt(number, 10, 64)
	switch {
	case err1 == nil && form > version:
		return nil, store.NewerFormError(fmt.Sprintf("key %q on %s", s.baseKey(), s.address), form, version)
	case err1 != nil || err2 != nil || form < 1 || base < 0:
		return nil, fmt.Errorf("%w: key %q on %s is not of holdfast, or is damaged: it was left alone", store.ErrCorrupt, s.baseKey(), s.address)
	}
	f = &floor{text, base}
	s.mu.Lock()
	s.floor = f
	s.mu.Unlock()
	return f, nil
}

// rebase forgets a floor that is not there any more: all data was deleted.
func (s *Store) rebase(f *floor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.floor == f {
		s.floor = nil
	}
}

// look reads the state of a name, as the majority of the members has it.
func (s *Store) look(ctx context.Context, name string) (*view, error) {
	f, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	keys := s.keys(name)
	r, err := s.client.Get(ctx, keys, clientv3.WithRange(after(keys)))
	if err != nil {
		return nil, err
	}
	return s.parse(name, r.Kvs, r.Header.Revision, f.base)
}

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.hold(c.ID)
	if m == nil {
		m = &mine{
			name: c.Name, id: c.ID, limit: c.Limit, asked: c.Weight, keep: c.Keep, n: min(c.Tokens(), maxBlock),
			key: s.spareKey(&c), ends: store.Now().Add(c.TTL),
		}
		s.add(m)
	}
	defer s.done(m)
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ctx, end := s.untilUnreachable(ctx)
	a, err := s.ask(ctx, &c, m)
	err = end(err)
	if err == store.ErrLost {
		s.leaveNothing(m)
	}
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
	}
	return a, nil
}

func (s *Store) ask(ctx context.Context, c *store.Claim, m *mine) (store.Answer, error) {
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
	v, err := s.look(ctx, c.Name)
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
	if errors.Is(f.err, rpctypes.ErrLeaseNotFound) {
		return store.ErrLost
	}
	return nil
}

// append puts the key of a new claim and lists the name, in one step; a try only
// where it is granted at once.
func (s *Store) append(ctx context.Context, c *store.Claim, m *mine) (store.Answer, error) {
	keys := s.keys(c.Name)
	val := value{
		Owner: c.Owner, TTL: int64(whole(c.TTL) / time.Second), Asked: time.Now().UnixMicro(),
		Keep: micros(c.Keep),
	}
	if !strings.HasSuffix(m.key, c.ID.String()) {
		val.ID = c.ID.String()
	}
	if m.n > 1 {
		val.N = m.n
	}
	list := []clientv3.Op{clientv3.OpGet(keys, clientv3.WithRange(after(keys))), clientv3.OpGet(s.baseKey())}
	s.warm(c.TTL) // while the floor is read, if neither is there
	var seen int64
	var err error
	for i := range 2 * attempts {
		var f *floor
		if f, err = s.base(ctx); err != nil {
			return s.noAnswer(m, err)
		}
		sess, err := s.askIn(ctx, c, m)
		if err != nil {
			return s.noAnswer(m, err)
		}
		renewing := s.fresh(sess)
		// Whoever has lost the race a few times appends, and leaves again if he
		// is not granted.
		sure := !c.Try || i >= attempts //mutant:etcd-try-puts-key-first
		when := append(s.appends(keys, c, m, seen, sure), clientv3.Compare(clientv3.Value(s.baseKey()), "=", f.text))
		put := clientv3.OpPut(m.key, val.String(), clientv3.WithLease(sess.lease))
		r, free, err := s.put(ctx, i == 0, keys, when, put, list)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			s.mu.Lock()
			known := m.state == gone // by another operation, or a renewal
			m.into(nil)
			m.unclear = false // nothing that was asked in it can be there, or come
			s.died(sess)
			s.mu.Unlock()
			if known {
				return store.Answer{}, store.ErrLost
			}
			continue
		}
		if err != nil {
			s.mu.Lock()
			m.unclear = true
			s.mu.Unlock()
			return store.Answer{}, err
		}
		if free { // what would be listed is known
			own := &mvccpb.KeyValue{Key: []byte(m.key), Value: []byte(val.String()), CreateRevision: r.Header.Revision, ModRevision: r.Header.Revision, Lease: int64(sess.lease)}
			v, err := s.parse(c.Name, []*mvccpb.KeyValue{own}, r.Header.Revision, f.base)
			if err == nil {
				err = s.landed(ctx, renewing)
			}
			if err != nil {
				return store.Answer{}, err
			}
			return s.answer(ctx, c, m, v)
		}
		answers := r.Responses
		if r.Succeeded {
			answers = answers[1:]
		}
		if base := answers[1].GetResponseRange().Kvs; !r.Succeeded && !is(base, f.text) {
			s.rebase(f) //mutant:etcd-floor-deleted-counts
			continue
		}
		v, err := s.parse(c.Name, kvsOf(answers[0]), r.Header.Revision, f.base)
		if err != nil {
			if r.Succeeded {
				s.leave(ctx, m)
			}
			return s.noAnswer(m, err)
		}
		if r.Succeeded || v.find(c.ID) != nil {
			if own := v.find(c.ID); c.Try && !own.granted && r.Succeeded {
				a := v.refused(own)
				return a, s.leave(ctx, m)
			}
			if err := s.landed(ctx, renewing); err != nil {
				return store.Answer{}, err
			}
			return s.answer(ctx, c, m, v)
		}
		if have := v.limit(); have != 0 && have != c.Limit {
			return s.noAnswer(m, &store.MismatchError{Have: have, Want: c.Limit})
		}
		if !v.room(c.Limit, c.Weight) {
			if !c.Try {
				continue // who was in the way has gone
			}
			a, err := s.noAnswer(m, nil)
			if err == nil {
				a = v.refused(nil)
			}
			return a, err
		}
		seen = v.rev
	}
	return s.noAnswer(m, cmp.Or(err, errRaced))
}

// askIn is the session that a claim is asked for in: the present one, or as long as
// an ask for it was not answered the one that this was sent in. The key may lie there,
// and what is told of the claim must count from the session that keeps its key.
func (s *Store) askIn(ctx context.Context, c *store.Claim, m *mine) (*session, error) {
	s.mu.Lock()
	sess, unclear := m.sess, m.unclear
	s.mu.Unlock()
	if unclear && sess != nil { //mutant:etcd-unanswered-ask-repeated-another
		return sess, nil
	}
	sess, err := s.session(ctx, c.TTL)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone { //mutant:etcd-lost-asked-in-next
		// Its session ended meanwhile. What it put in the next one would be given
		// back by nobody, as who was lost has nothing.
		return nil, store.ErrLost
	}
	m.into(sess)
	return sess, nil
}

// put puts the key and lists the name, if it may be put; else it lists the name.
// Most names are free: then it is put, and there is nothing to list. That is one
// request either way.
func (s *Store) put(ctx context.Context, first bool, keys string, when []clientv3.Cmp, put clientv3.Op, list []clientv3.Op) (r *clientv3.TxnResponse, free bool, err error) {
	then := append([]clientv3.Op{put}, list...)
	if !first {
		r, err = s.client.Txn(ctx).If(when...).Then(then...).Else(list...).Commit()
		return r, false, err
	}
	empty := clientv3.Compare(clientv3.CreateRevision(keys), "=", 0).WithRange(after(keys))
	sameBase := when[len(when)-1]
	r, err = s.client.Txn(ctx).If(empty, sameBase).Then(put).Else(clientv3.OpTxn(when, then, list)).Commit()
	if err != nil || r.Succeeded {
		return r, err == nil, err
	}
	nested := (*clientv3.TxnResponse)(r.Responses[0].GetResponseTxn())
	nested.Header = r.Header // the nested one has none
	return nested, false, nil
}

// noAnswer ends an ask that has left nothing in the store.
func (s *Store) noAnswer(m *mine, err error) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.unclear {
		s.forget(m)
	}
	return store.Answer{}, err
}

// leave deletes the key of a claim that was appended and is to go.
func (s *Store) leave(ctx context.Context, m *mine) error {
	return s.withdraw(ctx, m)
}

// appends is when the key may be put: there is no entry of another limit and
// none of this claim; and if it must be granted at once, nobody can be in its
// way, or nothing was added since it was seen that there is room.
func (s *Store) appends(keys string, c *store.Claim, m *mine, seen int64, sure bool) []clientv3.Cmp {
	none := func(from, to string) clientv3.Cmp {
		return clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(to)
	}
	same := limited(keys, c.Limit)
	when := []clientv3.Cmp{none(keys, same), none(after(same), after(keys)), clientv3.Compare(clientv3.CreateRevision(m.key), "=", 0)}
	switch {
	case sure:
	case seen > 0:
		when = append(when, clientv3.Compare(clientv3.ModRevision(keys), "<", seen+1).WithRange(after(keys)))
	case c.Limit == store.Full && c.Weight == 1: // readers are in nobody's way
		when = append(when, none(same+hex8(2), after(same)))
	default:
		when = append(when, none(same, after(same)))
	}
	return when
}

// answer reads from the state of the name how a claim of ours stands.
func (s *Store) answer(ctx context.Context, c *store.Claim, m *mine, v *view) (store.Answer, error) {
	r := v.find(c.ID)
	if r == nil {
		s.lost(m)
		return store.Answer{}, store.ErrLost
	}
	if r.Break != "" {
		return store.Answer{}, &store.LostError{Reason: r.Break}
	}
	if !r.granted {
		s.mu.Lock()
		defer s.mu.Unlock()
		if m.state == gone { // by our clock, meanwhile //mutant:etcd-lost-waits-on
			return store.Answer{}, store.ErrLost
		}
		m.state = placed
		m.ends = max(m.ends, store.Now().Add(c.Place))
		s.await(m, v, r)
		return v.refused(r), nil
	}
	if err := s.draw(ctx, m, v, r); err != nil {
		return store.Answer{}, err
	}
	if err := s.lasts(ctx, m, r, c.TTL); err != nil {
		return store.Answer{}, err
	}
	if r.upgraded && !r.Drawn {
		if err := s.fence(ctx, m, v, r); err != nil {
			return store.Answer{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone { // by our clock, meanwhile
		return store.Answer{}, store.ErrLost
	}
	if r.UpTo > 0 && !r.upgraded {
		s.await(m, v, r)
	}
	a := store.Answer{Granted: true, Token: m.token, N: m.n, TTL: c.TTL, From: m.sess.renewed, Weight: r.weight, Want: r.wants(), Fence: r.Fence}
	a.Last = max(v.last(), a.Token+int64(a.N)-1, a.Fence)
	return a, nil
}

// wants is the weight that the hold is to have.
func (r *row) wants() int64 {
	if r.UpTo > 0 {
		return r.Want
	}
	return r.weight
}

// draw notes that the owner is told of a grant, with a token of this look: who
// was in the way had gone, and had seen itself at an earlier revision. Those who
// are in together may have looked at the same one, and differ by their rank.
func (s *Store) draw(ctx context.Context, m *mine, v *view, r *row) error {
	s.mu.Lock()
	known := m.token
	s.mu.Unlock()
	token := cmp.Or(known, r.Token)
	switch rank := v.rank(r); {
	case token != 0:
	case v.rev == r.created, r.asked == r.limit:
		token = v.base + v.rev*maxBlock //mutant:etcd-token-entry-creation
	case rank+1 < maxBlock:
		token = v.base + v.rev*maxBlock + rank + 1
	default: // too many at this revision: one of its own
		rev, err := s.rewrite(ctx, r, nil)
		if err != nil {
			return err
		}
		token = v.base + rev*maxBlock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone {
		return store.ErrLost
	}
	if known == 0 {
		m.unwatch() // it waits no more; an upgrade does
		m.token, m.since = token, store.Now()
		if v.tokenOf(r) != token {
			m.tell = m.since.Add(tellAfter)
		}
		if r.asked < r.limit {
			m.n = 1
		}
	}
	m.state = held
	return nil
}

// rank is how many that are granted are before the row.
func (v *view) rank(own *row) (n int64) {
	for i := range v.rows {
		if &v.rows[i] == own {
			break
		}
		n++
	}
	return n
}

// lasts sees to it that a hold can last for the TTL: it is moved into a longer
// session if it must be, and never into a shorter one.
func (s *Store) lasts(ctx context.Context, m *mine, r *row, ttl time.Duration) error {
	s.mu.Lock()
	ends := store.Now().Add(ttl)
	short := whole(ttl) > m.sess.ttl
	if !short {
		m.ends = max(m.ends, ends)
	}
	s.mu.Unlock()
	if !short {
		return nil
	}
	var sess *session
	r.TTL = int64(whole(ttl) / time.Second)
	for range attempts {
		var err error
		if sess, err = s.session(ctx, ttl); err != nil {
			return err
		}
		if _, err = s.rewrite(ctx, r, sess); err == nil {
			break
		} else if !errors.Is(err, errOver) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone {
		return store.ErrLost
	}
	if sess.dead {
		return errOver
	}
	m.into(sess)
	m.ends = max(m.ends, ends)
	return nil
}

// rewrite stores the row's value if nobody changed it since it was read, in the
// session, or where it was. It returns the revision.
func (s *Store) rewrite(ctx context.Context, r *row, sess *session, also ...clientv3.Op) (int64, error) {
	lease := clientv3.WithIgnoreLease()
	if sess != nil {
		lease = clientv3.WithLease(sess.lease)
	}
	ops := append([]clientv3.Op{clientv3.OpPut(r.key, r.value.String(), lease)}, also...)
	t, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(r.key), "=", r.modified)).Then(ops...).Commit()
	switch {
	case sess != nil && errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.died(sess)
		return 0, errOver
	case err != nil:
		return 0, err
	case !t.Succeeded:
		return 0, errRaced
	}
	r.modified = t.Header.Revision
	return r.modified, nil
}

// Look implements [store.Looker].
func (s *Store) Look(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.hold(c.ID)
	defer s.done(m)
	ctx, cancel := s.bound(ctx)
	defer cancel()
	v, err := s.look(ctx, c.Name)
	if err != nil {
		return store.Answer{}, s.failed(fmt.Sprintf("look at %q", c.Name), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := v.find(c.ID)
	switch {
	case m != nil && (m.state == gone || m.state != asked && r == nil), r == nil && v.keeps(c.ID):
		return store.Answer{}, store.ErrLost
	case r != nil && r.Break != "":
		return store.Answer{}, &store.LostError{Reason: r.Break}
	case v.limit() != 0 && v.limit() != c.Limit:
		return store.Answer{}, &store.MismatchError{Have: v.limit(), Want: c.Limit}
	case r == nil && v.room(c.Limit, c.Weight):
		return store.Answer{Granted: true, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: v.last()}, nil
	case r == nil || !r.granted:
		return v.refused(r), nil
	}
	a := store.Answer{Granted: true, TTL: c.TTL, Weight: r.weight, Want: r.wants(), Fence: r.Fence, Last: v.last()}
	if m != nil && m.token != 0 {
		a.Token, a.N, a.Last = m.token, m.n, max(a.Last, m.token+int64(m.n)-1)
	}
	return a, nil
}

func kvsOf(r *pb.ResponseOp) []*mvccpb.KeyValue {
	return r.GetResponseRange().Kvs
}

// is reports whether there is one key with this value.
func is(kvs []*mvccpb.KeyValue, text string) bool {
	return len(kvs) == 1 && bytes.Equal(kvs[0].Value, []byte(text))
}

func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
