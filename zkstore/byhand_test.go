package zkstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// If the node of a record that may be held is deleted by hand, nothing else is granted the name. Claims are refused
// with an error that says what to do, and the holder keeps its lease.
func TestADeletedRecordIsNotRecreated(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	a, b := closing(t, storeOn(t, o, addr)), closing(t, storeOn(t, o, addr))
	for _, s := range []*Store{a, b} {
		s.backend.retention, s.backend.inUse = time.Millisecond, time.Millisecond
	}
	hold := mustHold(t, a, mutex("a"))
	mustHold(t, b, storetest.Mutex(store.NewProcess(), "warm")) // it has all the nodes that it needs
	c := connOf(t, addr)
	node, known := b.backend.nameNode("a"), b.backend.knownNode("a")
	if err := c.Delete(node, -1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, claim := range []store.Claim{mutexTry("a"), mutex("a")} {
			if _, err := b.Ask(t.Context(), claim); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), node) || !strings.Contains(err.Error(), known) {
				t.Errorf("Ask: %v, want ErrCorrupt with %s and %s", err, node, known)
			}
		}
		if there, _, err := c.Exists(node); err != nil || there {
			t.Errorf("the record was recreated: %v", err)
		}
		until(t, "no read of the deleted record is due", func() bool { // it stays there for far longer than the test
			if err := sweep(t.Context(), b.backend); err != nil {
				t.Fatal(err)
			}
			dates, _, err := c.Children(o.Path + "/i")
			for _, date := range dates {
				there, _, failed := c.Exists(o.Path + "/i/" + date + "/a")
				if there || failed != nil {
					return false
				}
			}
			return err == nil
		})
	}
	if r := a.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Errorf("renewal by its holder: %v", r.Err)
	}
	withdrawn(t, a, hold)
	if err := c.Delete(known, -1); err != nil {
		t.Fatal(err)
	}
	if next := mustHold(t, b, mutex("a")); next.Token <= hold.Token {
		t.Errorf("got token %d after %d, want a larger one", next.Token, hold.Token)
	}
}

// A note does not recreate the record either, though it can be left where there is no record.
func TestANoteDoesNotRecreateADeletedRecord(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedZooKeeper(t)
	b, c := opened(t, apart(), addr), connOf(t, addr)
	id := b.mustBegin(t)
	b.mustWrite(t, "a", "x", false)
	if err := c.Delete(b.nameNode("a"), -1); err != nil {
		t.Fatal(err)
	}
	s := &record.Swap{Name: "a", Data: []byte("y"), Join: &record.Join{Session: id, Notes: []record.Note{{Key: "k"}}}}
	if joined, err := b.join(t.Context(), b.mustConnect(t), s); joined || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a join: got %v, %v, want ErrCorrupt", joined, err)
	}
	if there, _, err := c.Exists(b.nameNode("a")); err != nil || there {
		t.Errorf("the record was recreated: %v", err)
	}
}

// A session has ended once both its nodes are gone. If one of them is deleted by hand, its owner is notified, and
// nothing else is granted before.
func TestASessionHasEndedOnceBothItsNodesAreGone(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	b, other, c := opened(t, o, addr), opened(t, o, addr), connOf(t, addr)
	left := func(id session.ID) time.Duration {
		t.Helper()
		all, err := other.Left(t.Context(), []session.ID{id})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	for _, callsFirst := range []bool{true, false} {
		id := b.mustBegin(t)
		one, two := b.callsNode(id), b.renewalNode(id)
		if !callsFirst {
			one, two = two, one
		}
		if err := c.Delete(one, -1); err != nil {
			t.Fatal(err)
		}
		if left(id) <= 0 {
			t.Errorf("the session ended with only %s deleted", one)
		}
		if _, err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
			t.Errorf("renewal without %s: %v, want ErrLost", one, err)
		}
		if err := c.Delete(two, -1); err != nil {
			t.Fatal(err)
		}
		if left(id) > 0 {
			t.Error("the session goes on without its nodes")
		}
	}
}
