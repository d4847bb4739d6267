package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The check finds why a node grants nothing new, and whether the other nodes suffice.
func TestTheCheckFindsNodesThatGrantNothingNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, about, says, on string }{
		{"full", "memory of ", "it is full", "CONFIG SET maxmemory 1"},
		{"read-only", "role of ", "it is read-only", "REPLICAOF 127.0.0.1 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, s := nodes(t, 3, Options{})
			find := func(about string) store.Finding {
				t.Helper()
				all := s.Check(t.Context())
				for _, f := range all {
					if f.About == about {
						return f
					}
				}
				t.Fatalf("no finding about %q in %+v", about, all)
				return store.Finding{}
			}
			for _, server := range servers {
				if f := find(c.about + server.Addr); f.Level() != store.LevelOK {
					t.Errorf("a node that grants: got %s %q", f.Level(), f.Text())
				}
			}
			for away, server := range servers {
				if f := find("nodes"); (f.Err != nil) != (away > 1) || f.Err != nil && !errors.Is(f.Err, store.ErrUnavailable) {
					t.Errorf("%d of 3 nodes grant nothing new: got %s %q", away, f.Level(), f.Text())
				}
				tell(t, clientsOf(t, server.Addr)[0], c.on)
				if f := find(c.about + server.Addr); !f.Warning || !strings.Contains(f.Text(), c.says) {
					t.Errorf("got %s %q, want a warning that %s", f.Level(), f.Text(), c.says)
				}
			}
		})
	}
}

// A node that refuses the login counts as one that is down, even if it was in use until now.
func TestTheCheckCountsNoNodeThatAnswersNothing(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	for away, server := range servers {
		var found store.Finding
		for _, f := range s.Check(t.Context()) {
			if f.About == "nodes" {
				found = f
			}
		}
		if (found.Err != nil) != (away > 1) || found.Err != nil && !errors.Is(found.Err, store.ErrUnavailable) {
			t.Errorf("%d of 3 nodes refuse the login: got %s %q", away, found.Level(), found.Text())
		}
		operator := clientsOf(t, server.Addr)[0]
		tell(t, operator, "CONFIG SET requirepass other")
		tell(t, operator, "CLIENT KILL TYPE normal")
	}
}

// If a node's clock is so far from most others' that no claim gets its vote, the node counts as little as a full one. The check compares
// clocks also while a node is down.
func TestTheCheckFindsNodesWhoseClocksGrantNothing(t *testing.T) {
	t.Parallel()
	servers, set, open := nodesWithClock(t, 3)
	s := open()
	check := func(what string, fails, apart, host bool, off ...bool) {
		t.Helper()
		found := map[string]store.Finding{}
		for _, f := range s.Check(t.Context()) {
			found[f.About] = f
		}
		if f := found["nodes"]; (f.Err != nil) != fails || fails && !errors.Is(f.Err, store.ErrUnavailable) {
			t.Errorf("%s: nodes: got %s %q", what, f.Level(), f.Text())
		}
		if f := found["clocks"]; f.Warning != apart {
			t.Errorf("%s: clocks: got %s %q", what, f.Level(), f.Text())
		}
		if f := found["clock of this host"]; f.Warning != host {
			t.Errorf("%s: this host's clock: got %s %q", what, f.Level(), f.Text())
		}
		for i, off := range off {
			if f := found["clock of "+servers[i].Addr]; f.Warning != off {
				t.Errorf("%s: node %d: got %s %q", what, i, f.Level(), f.Text())
			}
		}
	}
	check("all are right", false, false, false, false, false, false)
	set(time.Minute)
	check("this host is wrong", false, false, true, false, false, false)
	set(0)
	servers[2].SetClock(-5 * time.Second)
	check("one is a little behind", false, true, false, false, false, false)
	servers[2].SetClock(-time.Minute)
	check("one is behind", false, true, false, false, false, true)
	servers[2].SetClock(time.Minute)
	check("one is ahead", false, true, false, false, false, true)
	servers[1].SetClock(-time.Minute)
	check("two are wrong", true, true, false, false, true, true)
	servers[1].SetClock(0)
	servers[2].SetClock(0)
	servers[0].Kill()
	until(t, "the node is out of use", func() bool {
		c := mutex("n")
		c.Try = true
		if a, err := s.Ask(t.Context(), c); err == nil && a.Granted {
			_ = s.Release(t.Context(), store.Hold{Name: "n", ID: c.ID, Token: a.Token})
		}
		return nodesUp(s) == 2
	})
	check("one is away", false, false, false)
	servers[2].SetClock(time.Minute)
	check("one is away, and another ahead", true, true, false, false, false, true)
}

// A node that answers late because the machine is busy does not count as one with a wrong clock.
func TestAClockReadLateIsNotReportedAsApart(t *testing.T) {
	const s = time.Second
	nodes := []*node{{address: "a"}, {address: "b"}, {address: "c"}}
	for _, c := range []struct {
		ahead, within [3]time.Duration
		says          string
	}{
		{[3]time.Duration{0, 3 * s / 2, 0}, [3]time.Duration{0, s, 0}, ""},
		{[3]time.Duration{0, -2 * s, 0}, [3]time.Duration{0, 2 * s, 0}, ""},
		{[3]time.Duration{0, 5 * s, -s}, [3]time.Duration{0, s, 0}, "5s apart"},
		{[3]time.Duration{time.Hour, time.Hour, time.Hour + 2*s}, [3]time.Duration{}, "2s apart"},
	} {
		found := make([]checked, len(nodes))
		for i := range found {
			found[i] = checked{clock: true, ahead: c.ahead[i], within: c.within[i]}
		}
		says := ""
		for _, f := range judgeClocks(nodes, found) {
			if f.About == "clocks" {
				says = f.Text()
			}
		}
		if (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
			t.Errorf("ahead by %v, to within %v: got %q, want %q", c.ahead, c.within, says, c.says)
		}
	}
}
