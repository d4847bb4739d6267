package zkstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// The node of a name goes when nobody has used it for a while, and is made again by
// whoever comes then, with all above it that somebody has deleted. Tokens go on.
func TestANodeOfANameIsTidiedUpAndMadeAgain(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, apart(), testserver.SharedZooKeeper(t)))
	c := connOf(t, s.servers[0])
	first := mustHold(t, s, mutex("a"))
	if err := s.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	until(t, "the node of the name is deleted", func() bool {
		there, _, err := c.Exists(s.nameNode("a"))
		return err == nil && !there
	})
	if st := entriesOf(t, s, ""); st.Name != "" {
		t.Errorf("listed is %+v, want nothing", st)
	}
	second := mustHold(t, s, mutex("a"))
	if err := s.Release(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.nameNode("a"), s.path + "/n"} {
		if err := c.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) { // an empty one may have been tidied up
			t.Fatal(err)
		}
	}
	third := mustHold(t, s, mutex("a"))
	if second.Token <= first.Token || third.Token <= second.Token {
		t.Errorf("tokens %d, %d, %d do not increase", first.Token, second.Token, third.Token)
	}
}

// However often the node of a name is deleted between two requests, one at a time
// has the name.
func TestANodeOfANameMayGoAtAnyTime(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	c := connOf(t, addr)
	node := storeOn(t, o, addr).nameNode("a")
	end := make(chan struct{})
	var deleting, working sync.WaitGroup
	var deleted int
	deleting.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			if c.Delete(node, -1) == nil {
				deleted++
			}
		}
	})
	var inside atomic.Int32
	var last atomic.Int64
	for range 3 {
		l := lockerOf(t, time.Minute, storeOn(t, o, addr))
		working.Go(func() {
			for range 20 {
				lease := lockWhenItCan(t, t.Context(), l, "a")
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have it", n)
				}
				if before := last.Swap(lease.Token()); before >= lease.Token() {
					t.Errorf("token %d after %d", lease.Token(), before)
				}
				inside.Add(-1)
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond) // now and then nobody has it
			}
		})
	}
	working.Wait()
	close(end)
	deleting.Wait()
	if deleted == 0 {
		t.Error("it was never deleted")
	}
}

// A transaction has 63 tokens for those who see at the same one that they are
// granted; who is one too many spends one of his own.
func TestMoreReadersThanATransactionHasTokensFor(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, apart(), testserver.SharedZooKeeper(t)))
	hold := mustHold(t, s, mutex("a"))
	var readers []store.Claim
	for range maxBlock + 6 {
		c := mutex("a")
		c.Weight = 1
		if mustAsk(t, s, c).Granted {
			t.Fatal("a reader beside a writer")
		}
		readers = append(readers, c)
	}
	if err := s.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	newest, shared := hold.Token, int64(0)
	seen := map[int64]bool{}
	var holds []store.Hold
	for _, c := range readers {
		a := mustAsk(t, s, c)
		if !a.Granted || a.Token <= hold.Token || seen[a.Token] {
			t.Fatalf("%+v after token %d, or a second time", a, hold.Token)
		}
		if rev := a.Token / maxBlock; a.Token%maxBlock != 0 && shared == 0 {
			shared = rev
		} else if a.Token%maxBlock != 0 && rev != shared {
			t.Fatalf("token %d is of transaction %d, and all have looked at %d", a.Token, rev, shared)
		}
		seen[a.Token], newest = true, max(newest, a.Token)
		holds = append(holds, store.Hold{Name: "a", ID: c.ID, Token: a.Token, TTL: c.TTL})
	}
	writer := mutex("a")
	if mustAsk(t, s, writer).Granted {
		t.Fatal("a writer beside readers")
	}
	for _, h := range holds {
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	if a := mustAsk(t, s, writer); !a.Granted || a.Token <= newest {
		t.Errorf("%+v after token %d", a, newest)
	}
}

// Who waits watches the entry that is in its way, and nothing else.
func TestAWaiterWatchesOnlyTheEntryInItsWay(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, apart(), testserver.SharedZooKeeper(t)))
	if err := s.Watch(t.Context(), me, func(store.Hint) {}); err != nil {
		t.Fatal(err)
	}
	mustHold(t, s, mutex("a"))
	const waiting = 9
	for range waiting {
		mustAsk(t, s, mutex("a"))
	}
	until(t, "each is watched by the next", func() bool { return watches(t, s, "a") == waiting })
}

// watches is how many entries of a name somebody watches. Nothing else of the store's is watched.
func watches(t *testing.T, s *Store, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(says(t, s.servers[0], "wchp")) {
		path := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(path, s.nameNode(name)+"/"):
			n++
		case strings.HasPrefix(path, s.path+"/"):
			t.Fatalf("%s is watched", path)
		}
	}
	return n
}

// A server forgets with a connection what it watches. Who waits watches anew, and hears of what
// happened meanwhile.
func TestAWaiterHearsWhatHappenedWhileItWasCutOff(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	link := testserver.NewLink(t, addr)
	other, s := closing(t, storeOn(t, o, addr)), closing(t, storeOn(t, o, link.Addr()))
	hints := make(chan store.Hint, 10)
	if err := s.Watch(t.Context(), me, func(h store.Hint) { hints <- h }); err != nil {
		t.Fatal(err)
	}
	hold := mustHold(t, other, mutex("a"))
	c := mutex("a")
	c.TTL = 20 * time.Second // its session lasts
	if mustAsk(t, s, c).Granted {
		t.Fatal("two hold it")
	}
	until(t, "it watches", func() bool { return watches(t, other, "a") == 1 })
	link.Cut()
	until(t, "the server has forgotten that", func() bool { return watches(t, other, "a") == 0 })
	if err := other.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	link.Mend()
	until(t, "it is told", func() bool { return len(hints) > 0 })
	if h := <-hints; h.Name != "a" || h.ID != c.ID {
		t.Errorf("the hint is for %+v", h)
	}
	if !mustAsk(t, s, c).Granted {
		t.Error("it is not granted what is free")
	}
}

// says is what a server answers to one of its four letter words.
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

// Rights that ZooKeeper does not know leave nothing half made.
func TestAWrongACLLeavesNothing(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	o.ACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}}
	s := closing(t, storeOn(t, o, addr))
	if _, err := s.Ask(context.WithoutCancel(t.Context()), mutex("a")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("%v, want an ErrDenied", err)
	}
	if there, _, err := connOf(t, addr).Exists(o.Path); err != nil || there {
		t.Errorf("its path is there: %v, %v", there, err)
	}
}

// Who deletes all that is there ends all holds; their owners are told, and the next
// gets in, with a larger token as it is the same ZooKeeper.
func TestAWipeIsToldAndTheNextGetsIn(t *testing.T) {
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
	until(t, "the next is in", func() (in bool) {
		var err error
		a, err = s.Ask(t.Context(), next)
		return err == nil && a.Granted
	})
	if a.Token <= hold.Token {
		t.Errorf("token %d after %d", a.Token, hold.Token)
	}
}

// wipe deletes a node and all below it. An empty one may be tidied up meanwhile.
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
