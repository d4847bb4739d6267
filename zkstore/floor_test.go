package zkstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// opened is a backend that the test closes at its end.
func opened(t testing.TB, o *Options, servers ...string) *backend {
	t.Helper()
	b := backendOn(t, o, servers...)
	t.Cleanup(func() { b.Close() })
	return b
}

func (b *backend) mustConnect(t testing.TB) *data {
	t.Helper()
	d, err := b.connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (b *backend) mustLoad(t testing.TB, name string) record.Record {
	t.Helper()
	var r record.Record
	until(t, "a read is answered", func() bool { // the connection can be lost while the machine stands still
		var err error
		if r, err = b.Load(t.Context(), name); err != nil && store.Definite(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	return r
}

func (b *backend) mustSwap(t testing.TB, s *record.Swap) record.Outcome {
	t.Helper()
	out, err := b.Swap(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mustWrite overwrites the current record, and returns the new one.
func (b *backend) mustWrite(t testing.TB, name, data string, idle bool) (now record.Record) {
	t.Helper()
	unanswered := false
	until(t, "a write is answered", func() bool {
		out, err := b.Swap(t.Context(), &record.Swap{Name: name, Old: b.mustLoad(t, name), Data: []byte(data), Idle: idle})
		if err != nil && store.Definite(err) || err == nil && !out.Done && !unanswered {
			t.Fatalf("a swap of %q on the current version: got %+v, %v", data, out, err)
		}
		now, unanswered = out.Now, unanswered || err != nil
		return out.Done
	})
	return now
}

// mustBegin begins a session that outlasts the test.
func (b *backend) mustBegin(t testing.TB) (id session.ID) {
	t.Helper()
	until(t, "the start of a session is answered", func() bool {
		id = session.NewID()
		_, err := b.Begin(t.Context(), id, time.Minute)
		if err != nil && store.Definite(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	return id
}

// What one member has answered can be read from every other at once, even from a member that does not know it yet: both
// written records and live sessions.
func TestAnAnswerOfOneMemberIsVisibleOnAll(t *testing.T) {
	t.Parallel()
	members, ways := testserver.LinkedZooKeepers(t, 3)
	leader := testserver.ZooKeeperLeader(t, members)
	late := (leader + 1) % len(members)
	from, b := opened(t, nil, members[leader].Addr), opened(t, nil, members[late].Addr)
	from.mustWrite(t, "a", "old", false)
	b.mustLoad(t, "a")
	b.mu.Lock()
	b.clock.heard = store.Now().Add(time.Hour) // so that it does not ask for the time, which would be a write
	b.mu.Unlock()
	way := ways[late][leader]
	for _, c := range []struct {
		what  string
		write func(id session.ID) error
		seen  func(id session.ID) (bool, error)
	}{
		{"what is written", func(session.ID) error {
			from.mustWrite(t, "a", "new", false)
			return nil
		}, func(session.ID) (bool, error) {
			r, err := b.Load(t.Context(), "a")
			return string(r.Data) == "new", err
		}},
		{"a new session", func(id session.ID) error {
			_, err := from.Begin(t.Context(), id, time.Minute)
			return err
		}, func(id session.ID) (bool, error) {
			left, err := b.Left(t.Context(), []session.ID{id})
			return err == nil && left[0] > 0, err
		}},
	} {
		id := session.NewID()
		way.Delay()
		if err := c.write(id); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if seen, err := c.seen(id); err != nil || !seen {
				t.Errorf("%s is not visible on a member that lacked it: %v", c.what, err)
			}
		}()
		until(t, "the backend asks the leader for the newest state, or answers", func() bool {
			select {
			case <-done:
				return true
			default:
				return way.Asked() > 0
			}
		})
		way.Mend()
		<-done
	}
}

// A node that is recreated counts its versions from the beginning. A record that was read before the deletion is no
// base for a write, even in a process that does not know of the deletion.
func TestAVersionFromBeforeADeletionIsInvalid(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	b, late := opened(t, o, addr), opened(t, o, addr)
	b.retention = 100 * time.Millisecond
	olds := []record.Record{{}}
	late.mustLoad(t, "a")
	before := late.mustConnect(t).epochNow()
	for i := range 3 {
		b.mustWrite(t, "a", fmt.Sprint(i), i == 2)
		olds = append(olds, late.mustLoad(t, "a"))
	}
	until(t, "the record is deleted", func() bool {
		if err := sweep(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return b.mustLoad(t, "a").Version == ""
	})
	for i := range 3 {
		b.mustWrite(t, "a", "new", false)
		for _, old := range olds {
			late := opened(t, o, addr) // it knows what the late process knows
			late.mustConnect(t).epoch = before
			if out := late.mustSwap(t, &record.Swap{Name: "a", Old: old, Data: []byte("late")}); out.Done {
				t.Errorf("after write %d a swap on version %q was done", i, old.Version)
			}
		}
	}
}

// The same holds for a record read before everything was deleted, by whatever process.
func TestAVersionFromBeforeAllWasDeletedIsInvalid(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	late := opened(t, o, addr)
	var olds []record.Record
	for i := range 3 {
		olds = append(olds, late.mustWrite(t, "a", fmt.Sprint(i), false))
	}
	wipe(t, connOf(t, addr), o.Path)
	b := opened(t, o, addr)
	for range olds {
		b.mustWrite(t, "a", "new", false)
		for range 2 {
			for _, old := range olds {
				if out, err := late.Swap(t.Context(), &record.Swap{Name: "a", Old: old, Data: []byte("late")}); err == nil && out.Done {
					t.Errorf("a swap on version %q was done", old.Version)
				}
			}
		}
	}
	until(t, "the backend swaps on the current record", func() bool {
		r, err := late.Load(t.Context(), "a")
		if err != nil {
			return false
		}
		out, err := late.Swap(t.Context(), &record.Swap{Name: "a", Old: r, Data: []byte("next")})
		return err == nil && out.Done
	})
}

// A record that has just become idle stays, though it is due to be checked.
func TestANewlyIdleRecordStays(t *testing.T) {
	t.Parallel()
	b := opened(t, apart(), testserver.SharedZooKeeper(t))
	b.retention = time.Millisecond
	b.mustWrite(t, "a", "used", false)
	date := b.due(b.retention)
	until(t, "the record is due for a check", func() bool {
		now, _ := b.now()
		return now/1000 > date
	})
	b.retention = time.Hour
	b.mustWrite(t, "a", "idle", true)
	if err := sweep(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if data := b.mustLoad(t, "a").Data; string(data) != "idle" {
		t.Errorf("the idle record was deleted at once: got %q", data)
	}
}

// Notes are in the order in which they arrived, whichever process left them, though the server does not number their
// nodes.
func TestNotesAreInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	all := []*backend{opened(t, o, addr), opened(t, o, addr)}
	ids := []session.ID{all[0].mustBegin(t), all[1].mustBegin(t)}
	all[0].mustWrite(t, "a", "x", false)
	var want, have []string
	for i := range 12 {
		key := fmt.Sprintf("%c%d", 'z'-i, i)
		out := all[i%2].mustSwap(t, &record.Swap{Name: "a", Data: []byte("y"), Join: &record.Join{
			Session: ids[i%2], Notes: []record.Note{{Key: key}, {Key: key + "b"}},
		}})
		if !out.Joined {
			t.Fatal("the swap did not join")
		}
		want = append(want, key, key+"b")
	}
	for _, n := range all[0].mustLoad(t, "a").Inbox {
		have = append(have, n.Key)
	}
	if !slices.Equal(have, want) {
		t.Errorf("got notes %v, want %v", have, want)
	}
}

// A listener moves to the connection that follows, and reports that notifications may have been missed.
func TestAListenerResumesOnANewConnection(t *testing.T) {
	t.Parallel()
	b := opened(t, apart(), testserver.SharedZooKeeper(t))
	heard := make(chan record.Notification, 8)
	if err := b.Listen(t.Context(), store.NewProcess(), func(n record.Notification) { heard <- n }); err != nil {
		t.Fatal(err)
	}
	b.leave(b.mustConnect(t))
	until(t, "the listener listens again", func() bool { return len(heard) > 0 })
	if n := <-heard; n != (record.Notification{}) {
		t.Errorf("got %+v, want an empty notification", n)
	}
}

// The mailbox of a listener lives as long as its session. Once that has ended, the listener is told to poll, and gets
// notifications again after that.
func TestAListenerPollsOnceItsSessionHasEnded(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	a, b := opened(t, o, addr), opened(t, o, addr)
	heard := make(chan record.Notification, 100)
	p := store.NewProcess()
	if err := a.Listen(t.Context(), p, func(n record.Notification) { heard <- n }); err != nil {
		t.Fatal(err)
	}
	hears := func(want record.Notification) {
		t.Helper()
		for late := time.After(patience); ; { // a notification may come twice
			select {
			case n := <-heard:
				if n == want {
					return
				}
			case <-late:
				t.Fatalf("within %v the listener did not get %+v", patience, want)
			}
		}
	}
	for i := range 3 {
		n := record.Notification{Name: "a", ID: p.NewID(), Token: int64(i + 1), N: 1, Session: session.NewID()}
		if out := b.mustSwap(t, &record.Swap{Name: "a", Old: b.mustLoad(t, "a"), Data: []byte("x"), Notifications: []record.Notification{n}}); !out.Done {
			t.Fatal("a swap on the current version was refused")
		}
		hears(n)
		endSession(t, addr, a.mustConnect(t).conn)
		hears(record.Notification{})
	}
}

// However late an answer is, our estimate of the server's clock is not ahead of what it showed.
func TestTheServersClockIsNotTakenToBeAhead(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t)
	link := testserver.NewLink(t, server.Addr)
	b := opened(t, nil, link.Addr())
	b.mustWrite(t, "a", "x", false)
	for range 3 {
		old := b.mustLoad(t, "a")
		server.Freeze()
		before, done := link.Asked(), make(chan error, 1)
		go func() {
			_, err := b.Swap(t.Context(), &record.Swap{Name: "a", Old: old, Data: []byte("y")})
			done <- err
		}()
		until(t, "the server gets a request", func() bool { return link.Asked() > before })
		time.Sleep(300 * time.Millisecond)
		server.Thaw()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		looked := time.Now().UnixMicro()
		now, latest := b.now()
		if after := time.Now().UnixMicro(); now > after || latest < looked { // the clock is that of this machine
			t.Errorf("our estimate is at most %d µs ahead, and at least %d", latest-looked, now-after)
		}
	}
}

// A claimant that knows that its swap would be refused does not send it, not even if it would be done.
func TestANoteOfALostSwapIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := opened(t, apart(), testserver.SharedZooKeeper(t))
	id := b.mustBegin(t)
	note := record.Note{Key: "a", Data: []byte("note")}
	out, err := b.Swap(t.Context(), &record.Swap{Name: "lost", Data: []byte("data"), Lost: true, Join: &record.Join{Session: id, Notes: []record.Note{note}}})
	if err != nil || !out.Joined || out.Done {
		t.Fatalf("got %+v, %v, want it joined", out, err)
	}
	if r := b.mustLoad(t, "lost"); len(r.Data) > 0 || len(r.Inbox) != 1 {
		t.Errorf("got %+v, want a note and no record", r)
	}
}

// Deleting them one by one would take as many requests.
func TestOldNotificationsAreDeletedWhenTheyAreMany(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	b, c, p := opened(t, o, addr), connOf(t, addr), store.NewProcess()
	heard := make(chan record.Notification, 3*manyLetters)
	if err := b.Listen(t.Context(), p, func(n record.Notification) { heard <- n }); err != nil {
		t.Fatal(err)
	}
	most := 0
	for range 3 * manyLetters {
		if _, _, err := multi(t.Context(), b.mustConnect(t).link, b.letter(&record.Notification{Name: "a", ID: p.NewID(), Token: 1, N: 1})...); err != nil {
			t.Fatal(err)
		}
		<-heard
		nodes, _, err := c.Children(b.mailbox(p))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(nodes))
	}
	if most < manyLetters || most > 2*manyLetters+2 {
		t.Errorf("got up to %d notifications and the node of the process", most)
	}
}

// Notifications that a process had not read when it died are deleted, and those of a live process are not.
func TestNotificationsOfDeadProcessesAreDeleted(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	b, c := opened(t, o, addr), connOf(t, addr)
	dead, lives := store.NewProcess(), store.NewProcess()
	b.mustLoad(t, "a") // this makes the path
	for _, p := range []store.Process{dead, lives} {
		for _, node := range []string{b.mailbox(p), b.mailbox(p) + "/lx", b.mailbox(p) + here} {
			if p == dead && strings.HasSuffix(node, here) {
				continue
			}
			if err := b.makePath(c, node, zk.FlagPersistent); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "notifications of dead processes are deleted", func() bool {
		if err := sweep(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		there, _, err := c.Exists(b.mailbox(dead) + "/lx")
		return err == nil && !there
	})
	for range 20 {
		if err := sweep(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if there, _, err := c.Exists(b.mailbox(lives) + "/lx"); err != nil || !there {
		t.Errorf("a notification of a live process was deleted: %v", err)
	}
}
