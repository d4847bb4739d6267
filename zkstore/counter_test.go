package zkstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// A counted server is a real one whose counter of a node's children can be set, in
// its snapshot.
type counted struct {
	*testserver.Server
	data string
}

func countedServer(t *testing.T) *counted {
	t.Helper()
	data := t.TempDir()
	// The digest would have to be made anew, too.
	return &counted{testserver.ZooKeeper(t, "dataDir="+data, "digest.enabled=false"), data}
}

// set stops the server, has the node have made so many children, and starts it again.
func (c *counted) set(t *testing.T, node string, made int32) {
	t.Helper()
	c.Kill()
	c.Restart() // which writes a snapshot of all that it has
	c.Kill()
	all, err := filepath.Glob(filepath.Join(c.data, "version-2", "snapshot.*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("snapshots: %q, %v", all, err)
	}
	newest := slices.MaxFunc(all, func(a, b string) int {
		if len(a) != len(b) { // they are numbered in hexadecimal
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	b, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	// A record is the path, the data, the number of its ACL, and what there is to tell
	// of the node: two transactions, two times and its version are before the counter.
	path := binary.BigEndian.AppendUint32(nil, uint32(len(node)))
	path = append(path, node...)
	at := bytes.Index(b, path)
	if at < 0 {
		t.Fatalf("the snapshot has no node %s", node)
	}
	at += len(path)
	if n := int32(binary.BigEndian.Uint32(b[at:])); n > 0 {
		at += int(n)
	}
	at += 4 + 8 + 4*8 + 4
	binary.BigEndian.PutUint32(b[at:], uint32(made))
	// At the end are a checksum of all before it, and a path.
	const end = 8 + 4 + 1
	if !bytes.HasSuffix(b, []byte{0, 0, 0, 1, '/'}) {
		t.Fatalf("the snapshot ends with %x", b[len(b)-end:])
	}
	binary.BigEndian.PutUint64(b[len(b)-end:], uint64(adler32.Checksum(b[:len(b)-end])))
	if err := os.WriteFile(newest, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Restart()
}

// At its end the counter of a name's node stays where it is, and its numbers tell no
// order any more. Nobody is granted a name by such a number.
func TestNoTwoHoldANameWhoseCounterIsAtItsEnd(t *testing.T) {
	t.Parallel()
	server := countedServer(t)
	first := closing(t, storeOn(t, nil, server.Addr))
	hold := mustHold(t, first, mutex("a"))
	server.set(t, first.nameNode("a"), math.MaxInt32-10)
	until(t, "the store has its session again", func() bool {
		return first.Renew(t.Context(), []store.Hold{hold})[0].Err == nil
	})
	var inside, grants, refused, twice atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		l := lockerOn(t, 30*time.Second, server.Addr)
		all.Go(func() {
			for grants.Load() < 150 && t.Context().Err() == nil {
				lease, err := l.Mutex("a").Lock(t.Context())
				switch {
				case errors.Is(err, store.ErrUnsupported):
					refused.Add(1)
					continue
				case errors.Is(err, holdfast.ErrUnavailable):
					continue
				case err != nil:
					t.Error(err)
					return
				}
				if inside.Add(1) > 1 {
					twice.Add(1)
				}
				grants.Add(1)
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				lease.Release()
			}
		})
	}
	until(t, "they ask", func() bool { return refused.Load() > 0 || len(entriesOf(t, first, "a").Entries) > 4 })
	if err := first.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	t.Logf("%d grants, %d refused", grants.Load(), refused.Load())
	if n := twice.Load(); n > 0 {
		t.Errorf("%d of %d grants with two inside", n, grants.Load())
	}
}

// From so many claims on a name refuses more, until it is empty: then its numbers begin
// again.
func TestANameIsRefusedBeforeItsCounterIsAtItsEnd(t *testing.T) {
	t.Parallel()
	server := countedServer(t)
	s, other := closing(t, storeOn(t, nil, server.Addr)), closing(t, storeOn(t, nil, server.Addr))
	hold := mustHold(t, s, mutex("a"))
	mustHold(t, other, mutex("b")) // its session is there
	server.set(t, s.nameNode("a"), int32(mostCounted)-1)
	ask := func(c store.Claim) (a store.Answer, err error) {
		until(t, "the server answers", func() bool {
			a, err = other.Ask(t.Context(), c)
			return err == nil || store.Definite(err)
		})
		return a, err
	}
	last, over := mutex("a"), mutex("a")
	if a, err := ask(last); err != nil || a.Granted {
		t.Fatalf("the last that has a number: %+v, %v, want it to wait", a, err)
	}
	for range 3 {
		_, err := ask(over)
		if !errors.Is(err, store.ErrUnsupported) || !store.Definite(err) {
			t.Fatalf("one more: %v, want an ErrUnsupported", err)
		}
		for _, says := range []string{`"a"`, "as soon as nobody", other.nameNode("a")} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%q does not say %s", err, says)
			}
		}
		over = mutex("a")
	}
	if st := entriesOf(t, other, "a"); len(st.Entries) != 2 {
		t.Errorf("there are %+v, want the holder and the one that waits", st.Entries)
	}
	until(t, "it is given back", func() bool {
		err := s.Release(t.Context(), hold)
		return err == nil || store.Definite(err)
	})
	a, err := ask(last)
	if err != nil || !a.Granted || a.Token <= hold.Token {
		t.Fatalf("the last, when it is its turn: %+v, %v", a, err)
	}
	if _, err := ask(mutex("a")); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("while it is held: %v, want an ErrUnsupported", err)
	}
	if err := other.Release(t.Context(), store.Hold{Name: "a", ID: last.ID, Token: a.Token}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []store.Claim{mutex("a"), mutexTry("a")} {
		next, err := ask(c)
		if err != nil || !next.Granted || next.Token <= a.Token {
			t.Fatalf("when nobody has it: %+v, %v, want it granted with a token above %d", next, err, a.Token)
		}
		children, _, err := connOf(t, server.Addr).Children(other.nameNode("a"))
		if err != nil || len(children) != 1 || !strings.Contains(children[0], "-000000000") {
			t.Errorf("its nodes are %q, %v, want one with a small number", children, err)
		}
		a = next
		if err := other.Release(t.Context(), store.Hold{Name: "a", ID: c.ID, Token: a.Token}); err != nil {
			t.Fatal(err)
		}
	}
}
