package zkstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// says is the answer of a server to one of its four-letter words.
func says(t *testing.T, addr, word string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, word); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An ACL that ZooKeeper does not know leaves nothing half made.
func TestAWrongACLLeavesNothing(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	o.ACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}}
	s := closing(t, storeOn(t, o, addr))
	if _, err := s.Ask(context.WithoutCancel(t.Context()), mutex("a")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("%v, want ErrDenied", err)
	}
	if there, _, err := connOf(t, addr).Exists(o.Path); err != nil || there {
		t.Errorf("the path was created: %v, %v", there, err)
	}
}

// After everything was deleted the backend opens another connection. Calls in flight on the old one are answered all
// the same.
func TestCallsInFlightAreAnsweredAfterADeletionOfAll(t *testing.T) {
	t.Parallel()
	b := opened(t, apart(), testserver.SharedZooKeeper(t))
	d := b.mustConnect(t)
	begun, goes := make(chan struct{}), make(chan struct{})
	answered := make(chan error, 1)
	go func() {
		_, err := ask(context.WithoutCancel(t.Context()), d.link, func(*zk.Conn) (int, error) {
			close(begun)
			<-goes
			return 0, nil
		})
		answered <- err
	}()
	<-begun
	b.leave(d)
	if b.mustConnect(t) == d {
		t.Error("got the old connection")
	}
	if d.over() {
		t.Error("the old connection ended during a request")
	}
	close(goes)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-d.ended
}

// Deleting everything ends all holds. Their owners are notified, and the next claim is granted, with a larger token as
// it is the same ZooKeeper.
func TestAWipeIsReportedAndTheNextIsGranted(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	s := closing(t, storeOn(t, o, addr))
	hold, other := mustHold(t, s, mutex("a")), mustHold(t, s, mutex("b"))
	wipe(t, connOf(t, addr), o.Path)
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; !errors.Is(r.Err, store.ErrLost) {
		t.Errorf("renewal: %v, want ErrLost", r.Err)
	}
	if err := s.Release(t.Context(), other); !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	var a store.Answer
	next := mutex("a")
	until(t, "the next claim is granted", func() (in bool) {
		var err error
		a, err = s.Ask(t.Context(), next)
		return err == nil && a.Granted
	})
	if a.Token <= hold.Token {
		t.Errorf("got token %d after %d, want a larger one", a.Token, hold.Token)
	}
}

// wipe deletes a node and all below it. An empty node may be cleaned up meanwhile.
func wipe(t *testing.T, c *zk.Conn, path string) {
	t.Helper()
	children, _, err := c.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	for _, child := range children {
		wipe(t, c, path+"/"+child)
	}
	if err := c.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
}

// A node that is not of holdfast, or of a newer or an older version, is reported and left alone.
func TestForeignAndNewerNodesAreLeftAlone(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	s := closing(t, storeOn(t, o, addr))
	mustHold(t, s, mutex("a")) // this makes the path
	c := connOf(t, addr)
	for name, x := range map[string]struct {
		data, child string
		want        error
	}{
		"foreign": {"{}", "", store.ErrCorrupt},
		"newer":   {"\x03\x00x", "", store.ErrUnsupported},
		"damaged": {"\x02", "", store.ErrCorrupt},
		"older":   {"", "v1-0123456789abcdef0123456789abcdef-00000001-00000001-0000000000", store.ErrCorrupt},
		"note":    {"", "0000000000000001-00-k-%", store.ErrCorrupt},
	} {
		path := s.backend.nameNode(name)
		for node, data := range map[string]string{path: x.data, path + "/" + x.child: ""} {
			if _, err := c.Create(path, []byte(x.data), 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Fatal(err)
			}
			if node == path || x.child == "" {
				continue
			}
			if _, err := c.Create(node, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		for _, claim := range []store.Claim{mutex(name), mutexTry(name)} {
			if _, err := s.Ask(t.Context(), claim); !errors.Is(err, x.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: Ask: %v, want %v with the node", name, err, x.want)
			}
		}
		if data, stat, err := c.Get(path); err != nil || string(data) != x.data || stat.Version != 0 {
			t.Errorf("%s has changed: got %q at version %d, %v", name, data, stat.Version, err)
		}
	}
	// All are listed. A record that cannot be read is an error with its name.
	listed := 0
	for st, err := range s.List(t.Context(), "") {
		listed++
		if err == nil && st.Name != "a" || err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrUnsupported) || err != nil && !strings.HasPrefix(err.Error(), "list \"") {
			t.Errorf("got %+v listed, %v", st, err)
		}
	}
	if listed != 6 {
		t.Errorf("got %d names listed, want 6", listed)
	}
}

// A server forgets its watches with a connection. A waiter watches again, and learns what happened meanwhile: of a
// grant by its notification, which is still there, and of a session that has ended.
func TestAWaiterLearnsWhatHappenedWhileItWasCutOff(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		addr, o := testserver.SharedZooKeeper(t), apart()
		link := testserver.NewLink(t, addr)
		other, s := closing(t, storeOn(t, o, addr)), closing(t, storeOn(t, o, link.Addr()))
		notifications := make(chan store.Notification, 10)
		if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
			t.Fatal(err)
		}
		hold := mustHold(t, other, mutex("a"))
		c := mutex("a")
		c.TTL, c.PositionTTL = 30*time.Second, store.MaxPositionTTL // long enough for its session to live
		if mustAsk(t, s, c).Granted {
			t.Fatal("two claims hold the lock")
		}
		until(t, "the waiter watches", func() bool { return watches(t, other, "/s/") > 0 })
		link.Cut()
		until(t, "the server has forgotten the watch", func() bool { return watches(t, other, "/s/") == 0 })
		if dies {
			for _, id := range other.Sessions() {
				endSession(t, addr, other.backend.ofOwn(id).conn)
			}
		} else if err := other.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		link.Mend()
		until(t, "the waiter is notified", func() bool { return len(notifications) > 0 })
		if h := <-notifications; h.Name != "a" || h.ID != c.ID || h.Token == 0 {
			t.Errorf("got notification %+v", h)
		}
		if !mustAsk(t, s, c).Granted {
			t.Error("the waiter is not granted the free lock")
		}
	}
}

