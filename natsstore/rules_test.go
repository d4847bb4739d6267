package natsstore

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// twins are two processes on one bucket of the shared server.
func twins(t *testing.T) (a, b *Store) {
	t.Helper()
	a = newShared(t)
	return a, closing(t, storeOn(t, connect(t, testserver.SharedNATS(t)), &a.b.o))
}

func try(name string) store.Claim {
	c := storetest.Mutex(me, name)
	c.Try = true
	return c
}

// backends are two processes on one bucket, without a store on top.
func backends(t *testing.T) (a, b *backend) {
	t.Helper()
	addr, o := testserver.SharedNATS(t), apart()
	a, b = backendOn(t, addr, o), backendOn(t, addr, o)
	t.Cleanup(func() { a.Close() })
	t.Cleanup(func() { b.Close() })
	return a, b
}

func mustPrepare(t *testing.T, b *backend) *bucket {
	t.Helper()
	k, err := b.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A bucket that was deleted and recreated counts other numbers. A revision known of a name is none of the new bucket,
// even if this process does not know of the deletion.
func TestARevisionOfADeletedBucketIsInvalidInTheNext(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	if err := a.b.js.DeleteStream(t.Context(), a.b.streamName()); err != nil {
		t.Fatal(err)
	}
	next := storetest.MustHold(t, b, storetest.Mutex(me, "a"))
	if err := a.Release(t.Context(), hold); !errors.Is(err, store.ErrLost) {
		t.Errorf("release of a deleted hold: %v, want ErrLost", err)
	}
	if st := storetest.MustList(t, b, "a"); len(st.Entries) != 1 || st.Entries[0].Token != next.Token {
		t.Errorf("got %+v, want the new hold", st.Entries)
	}
}

// The same holds after a new connection, for a bucket that another process has recreated, which counts from one.
func TestAVersionIsOfOneBucket(t *testing.T) {
	t.Parallel()
	a, b := backends(t)
	out, err := a.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("old")})
	if err != nil || !out.Done {
		t.Fatalf("got %+v, %v, want it done", out, err)
	}
	seq := parseVersion(out.Now.Version).seq
	same := mustPrepare(t, a).stream.CachedInfo().Config
	if err := a.js.DeleteStream(t.Context(), a.streamName()); err != nil {
		t.Fatal(err)
	}
	same.FirstSeq = seq
	if _, err := a.js.CreateStream(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	b.forget()
	next, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("new")})
	if err != nil || !next.Done || parseVersion(next.Now.Version).seq != seq {
		t.Fatalf("got %+v, %v, want it done as %d", next, err, seq) // otherwise the test shows nothing
	}
	links := a.nc.Stats().Reconnects
	if err := a.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	until(t, "the connection is restored", func() bool { return a.nc.Stats().Reconnects > links && a.nc.IsConnected() })
	if late, err := a.Swap(t.Context(), &record.Swap{Name: "a", Old: out.Now, Data: []byte("late")}); err != nil || late.Done {
		t.Errorf("a swap on a version of the deleted bucket: got %+v, %v", late, err)
	}
	if r, _ := loaded(t, b, "a"); string(r.Data) != "new" {
		t.Errorf("got %q, want new", r.Data)
	}
}

// A hold is lost with its session, though its entry stays until the next process comes.
func TestAHoldIsLostWithItsSession(t *testing.T) {
	t.Parallel()
	a, b := twins(t)
	hold := storetest.MustHold(t, a, storetest.Mutex(me, "a"))
	a.b.mu.Lock()
	var ids []session.ID
	for id := range a.b.own {
		ids = append(ids, id)
	}
	a.b.mu.Unlock()
	for _, id := range ids {
		_, m, err := b.b.stored(t.Context(), mustPrepare(t, b.b), sessionKey(id))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := b.b.closeKey(t.Context(), mustPrepare(t, b.b), id, m.seq); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	until(t, "the holder gets ErrLost", func() bool {
		return errors.Is(a.Renew(t.Context(), []store.Hold{hold})[0].Err, store.ErrLost)
	})
	storetest.MustHold(t, b, storetest.Mutex(me, "a"))
}

// A write is sent once. A write that the driver repeats could be done later than we assume.
func TestAWriteIsSentOnce(t *testing.T) {
	t.Parallel()
	b, _ := backends(t)
	if err := b.js.DeleteStream(t.Context(), b.streamName()); err != nil {
		t.Fatal(err)
	}
	before := b.nc.Stats().OutMsgs
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "b", Data: []byte("x")}); out.Done || err == nil {
		t.Fatalf("a write without a bucket was done: got %+v, %v", out, err)
	}
	if n := b.nc.Stats().OutMsgs - before; n != 1 {
		t.Errorf("got %d messages, want one", n)
	}
}

