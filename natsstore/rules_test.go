package natsstore

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// twins are two processes on one bucket of the shared server.
func twins(t *testing.T) (a, b *Store) {
	t.Helper()
	a = newShared(t)
	return a, closing(t, storeOn(t, connect(t, testserver.SharedNATS(t)), &a.o))
}

func try(name string) store.Claim {
	c := storetest.Mutex(me, name)
	c.Try = true
	return c
}

// An ask that was not answered may be on its way still when its owner withdraws it,
// and nothing of it is there: it cannot be done any more then.
func TestAnAskThatWasWithdrawnCannotBeDoneAnyMore(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	old := storetest.MustHold(t, b, storetest.Mutex(me, "used"))
	if err := b.Release(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"used", "never used"} {
		for what, withdraw := range map[string]func(*mine) error{
			"given back": func(m *mine) error { return a.Release(t.Context(), store.Hold{Name: m.name, ID: m.id}) },
			"overdue":    func(m *mine) error { return a.expire(t.Context(), m) },
		} {
			name := name
			if name == "never used" {
				name += ", " + what
			}
			before, err := a.get(t.Context(), keyOf(name))
			if err != nil {
				t.Fatal(err)
			}
			m := &mine{name: name, id: me.NewID(), unclear: true, ends: store.Now().Add(time.Hour)}
			a.add(m)
			a.done(m)
			if err := withdraw(m); err != nil {
				t.Fatal(err)
			}
			// The ask arrives.
			if _, ok, err := a.put(t.Context(), keyOf(name), []byte(`{"v":1,"last":1}`), before.seq, 0); ok || err != nil {
				t.Errorf("%s, %s: it was done (%v)", name, what, err)
			}
			if err := b.Release(t.Context(), storetest.MustHold(t, b, storetest.Mutex(me, name))); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is remembered of a name may only be written upon: whoever gives no answer but of
// what is there now.
func TestNothingIsAnsweredOfWhatIsRemembered(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	if storetest.MustAsk(t, b, try("a")).Granted {
		t.Fatal("two hold it")
	}
	if err := a.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	storetest.MustHold(t, b, try("a"))
	if storetest.MustAsk(t, a, try("a")).Granted { // it remembers that it gave it back
		t.Error("two hold it")
	}
}

// A bucket that was deleted and made again counts to other numbers: what was known of a
// name is no revision of the new one, though nobody has told us.
func TestWhatIsKnownOfADeletedBucketIsNoRevisionOfTheNext(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	if err := a.js.DeleteStream(t.Context(), a.streamName()); err != nil {
		t.Fatal(err)
	}
	next := storetest.MustHold(t, b, storetest.Mutex(me, "a"))
	if err := a.Release(t.Context(), hold); !errors.Is(err, store.ErrLost) {
		t.Errorf("the release of what is gone: %v, want ErrLost", err)
	}
	if st := storetest.MustList(t, b, "a"); len(st.Entries) != 1 || st.Entries[0].Token != next.Token {
		t.Errorf("there is %+v, want the new hold", st.Entries)
	}
}

// Nor is it after a new connection, of a bucket that somebody else has made, who
// counts from one.
func TestWhatIsKnownIsForgottenWithTheConnection(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	a.mu.Lock()
	seq := a.known["a"].seq
	a.mu.Unlock()
	stream, err := a.js.Stream(t.Context(), a.streamName())
	if err != nil {
		t.Fatal(err)
	}
	same := stream.CachedInfo().Config
	if err := a.js.DeleteStream(t.Context(), a.streamName()); err != nil {
		t.Fatal(err)
	}
	same.FirstSeq = seq - 1 // the session comes first
	if _, err := a.js.CreateStream(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	b.forget()
	next := storetest.MustHold(t, b, storetest.Mutex(me, "a"))
	b.mu.Lock()
	if b.known["a"].seq != seq {
		t.Errorf("the new hold has revision %d, want %d: this shows nothing", b.known["a"].seq, seq)
	}
	b.mu.Unlock()
	links := a.nc.Stats().Reconnects
	if err := a.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	until(t, "it is connected again", func() bool { return a.nc.Stats().Reconnects > links && a.nc.IsConnected() })
	if err := a.Release(t.Context(), hold); !errors.Is(err, store.ErrLost) {
		t.Errorf("the release of what is gone: %v, want ErrLost", err)
	}
	if st := storetest.MustList(t, b, "a"); len(st.Entries) != 1 || st.Entries[0].Token != next.Token {
		t.Errorf("there is %+v, want the new hold", st.Entries)
	}
}

// A write is sent once: one that is sent again by itself is done later than we know.
func TestAWriteIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	if err := s.js.DeleteStream(t.Context(), s.streamName()); err != nil {
		t.Fatal(err)
	}
	before := s.nc.Stats().OutMsgs
	if _, ok, err := s.put(t.Context(), keyOf("b"), []byte("x"), 0, 0); ok || err == nil {
		t.Fatalf("written into no bucket: %v, %v", ok, err)
	}
	if n := s.nc.Stats().OutMsgs - before; n != 1 {
		t.Errorf("%d messages were sent, want one", n)
	}
}

// The TTL of a session counts from the sending of its last renewal, not from the
// answer.
func TestASessionCountsFromTheSendingOfItsRenewal(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t, "")
	s := closing(t, storeOn(t, connect(t, server.Addr), nil))
	hold := storetest.MustHold(t, s, storetest.Mutex(me, "a"))
	s.mu.Lock()
	sess := s.mine[hold.ID].sess
	sent := s.nc.Stats().OutMsgs
	s.mu.Unlock()
	server.Freeze()
	s.mu.Lock()
	f := s.renew(sess)
	s.mu.Unlock()
	until(t, "it is sent", func() bool { return s.nc.Stats().OutMsgs > sent })
	time.Sleep(10 * time.Millisecond)
	answered := store.Now()
	server.Thaw()
	if <-f.done; f.err != nil {
		t.Fatal(f.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.renewed >= answered {
		t.Error("it counts from the answer")
	}
}

// A place lasts as long as the session, which may have been renewed a while before
// the ask. Who is granted by a hint counts from there.
func TestAPlaceCountsFromTheSessionsRenewal(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	held, waits := storetest.Mutex(me, "a"), storetest.Mutex(me, "a")
	held.TTL, waits.TTL = time.Hour, time.Hour
	storetest.MustHold(t, s, held) // the session is not renewed for a tenth of the TTL from here on
	before := store.Now()
	if a := storetest.MustAsk(t, s, waits); a.Granted || a.From == 0 || a.From > before {
		t.Errorf("the session was renewed before %v: %+v", before, a)
	}
}

// What is taken for the server's clock is not ahead of it, however late its answer
// came: tokens that are drawn after the bucket was made again would be smaller.
func TestTheServersClockIsNotTakenToBeAhead(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t, "")
	nc := connect(t, server.Addr)
	s := closing(t, storeOn(t, nc, nil))
	if _, err := closing(t, storeOn(t, nc, nil)).prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := nc.Stats().OutMsgs
	server.Freeze()
	done := make(chan error, 1)
	go func() {
		_, err := s.prepare(t.Context())
		done <- err
	}()
	until(t, "it is asked for", func() bool { return nc.Stats().OutMsgs > sent })
	time.Sleep(50 * time.Millisecond)
	server.Thaw()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	guess := s.bucket.now().Clock
	if ahead := guess - time.Now().UnixMicro(); ahead > 0 { // its host is this one
		t.Errorf("it is taken to be %d µs ahead of what it is", ahead)
	}
}

// NATS cuts TTLs to whole seconds: what is told is never more than what it keeps.
func TestATTLIsRoundedUp(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := storetest.Mutex(me, "a")
	c.TTL, c.Place = 1500*time.Millisecond, time.Second
	hold := storetest.MustHold(t, s, c)
	s.mu.Lock()
	id := s.mine[hold.ID].sess.id
	s.mu.Unlock()
	v, _, err := s.lookAtSession(t.Context(), id)
	if err != nil || v.TTL != 2 {
		t.Errorf("its session lasts %d s (%v), want 2", v.TTL, err)
	}
}

// What a crashed process has left is taken out though nobody asks for the name
// again; what lives, and what is not ours, is left alone.
func TestWhatCrashedHoldersLeftIsSwept(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	dead := storetest.MustHold(t, a, storetest.Mutex(me, "left"))
	storetest.MustHold(t, b, storetest.Mutex(me, "kept"))
	if _, err := a.js.Publish(t.Context(), a.subject("n.foreign"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	sess := a.mine[dead.ID].sess
	a.mu.Unlock()
	stream, err := a.js.Stream(t.Context(), a.streamName())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(a.subject(sessionKey(sess.id)))); err != nil {
		t.Fatal(err)
	}
	entries := func(name string) int {
		m, err := b.get(t.Context(), keyOf(name))
		var n storedName
		if err == nil {
			err = json.Unmarshal(m.data, &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		return len(n.Entries)
	}
	sweeper := closing(t, storeOn(t, b.nc, &a.o)) // without a session it has no sweeps of its own
	if more, err := sweeper.sweepNext(t.Context(), time.Hour); more || err != nil {
		t.Errorf("what is young: %v, %v", more, err)
	}
	if n := entries("left"); n != 1 {
		t.Errorf("%d entries of what is young, want 1", n)
	}
	steps := 0
	for more := true; more; steps++ {
		if more, err = sweeper.sweepNext(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	// left, kept, foreign, left again as it was rewritten, and the end
	if left, kept := entries("left"), entries("kept"); left != 0 || kept != 1 || steps != 5 {
		t.Errorf("after %d steps %d entries of the dead and %d of the living, want none and 1 after 5", steps, left, kept)
	}
	if m, err := b.get(t.Context(), "n.foreign"); err != nil || string(m.data) != "x" {
		t.Errorf("what is not ours: %q, %v", m.data, err)
	}
}

// A hold is lost with its session, though its entry is there until somebody comes.
func TestAHoldIsLostWithItsSession(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	a.mu.Lock()
	sess := a.mine[hold.ID].sess
	sess.renewed = sess.renewed.Add(-sess.ttl / 5) // so that it is renewed with the hold
	a.mu.Unlock()
	if _, err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, err := b.closeKey(t.Context(), sess.id, sess.seq); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r := a.Renew(t.Context(), []store.Hold{hold})[0]; !errors.Is(r.Err, store.ErrLost) {
		t.Errorf("renewed: %+v, want ErrLost", r)
	}
}

// nextHint waits for one.
func nextHint(t *testing.T, hints <-chan store.Hint) store.Hint {
	t.Helper()
	select {
	case h := <-hints:
		return h
	case <-time.After(patience):
		t.Fatalf("after %v no hint", patience)
		return store.Hint{}
	}
}

// The bucket is in a domain behind a leaf node, for those at the leaf.
func TestABucketBehindALeafNode(t *testing.T) {
	t.Parallel()
	hub, leaf := testserver.NATSLeaf(t)
	here := closing(t, storeOn(t, connect(t, hub.Addr), nil))
	hold := storetest.MustHold(t, here, storetest.Mutex(me, "a"))
	far := closing(t, storeOn(t, connect(t, leaf.Addr), &Options{Domain: "hub"}))
	p := store.NewProcess()
	hints := make(chan store.Hint, 10)
	var waits store.Claim
	until(t, "the leaf has found the hub", func() bool {
		waits = storetest.Mutex(p, "a")
		a, err := far.Ask(t.Context(), waits)
		if err == nil && a.Granted {
			t.Fatal("two hold it")
		}
		return err == nil
	})
	if err := far.Watch(t.Context(), p, func(h store.Hint) { hints <- h }); err != nil {
		t.Fatal(err)
	}
	if h := nextHint(t, hints); h != (store.Hint{}) { // the hub knows of it
		t.Errorf("hint %+v", h)
	}
	if err := here.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if h := nextHint(t, hints); h.ID != waits.ID || h.Token <= hold.Token {
		t.Errorf("hint %+v", h)
	}
	if !storetest.MustAsk(t, far, waits).Granted {
		t.Error("woken, and not granted")
	}
	if st := storetest.MustList(t, here, "a"); len(st.Entries) != 1 || st.Entries[0].ID != waits.ID {
		t.Errorf("at the hub: %+v", st.Entries)
	}
	// Without the domain it is another bucket.
	near := closing(t, storeOn(t, connect(t, leaf.Addr), nil))
	if st := storetest.MustList(t, near, "a"); len(st.Entries) != 0 {
		t.Errorf("at the leaf: %+v", st.Entries)
	}
}