// watches is the number of watched nodes below a path.
func watches(t *testing.T, s *Store, below string) (n int) {
	t.Helper()
	for line := range strings.Lines(says(t, s.backend.servers[0], "wchp")) {
		if strings.HasPrefix(strings.TrimSpace(line), s.backend.path+below) {
			n++
		}
	}
	return n
}

// A waiter watches the session of the entry ahead, and no other node.
func TestAWaiterWatchesOnlyTheBlockingEntry(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	first := closing(t, storeOn(t, o, addr))
	mustHold(t, first, mutex("a"))
	const waiting = 4
	for range waiting {
		s, p := closing(t, storeOn(t, o, addr)), store.NewProcess()
		if err := s.Watch(t.Context(), p, func(store.Notification) {}); err != nil {
			t.Fatal(err)
		}
		mustAsk(t, s, storetest.Mutex(p, "a"))
	}
	until(t, "each waiter watches the one before it", func() bool { return watches(t, first, "/s/") == waiting })
	if n := watches(t, first, "/"); n != waiting { // the server does not report watches on children
		t.Errorf("got %d nodes watched, want %d", n, waiting)
	}
}

// A name that was not used for its retention time is deleted with everything that is left of it. A name in use stays,
// and is checked later. A name that is recreated continues with larger tokens.
func TestAnUnusedNameIsDeletedAndCanBeRecreated(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	s := closing(t, storeOn(t, o, addr))
	s.backend.retention = 200 * time.Millisecond
	c := connOf(t, addr)
	used, first := mustHold(t, s, mutex("used")), mustHold(t, s, mutex("a"))
	if err := s.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	names := func(below string) (names []string) {
		names, _, err := c.Children(o.Path + below)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	until(t, "the node of the name is deleted", func() bool {
		if err := sweep(t.Context(), s.backend); err != nil {
			t.Fatal(err)
		}
		return len(names("/n")) == 1
	})
	for _, below := range []string{"/n", "/k"} {
		if have := names(below); !slices.Equal(have, []string{"used"}) {
			t.Errorf("below %s: got %q left", below, have)
		}
	}
	now, _ := s.backend.now()
	until(t, "the used name is due for a check in a day", func() bool {
		if err := sweep(t.Context(), s.backend); err != nil {
			t.Fatal(err)
		}
		dates := names("/i")
		return len(dates) == 1 && dates[0] > fmt.Sprintf("%013d", now/1000+inUse.Milliseconds()/2) // empty nodes are cleaned up
	})
	if r := s.Renew(t.Context(), []store.Hold{used})[0]; r.Err != nil {
		t.Error(r.Err)
	}
	if second := mustHold(t, s, mutex("a")); second.Token <= first.Token {
		t.Errorf("got token %d after %d, want a larger one", second.Token, first.Token)
	}
}

// For ZooKeeper -1 is not a version but matches any. No record is written with that version, however often it is
// written.
func TestAReservedVersionIsSkipped(t *testing.T) {
	t.Parallel()
	server := countedServer(t)
	b := backendOn(t, nil, server.Addr)
	defer b.Close()
	swap := func(old record.Record, data string) (out record.Outcome) {
		t.Helper()
		until(t, "the swap is answered", func() bool {
			var err error
			out, err = b.Swap(t.Context(), &record.Swap{Name: "a", Old: old, Data: []byte(data)})
			return err == nil
		})
		return out
	}
	load := func() (r record.Record) {
		t.Helper()
		until(t, "the record is read", func() bool {
			var err error
			r, err = b.Load(t.Context(), "a")
			return err == nil
		})
		return r
	}
	if !swap(record.Record{}, "one").Done {
		t.Fatal("the first swap was refused")
	}
	server.set(t, b.nameNode("a"), -3)
	seen := map[string]bool{}
	var olds []record.Record
	for i := range 5 {
		old := load()
		if version, _ := parseVersion(old.Version); version == -1 || seen[old.Version] {
			t.Fatalf("write %d has version %q", i, old.Version)
		}
		seen[old.Version], olds = true, append(olds, old)
		if !swap(old, fmt.Sprint(i)).Done {
			t.Fatalf("write %d was refused", i)
		}
		for _, late := range olds {
			if swap(late, "late").Done {
				t.Fatalf("a swap on version %q was done after write %d", late.Version, i)
			}
		}
	}
	if version, _ := parseVersion(load().Version); version < 0 {
		t.Errorf("got version %d: the test shows nothing", version)
	}
}

// No epoch has that version either: each swap would be done in it, even one on a record read before a deletion.
func TestAReservedEpochIsSkipped(t *testing.T) {
	t.Parallel()
	server, o := countedServer(t), apart()
	deletes := func() *backend {
		b := opened(t, o, server.Addr)
		b.retention = 100 * time.Millisecond
		return b
	}
	deletes().mustWrite(t, "a", "0", true)
	server.set(t, o.Path+"/i", -3)
	b, c := deletes(), connOf(t, server.Addr)
	for i := range 5 {
		late := opened(t, o, server.Addr)
		old, before := late.mustLoad(t, "a"), late.mustConnect(t).epochNow()
		if before.version == -1 || i == 4 && before.version < 0 {
			t.Fatalf("the node of all dates has version %d after %d deletions", before.version, i)
		}
		until(t, "the record is deleted", func() bool {
			if err := sweep(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			return b.mustLoad(t, "a").Version == ""
		})
		b.mustWrite(t, "a", "new", true)
		out := late.mustSwap(t, &record.Swap{Name: "a", Old: old, Data: []byte("late")})
		if out.Done {
			t.Fatalf("a swap on version %q, from before deletion %d, was done", old.Version, i)
		}
		_, stat, err := c.Exists(o.Path + "/i")
		if err != nil || stat.Version == before.version {
			t.Fatalf("deletion %d had no epoch of its own: got %+v, %v", i, stat, err)
		}
	}
}

// A name can be deleted between a refused swap and the join that follows. The note is left all the same, below a node
// that is no record.
func TestANoteOfANameThatWasDeletedMeanwhileIsLeft(t *testing.T) {
	t.Parallel()
	b := opened(t, apart(), testserver.SharedZooKeeper(t))
	id := b.mustBegin(t)
	s := &record.Swap{Name: "a", Data: []byte("x"), Join: &record.Join{Session: id, Notes: []record.Note{{Key: "k", Data: []byte("note")}}}}
	if joined, err := b.join(t.Context(), b.mustConnect(t), s); err != nil || !joined {
		t.Fatalf("a join without a record: got %v, %v", joined, err)
	}
	r, err := b.Load(t.Context(), "a")
	if err != nil || len(r.Data) > 0 || r.Version == "" || len(r.Inbox) != 1 || r.Inbox[0].Key != "k" {
		t.Fatalf("got %+v, %v, want the note, a version and no data", r, err)
	}
	for n := range b.List(t.Context(), 0) {
		t.Errorf("got %+v listed, want nothing", n)
	}
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("y")}); err != nil || out.Done {
		t.Errorf("a swap on no version: got %+v, %v, want it refused", out, err)
	}
	out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Old: r, Data: []byte("z")})
	if err != nil || !out.Done {
		t.Fatalf("a swap on the current version: got %+v, %v", out, err)
	}
	if r, err = b.Load(t.Context(), "a"); err != nil || string(r.Data) != "z" || len(r.Inbox) > 0 {
		t.Errorf("got %+v, %v, want the record", r, err)
	}
}

// A session that is not renewed ends, though its process lives and its connection breaks: neither pings nor a new
// connection renew it.
func TestAnUnrenewedSessionEndsEvenIfItsConnectionBreaks(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	link := testserver.NewLink(t, addr)
	b, other := backendOn(t, o, link.Addr()), backendOn(t, o, addr)
	defer b.Close()
	defer other.Close()
	id := session.NewID()
	begun := store.Now()
	const ttl = 4 * time.Second
	if _, err := b.Begin(t.Context(), id, ttl); err != nil {
		t.Fatal(err)
	}
	for b.ofOwn(id) != nil {
		left, err := other.Left(t.Context(), []session.ID{id})
		if err != nil {
			t.Fatal(err)
		}
		if left[0] <= 0 {
			break
		}
		if store.Now() > begun.Add(patience) {
			t.Fatal("the session goes on")
		}
		time.Sleep(300 * time.Millisecond)
		link.Cut()
		link.Mend()
	}
}
