package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// unsent returns a Store of one node that is up and sends nothing: requests stay in its lanes.
func unsent(t *testing.T) (*Store, *node) {
	t.Helper()
	s, err := newStore(clientsOf(t, "127.0.0.1:1"), nil, nil) // never contacted
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.first.Do(func() {}) // nor checked
	n := s.nodes[0]
	n.state = up
	for i := range n.lanes {
		n.lanes[i].flying, n.lanes[i].since = true, time.Now()
	}
	return s, n
}

// waiting returns the jobs in the node's lanes. The caller holds n.mu.
func (n *node) waiting() (all []*job) {
	for i := range n.lanes {
		all = append(all, n.lanes[i].waiting...)
	}
	return all
}

func releaseOf(n *node) *job {
	return &job{n: n, id: me.NewID(), sc: &n.s.scripts.release, owed: store.Now().Add(time.Minute)}
}

// A slow node answers that it lacks a hold. The other nodes have confirmed the renewal long before, and the release is queued behind that
// answer.
func TestNoVoteIsRestoredAfterItsRelease(t *testing.T) {
	t.Parallel()
	for _, released := range []bool{false, true} {
		s, n := unsent(t)
		c := mutex("x")
		cl := s.begin(&c)
		cl.held, cl.p = true, 1
		var m mending
		m.begin(cl, c.TTL)
		if released {
			s.releaseAll(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: cl.p}, cl)
		}
		m.lacks(n)
		votes := 0
		for _, j := range n.waiting() {
			if j.isAsk() {
				votes++
			}
		}
		if want := map[bool]int{false: 1}[released]; votes != want {
			t.Errorf("released %v: got %d votes restored, want %d", released, votes, want)
		}
	}
}

// A claim that waits for a node asks it as soon as the node is back. A hold that was released in the meantime must not refuse that ask.
func TestAReturningNodeGetsMissedReleasesFirst(t *testing.T) {
	t.Parallel()
	s, n := unsent(t)
	n.state, n.owed = unknown, []*job{releaseOf(n)}
	s.mu.Lock() // changed wakes waiting claims only after this
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.joined()
	}()
	until(t, "the node is up", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.state == up && len(n.waiting()) == 0 {
			t.Error("the node is in use, but its missed releases were not sent")
		}
		return n.state == up
	})
	s.mu.Unlock()
	<-done
}

// Releases that fail together are still owed to the node, even if the node is found to be back while they are being handled.
func TestReleasesThatFailAsTheirNodeComesBackAreOwed(t *testing.T) {
	t.Parallel()
	for range 200 {
		s, n := unsent(t)
		jobs := make([]*job, 1000)
		for i := range jobs {
			jobs[i] = releaseOf(n)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.exchange(&lane{}, jobs) // no server listens there
		}()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
			}
			n.mu.Lock()
			state, stranded := n.state, n.state == up && len(n.owed) > 0
			n.mu.Unlock()
			if stranded {
				t.Fatal("the node is in use, but its owed releases are not sent")
			}
			if state != up {
				n.joined()
			}
		}
		s.end()
	}
}

// Watch does not wait for a slow node. Notifications that this node sent before it was subscribed to are missed, so the subscription makes all
// waiters poll.
func TestAMailboxOpenedAfterWatchMakesAllWaitersPoll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		late, failed bool
		polls        int
	}{
		{"in time", false, false, 0},
		{"late", true, false, 1},
		{"late and in vain", true, true, 0},
	} {
		open, returned, polls := make(chan error), make(chan struct{}), 0
		w := &mailbox{open: open, returned: returned, sink: func(h store.Notification, _ int64) {
			if h == (store.Notification{}) {
				polls++
			}
		}}
		var err error
		if c.failed {
			err = errNotYet
		}
		if c.late {
			close(returned)
		} else {
			go func() { <-open }()
		}
		w.report(err)
		if polls != c.polls {
			t.Errorf("%s: all waiters poll %d times, want %d", c.name, polls, c.polls)
		}
		if w.report(nil); polls != c.polls+1 {
			t.Errorf("%s, and opened again: all waiters poll %d times, want %d", c.name, polls, c.polls+1)
		}
	}
}

// An adopted hold uses its new id from then on: its release must not overtake the renewal that gives it that id. A detached hold used its old
// id until then.
func TestARenewalThatMovesAHoldIsInTheLaneOfItsOwner(t *testing.T) {
	t.Parallel()
	even, odd := me.NewID(), me.NewID()
	even[len(even)-1], odd[len(odd)-1] = 0, 1
	nobodys := store.Process{}.NewID()
	nobodys[len(nobodys)-1] = 0
	for _, c := range []struct {
		name string
		hold store.Hold
		in   int
	}{
		{"adopted", store.Hold{ID: nobodys, NewID: odd}, 1},
		{"detached", store.Hold{ID: odd, NewID: nobodys}, 1},
		{"renewed", store.Hold{ID: even}, 0},
	} {
		s, n := unsent(t)
		c.hold.Name, c.hold.Token, c.hold.TTL = "x", 1, time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Renew(ctx, []store.Hold{c.hold})
		}()
		in := -1
		until(t, "the renewal is in a lane", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			for i := range n.lanes {
				if len(n.lanes[i].waiting) > 0 {
					in = i
				}
			}
			return in >= 0
		})
		cancel()
		<-done
		if in != c.in {
			t.Errorf("%s: got lane %d, want %d", c.name, in, c.in)
		}
	}
}