// Our estimate of the server's clock is not ahead of it, however late its answer came. Otherwise tokens drawn after the
// bucket was recreated would be smaller.
func TestTheServersClockIsNotTakenToBeAhead(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t, "")
	backendOn(t, server.Addr, nil).Close()
	nc := connect(t, server.Addr)
	b, err := newBackend(nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := nc.Stats().OutMsgs
	server.Freeze()
	done := make(chan error, 1)
	go func() {
		_, err := b.prepare(t.Context())
		done <- err
	}()
	until(t, "the server gets a request", func() bool { return nc.Stats().OutMsgs > sent })
	time.Sleep(50 * time.Millisecond)
	server.Thaw()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	guess := b.bucket.now()
	if ahead := guess - time.Now().UnixMicro(); ahead > 0 { // the server runs on this host
		t.Errorf("the server's clock is assumed %d µs too far ahead", ahead)
	}
}

// begun begins a session of the backend.
func begun(t *testing.T, b *backend) session.ID {
	t.Helper()
	id := session.ID(store.NewProcess())
	if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	return id
}

// purge does what NATS does when the TTL of a key expires.
func purge(t *testing.T, b *backend, key string) {
	t.Helper()
	if err := mustPrepare(t, b).stream.Purge(t.Context(), jetstream.WithPurgeSubject(b.subject(key))); err != nil {
		t.Fatal(err)
	}
}

// A process that finds a session gone closes it before it removes the session's entries. A renewal that was on its way
// does not bring the session back then.
func TestAMissingSessionIsNeverRenewedAgain(t *testing.T) {
	t.Parallel()
	a, b := backends(t)
	id := begun(t, a)
	purge(t, a, sessionKey(id))
	if left, err := b.Left(t.Context(), []session.ID{id}); err != nil || left[0] > 0 {
		t.Errorf("the session without its key: got %v left, %v", left, err)
	}
	v, m, err := b.stored(t.Context(), mustPrepare(t, b), sessionKey(id))
	if err != nil || m.data == nil || !v.Closed {
		t.Fatalf("the key of the session: got %+v, %v, want it closed", v, err)
	}
	if _, err := a.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
		t.Errorf("the session's renewal: %v, want ErrLost", err)
	}
}

