package zkstore

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// What was asked for, was not answered and was given up may be done later. It goes,
// though its session has another claim, which stays.
func TestALateAskIsTakenOutBesideAnotherClaim(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	link := testserver.NewLink(t, addr)
	s, other := closing(t, storeOn(t, o, link.Addr())), closing(t, storeOn(t, o, addr))
	c, late := mutex("kept"), mutex("a")
	c.TTL, late.TTL = 20*time.Second, 20*time.Second
	kept := mustHold(t, s, c)
	s.mu.Lock()
	sess := s.mine[kept.ID].sess
	s.mu.Unlock()
	link.Hush()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Ask(ctx, late); err == nil || store.Definite(err) {
		t.Fatalf("ask on a silent link: %v, want it unclear", err)
	}
	link.Cut()
	link.Mend()
	until(t, "it is given up", func() bool { return s.Release(t.Context(), store.Hold{Name: "a", ID: late.ID}) == nil })
	// The ask is done.
	if err := s.makePath(connOf(t, addr), s.nameNode("a"), zk.FlagPersistent); err != nil {
		t.Fatal(err)
	}
	if _, err := sess.conn.Create(s.nameNode("a")+"/"+entryNode(late.Limit, late.Weight, late.ID), (&value{Owner: late.Owner}).bytes(), zk.FlagEphemeralSequential, s.o.ACL); err != nil {
		t.Fatal(err)
	}
	until(t, "the name is free", func() bool { return mustAsk(t, other, mutexTry("a")).Granted })
	if r := s.Renew(t.Context(), []store.Hold{kept})[0]; r.Err != nil {
		t.Errorf("the hold beside it: %v", r.Err)
	}
}

// A session can end while a claim is asked for in it, between two attempts. What a
// later attempt made in the next session would be granted to nobody.
func TestALostClaimIsNotAskedForInTheNextSession(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, apart(), testserver.SharedZooKeeper(t)))
	c := mutex("a")
	m := &mine{name: c.Name, id: c.ID, limit: c.Limit, asked: c.Weight, n: 1, ends: store.Now().Add(c.TTL)}
	s.add(m)
	defer s.done(m)
	s.mu.Lock()
	s.lose(m) // as when its session ends
	s.mu.Unlock()
	if _, err := s.append(t.Context(), &c, m); err != store.ErrLost {
		t.Errorf("it was lost before it was asked for again: %v, want ErrLost", err)
	}
	if have := entriesOf(t, s, "a").Entries; len(have) > 0 {
		t.Errorf("it left %v", have)
	}
}

// So can it while its place is looked at: the claim is lost, whatever the look shows,
// as all that the session has is about to be deleted.
func TestAWaiterWhoseSessionEndedMeanwhileIsLost(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	s, other := closing(t, storeOn(t, o, addr)), closing(t, storeOn(t, o, addr))
	mustHold(t, other, mutex("a"))
	c := mutex("a")
	if a := mustAsk(t, s, c); a.Granted {
		t.Fatal("granted beside another")
	}
	m := s.hold(c.ID)
	defer s.done(m)
	s.mu.Lock()
	sess := m.sess
	s.mu.Unlock()
	v, err := s.look(t.Context(), sess, "a")
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	sess.flight = &flight{} // it is not closed yet: the look goes on
	s.died(sess)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.flight = nil
	}()
	if a, err := s.answer(t.Context(), &c, m, v); err != store.ErrLost {
		t.Errorf("looked at while its session ended: %+v, %v, want ErrLost", a, err)
	}
}
