package etcdstore

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// A lateAsk is an ask that was not answered, of a claim that its process is done with.
// It can arrive as long as the session exists that it was sent in, and nobody would
// hold what it puts.
type lateAsk struct {
	name, key string
	id        store.ID
}

// expectLate notes that an ask of the claim may arrive when nobody wants it any more.
// Its session takes no new claims, so that it ends, with whatever has arrived, as
// soon as it keeps none. Until then late asks are searched for. s.mu is held.
func (s *Store) expectLate(m *mine) {
	if !m.unclear || m.sess == nil { //mutant:etcd-may-slip-late-kept
		return
	}
	m.sess.late = append(m.sess.late, lateAsk{m.name, m.key, m.id})
	s.retire(m.sess)
}

// searchEvery is how often late asks are searched for: what has arrived blocks its
// name for no longer than a crash would.
func (sess *session) searchEvery() time.Duration { return sess.ttl / 4 }

// searchLate deletes the keys of late asks that have arrived.
func (s *Store) searchLate(sess *session) {
	s.mu.Lock()
	late := sess.late
	s.mu.Unlock()
	for len(late) > 0 && s.ctx.Err() == nil {
		some := late[:min(len(late), maxOps)]
		late = late[len(some):]
		s.deleteLate(sess, some)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.searches = false
	sess.search = store.Now().Add(sess.searchEvery())
	s.poke()
}

// deleteLate deletes those of some late asks that have arrived. What fails is done by
// the next search.
func (s *Store) deleteLate(sess *session, some []lateAsk) {
	ctx, cancel := s.bound(s.ctx)
	defer cancel()
	gets := make([]clientv3.Op, len(some))
	for i, l := range some {
		gets[i] = clientv3.OpGet(l.key)
	}
	t, err := s.client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return
	}
	for i, l := range some {
		for _, kv := range kvsOf(t.Responses[i]) {
			// A claim that has adopted the hold has the key, with another id.
			r, _, err := s.parseRow(l.name, kv)
			if err != nil || r.id != l.id || r.lease != int64(sess.lease) { //mutant:etcd-search-takes-whatever-key
				continue
			}
			_, _ = s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.key), "=", r.modified)).Then(clientv3.OpDelete(l.key)).Commit()
		}
	}
}

// leaveNothing has deleted what a claim may have that was lost while it was asked for:
// its session ended, and it was asked for again in the next one.
func (s *Store) leaveNothing(m *mine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone && !m.drop && m.sess != nil && !m.sess.dead {
		s.dropSoon(m)
	}
}