// A renewal of a session that was not answered may have been done. The session goes on from there.
func TestAnUnansweredSessionRenewalIsFoundAgain(t *testing.T) {
	t.Parallel()
	b, _ := backends(t)
	id := begun(t, b)
	o := b.ofOwn(id)
	value := stored{TTL: 60, Count: 1}
	if _, ok, err := b.put(t.Context(), mustPrepare(t, b), message{key: sessionKey(id), data: value.bytes()}, o.seq, time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	o.indeterminate = true // the answer is lost
	if _, err := b.Renew(t.Context(), id); err != nil {
		t.Errorf("the next renewal: %v", err)
	}
}

// A renewal that arrives late, after the key was read, does not end the session.
func TestARenewalThatComesLateEndsNoSession(t *testing.T) {
	t.Parallel()
	b, _ := backends(t)
	id := begun(t, b)
	o := b.ofOwn(id)
	k := mustPrepare(t, b)
	var late sync.WaitGroup
	ended := make(chan struct{})
	late.Go(func() {
		for count := int64(1); ; count++ {
			select {
			case <-ended:
				return
			default:
			}
			_, m, err := b.stored(t.Context(), k, sessionKey(id))
			if err != nil {
				t.Error(err)
				return
			}
			value := stored{TTL: 60, Count: count}
			if _, _, err := b.put(t.Context(), k, message{key: sessionKey(id), data: value.bytes()}, m.seq, time.Minute); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 50 {
		o.indeterminate = true
		if err := b.renewKey(t.Context(), k, id, o); errors.Is(err, store.ErrLost) {
			t.Errorf("the next renewal: %v", err)
			break
		}
	}
	close(ended)
	late.Wait()
	o.seq, o.indeterminate = o.seq-1, false
	if err := b.renewKey(t.Context(), k, id, o); !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal of a record that another writer changed: %v, want ErrLost", err)
	}
}

// The key of the calls lasts for only a few TTLs. What its owner has read is not forgotten.
func TestCallsAreCountedAfterTheirKeyIsDeleted(t *testing.T) {
	t.Parallel()
	a, b := backends(t)
	id := begun(t, a)
	calls := func(want int64) {
		t.Helper()
		for range 2 { // the second returns what the first has read
			if n, err := a.Renew(t.Context(), id); err != nil || n != want {
				t.Fatalf("Renew: got %d calls, %v, want %d", n, err, want)
			}
		}
	}
	for want := int64(1); want < 4; want++ {
		if err := b.Call(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		calls(want)
		purge(t, a, callKey(id))
		calls(want)
	}
}

// noted leaves a note in the inbox of a name.
func noted(t *testing.T, b *backend, name, key string) {
	t.Helper()
	s := &record.Swap{Name: name, Data: []byte("refused"), Join: &record.Join{Notes: []record.Note{{Key: key, Data: []byte(key)}}}}
	if out, err := b.Swap(t.Context(), s); err != nil || !out.Joined {
		t.Fatalf("join: got %+v, %v", out, err)
	}
}

func loaded(t *testing.T, b *backend, name string) (r record.Record, keys []string) {
	t.Helper()
	r, err := b.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Inbox {
		keys = append(keys, n.Key)
	}
	return r, keys
}

// A note that was taken in is ignored by all readers, even before it is deleted.
func TestATakenInNoteIsIgnoredBeforeItIsDeleted(t *testing.T) {
	t.Parallel()
	a, b := backends(t)
	if _, err := a.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "2", "3"} {
		noted(t, a, "a", key)
	}
	r, keys := loaded(t, a, "a")
	if !slices.Equal(keys, []string{"1", "2", "3"}) {
		t.Fatalf("got notes %v, want 1, 2 and 3", keys)
	}
	// A process that cannot delete them takes in the first two.
	second := parseMark(r.Inbox[1].Version)
	m := message{key: keyOf("a"), data: []byte("y"), header: nats.Header{taken: {mark{second.seq, second.n + 1}.String()}}}
	if _, ok, err := a.put(t.Context(), mustPrepare(t, a), m, parseVersion(r.Version).seq, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, from := range []*backend{a, b} {
		if _, keys := loaded(t, from, "a"); !slices.Equal(keys, []string{"3"}) {
			t.Errorf("got notes %v, want the third", keys)
		}
	}
	// A swap does not take them in again, either.
	now, _ := loaded(t, b, "a")
	now.Inbox = r.Inbox
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Old: now, Data: []byte("z")}); err != nil || out.Done {
		t.Errorf("a swap with a stale version took in notes twice: got %+v, %v", out, err)
	}
}

// A note that was taken in is deleted soon.
func TestATakenInNoteIsDeleted(t *testing.T) {
	t.Parallel()
	a, b := backends(t)
	if _, err := a.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	noted(t, b, "a", "1")
	noted(t, b, "a", "2")
	r, _ := loaded(t, a, "a")
	noted(t, b, "a", "3")
	if out, err := a.Swap(t.Context(), &record.Swap{Name: "a", Old: r, Data: []byte("y")}); err != nil || !out.Done {
		t.Fatalf("got %+v, %v, want it done", out, err)
	}
	until(t, "only the notes that were taken in are deleted", func() bool {
		info, err := mustPrepare(t, a).stream.Info(t.Context(), jetstream.WithSubjectFilter(a.subject("j.>")))
		return err == nil && len(info.State.Subjects) == 1 && info.State.Subjects[a.subject(noteKey("a", "3"))] == 1
	})
}

// Names that crashed processes left and that are no longer used are found. They are listed in the order in which they
// were last written, up to the first young one.
func TestOldNamesAreListed(t *testing.T) {
	t.Parallel()
	a, b := backends(t)
	for _, name := range []string{"first", "second", "third", "second"} {
		r, _ := loaded(t, a, name)
		if out, err := a.Swap(t.Context(), &record.Swap{Name: name, Old: r, Data: []byte(name)}); err != nil || !out.Done {
			t.Fatalf("got %+v, %v, want it done", out, err)
		}
	}
	var names []string
	for r, err := range b.List(t.Context(), time.Nanosecond) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"first", "third", "second"}) {
		t.Errorf("got %v listed", names)
	}
	for r := range b.List(t.Context(), time.Hour) {
		t.Errorf("the young name %q is listed", r.Name)
	}
}

