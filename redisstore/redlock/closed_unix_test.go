//go:build unix

package redlock

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// byNode splits an error about too few nodes as the command does.
func byNode(t *testing.T, err error) (count string, failed map[string]error) {
	t.Helper()
	var e *tooFew
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an error of too few nodes", err)
	}
	count, each := e.ByNode()
	return count, maps.Collect(each)
}

// Whether a node hangs or its port is closed, the error has its address and the cause.
func TestEachNodeThatDidNotAnswerIsNamedWithItsCause(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{Timeout: longAnswer})
	servers[0].Freeze()
	servers[2].Freeze()
	c := mutex("x")
	c.TTL, c.PositionTTL = time.Second, time.Second // that is all the time that an ask has
	var count string
	var failed map[string]error
	until(t, "the third node answers within that time", func() bool { // otherwise it is named like them
		_, err := s.Ask(t.Context(), c)
		count, failed = byNode(t, err)
		return !errors.Is(failed[servers[1].Addr], errLate)
	})
	if count != "1 of 3 nodes agreed, 2 are needed" || len(failed) != 2 || !errors.Is(failed[servers[0].Addr], errLate) || !errors.Is(failed[servers[2].Addr], errLate) {
		t.Errorf("two frozen nodes: got %q, %v", count, failed)
	}
	servers[0].Thaw()
	servers[2].Thaw()

	away, err := New(clientsOf(t, servers[0].Addr, testserver.ClosedPort(t), testserver.ClosedPort(t)), &Options{Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	_, err = away.Ask(t.Context(), mutex("x"))
	count, failed = byNode(t, err)
	if count != "1 of 3 nodes agreed, 2 are needed" && count != "0 of 3 nodes agreed, 2 are needed" || failed[away.nodes[1].address] == nil || failed[away.nodes[2].address] == nil {
		t.Errorf("two closed ports: got %q, %v", count, failed)
	}
}

// Two of three decide that there are too few nodes. The error names the third all the same.
func TestAllNodesThatAreAwayAreNamed(t *testing.T) {
	t.Parallel()
	s, err := New(clientsOf(t, testserver.ClosedPort(t), testserver.ClosedPort(t), testserver.ClosedPort(t)), &Options{Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Ask(t.Context(), mutex("x"))
	if _, failed := byNode(t, err); len(failed) != 3 {
		t.Errorf("got %v named, want all three", failed)
	}
}

// A node that only has to wait is reported by the remaining time alone.
func TestYoungNodesAreReportedByTheirTime(t *testing.T) {
	t.Parallel()
	young, err := New(clientsOf(t, testserver.ClosedPort(t), testserver.Redis(t).Addr, testserver.Redis(t).Addr), &Options{Timeout: longAnswer})
	if err != nil {
		t.Fatal(err)
	}
	defer young.Close()
	_, err = young.Ask(t.Context(), mutex("x"))
	var e *tooFew
	if !errors.As(err, &e) || e.grantsIn < 1 || !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("got %v, want an error with the seconds", err)
	}
	if _, failed := byNode(t, err); len(failed) != 1 || failed[young.nodes[0].address] == nil {
		t.Errorf("got %v named, want only the closed port", failed)
	}
}