// NATS cuts TTLs to whole seconds. The reported TTL is never longer than the one that it keeps.
func TestATTLIsRoundedUp(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := storetest.Mutex(me, "a")
	c.TTL, c.PositionTTL, c.Try = 1500*time.Millisecond, time.Second, true
	until(t, "the claim is granted, even if the machine is slow", func() bool { // it may have expired before its answer comes
		c.ID = me.NewID()
		a, err := s.Ask(t.Context(), c)
		if err != nil && store.Definite(err) && !errors.Is(err, store.ErrLost) {
			t.Fatal(err)
		}
		return a.Granted
	})
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for _, o := range s.b.own {
		if o.ttl != time.Second && o.ttl != 2*time.Second {
			t.Errorf("got a session of %v", o.ttl)
		}
	}
}

// nextNotification waits for one notification.
func nextNotification(t *testing.T, notifications <-chan store.Notification) store.Notification {
	t.Helper()
	select {
	case h := <-notifications:
		return h
	case <-time.After(patience):
		t.Fatalf("no notification within %v", patience)
		return store.Notification{}
	}
}

// The bucket is in a domain behind a leaf node, and the client is connected to the leaf.
func TestABucketBehindALeafNode(t *testing.T) {
	t.Parallel()
	hub, leaf := testserver.NATSLeaf(t)
	here := closing(t, storeOn(t, connect(t, hub.Addr), nil))
	hold := storetest.MustHold(t, here, storetest.Mutex(me, "a"))
	far := closing(t, storeOn(t, connect(t, leaf.Addr), &Options{Domain: "hub"}))
	p := store.NewProcess()
	notifications := make(chan store.Notification, 10)
	waits := storetest.Mutex(p, "a")
	until(t, "the leaf has found the hub", func() bool { // a request that was not answered may wait all the same
		a, err := far.Ask(t.Context(), waits)
		if errors.Is(err, store.ErrLost) {
			waits = storetest.Mutex(p, "a")
		}
		if err == nil && a.Granted {
			t.Fatal("two claims hold the lock")
		}
		return err == nil
	})
	if err := far.Watch(t.Context(), p, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	if h := nextNotification(t, notifications); h != (store.Notification{}) { // the hub knows the subscription
		t.Errorf("got notification %+v", h)
	}
	if err := here.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if h := nextNotification(t, notifications); h.ID != waits.ID || h.Token <= hold.Token {
		t.Errorf("got notification %+v", h)
	}
	if !storetest.MustAsk(t, far, waits).Granted {
		t.Error("notified, but not granted")
	}
	if st := storetest.MustList(t, here, "a"); len(st.Entries) != 1 || st.Entries[0].ID != waits.ID {
		t.Errorf("at the hub: got %+v", st.Entries)
	}
	// Without the domain it is a different bucket.
	near := closing(t, storeOn(t, connect(t, leaf.Addr), nil))
	if st := storetest.MustList(t, near, "a"); len(st.Entries) != 0 {
		t.Errorf("at the leaf: got %+v", st.Entries)
	}
}

// Closing one Store silences no other on the same connection. The others still learn that the connection was reopened,
// and that notifications sent meanwhile are lost.
func TestAClosedStoreSilencesNoOtherOnItsConnection(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	link := testserver.NewLink(t, addr)
	nc := connect(t, link.Addr())
	stays, goes := closing(t, storeOn(t, nc, o)), storeOn(t, nc, o)
	look := make(chan store.Notification, 10)
	if err := stays.Watch(t.Context(), me, func(n store.Notification) { look <- n }); err != nil {
		t.Fatal(err)
	}
	if err := goes.Watch(t.Context(), store.NewProcess(), func(store.Notification) {}); err != nil {
		t.Fatal(err)
	}
	if err := goes.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		link.Cut()
		link.Mend()
		if n := nextNotification(t, look); n != (store.Notification{}) {
			t.Errorf("got notification %+v", n)
		}
	}
}
