package redlock

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Two majorities share a node, but more than two need share none. So a semaphore needs more votes: enough that never more claims than slots
// are granted, and not one vote more. The test tries every way to give votes. (A claim of several slots counts as that many claims on the same
// nodes.)
func TestASemaphoresQuorumGrantsNoMoreThanItsSlots(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for limit := 2; limit <= 6; limit++ {
			for quorum := n/2 + 1; quorum <= n; quorum++ {
				tooMany := fits(slices.Repeat([]int{limit}, n), limit+1, quorum, 0)
				s := &Store{nodes: make([]*node, n)}
				q, err := s.quorum(int64(limit))
				if err != nil {
					q = n
				}
				if safe := quorum >= q; safe == tooMany {
					t.Errorf("%d nodes, %d slots, %d votes: more holders than slots possible: %v, and the store requires %d votes", n, limit, quorum, tooMany, q)
				}
			}
		}
	}
}

// n slots need n+2 nodes, and the error says so. One node or two allow any number of slots: a lock needs all of them
// too. One slot needs no more nodes than a lock.
func TestSlotsNeedTwoMoreNodesThanThereAreSlots(t *testing.T) {
	for n := 1; n <= maxNodes; n++ {
		s := &Store{nodes: make([]*node, n)}
		for limit := int64(1); limit <= maxNodes+1; limit++ {
			_, err := s.quorum(limit)
			if want := n <= 2 || limit == 1 || int64(n) >= limit+2; (err == nil) != want {
				t.Errorf("%d nodes, %d slots: %v, want support: %v", n, limit, err, want)
			}
			if says := fmt.Sprintf("%d slots need %d nodes, and there are %d:", limit, limit+2, n); err != nil && (!errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%v, want an ErrUnsupported that says %q", err, says)
			}
			most := fmt.Sprintf(", at most %d slots, or a lock for each slot", n-2)
			if err != nil && strings.HasSuffix(err.Error(), most) != (n > 3) {
				t.Errorf("%d nodes: %v, want %q at its end only if there are more than 3", n, err, most)
			}
		}
		if why, lacks := s.Describe().Lacks[store.PromiseSlots]; lacks != (n == 3) || lacks && !strings.HasPrefix(why, "2 slots need 4 nodes, n slots n+2, and there are 3:") {
			t.Errorf("%d nodes lack slots: %v, %q", n, lacks, why)
		}
	}
}

// fits reports whether so many claims can have quorum votes each, if each node has room for so many. It tries all sets of nodes for each
// claim. The claims are alike, so it starts from the set of the claim before.
func fits(room []int, claims, quorum, from int) bool {
	if claims == 0 {
		return true
	}
	for set := from; set < 1<<len(room); set++ {
		if bits.OnesCount(uint(set)) != quorum {
			continue
		}
		left, full := slices.Clone(room), false
		for i := range left {
			left[i] -= set >> i & 1
			full = full || left[i] < 0
		}
		if !full && fits(left, claims-1, quorum, set) {
			return true
		}
	}
	return false
}

// The same holds while a semaphore is in use with two totals. A node has room for the smaller total as long as a claim that counts on it has a
// vote there, and each claim needs the votes for its own total. There are never more holders than the smaller total, if one of them counts on
// that.
func TestWithTwoTotalsNoMoreHoldThanTheSmaller(t *testing.T) {
	for n := 3; n <= 6; n++ {
		s := &Store{nodes: make([]*node, n)}
		for small := 1; small <= 3; small++ {
			for large := small + 1; large <= 4; large++ {
				few, many := s.votesFor(int64(small)), s.votesFor(int64(large))
				for counting := 1; counting <= small+1; counting++ {
					room := make([]twoTotals, n)
					if fitsTwo(room, small, large, counting, small+1-counting, few, many, 0) {
						t.Errorf("%d nodes: %d holders that count on %d slots beside %d that count on %d", n, counting, small, small+1-counting, large)
					}
				}
			}
		}
	}
}

// twoTotals is how many claims have a vote of a node, and whether one of them counts on the smaller total.
type twoTotals struct {
	all   int
	small bool
}

// fitsTwo reports whether so many claims of the smaller total, and then so many of the larger, can get their votes.
func fitsTwo(room []twoTotals, small, large, counting, others, few, many, from int) bool {
	quorum := few
	switch {
	case counting == 0 && others == 0:
		return true
	case counting == 0:
		quorum = many
	}
	for set := from; set < 1<<len(room); set++ {
		if bits.OnesCount(uint(set)) != quorum {
			continue
		}
		with, full := slices.Clone(room), false
		for i := range with {
			if set>>i&1 == 0 {
				continue
			}
			with[i].all++
			with[i].small = with[i].small || counting > 0
			full = full || with[i].all > large || with[i].small && with[i].all > small
		}
		switch {
		case full:
		case counting > 1 && fitsTwo(with, small, large, counting-1, others, few, many, set),
			counting == 1 && fitsTwo(with, small, large, 0, others, few, many, 0),
			counting == 0 && fitsTwo(with, small, large, 0, others-1, few, many, set):
			return true
		}
	}
	return false
}

func slot(name string, limit int64) store.Claim {
	c := mutex(name)
	c.Limit, c.Weight, c.Try = limit, 1, true
	return c
}

// Three slots are on five nodes, and each claimant reaches other nodes: if a majority sufficed for each, five could hold.
func TestOnFiveNodesThreeSlotsAreHeldByThree(t *testing.T) {
	t.Parallel()
	addrs, o := testserver.SharedRedises(t, 5), apart()
	for dead := range 3 {
		name, granted := fmt.Sprint(dead, " dead"), 0
		for i := range 5 {
			sees := slices.Clone(addrs)
			for d := range dead {
				sees[(i+d)%5] = fmt.Sprint("127.0.0.1:", d+1)
			}
			s := trusting(t, clientsOf(t, sees...), o)
			defer s.Close()
			a, err := s.Ask(t.Context(), slot(name, 3))
			switch {
			case dead == 2:
				if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
					t.Errorf("with three of five nodes, where four votes are needed: got %+v, %v, want indeterminate", a, err)
				}
			case err != nil:
				t.Errorf("claimant %d, with %d of five nodes dead: %v", i, dead, err)
			case a.Granted != (i < 3):
				t.Errorf("claimant %d, with %d of five nodes dead: got granted %v", i, dead, a.Granted)
			}
			if a.Granted {
				granted++
			}
		}
		if want := []int{3, 3, 0}[dead]; granted != want {
			t.Errorf("with %d of five nodes dead to each claimant: got %d holders of three slots, want %d", dead, granted, want)
		}
	}
}

// For a slot a majority decides nothing: the claim waits for the fourth node.
func TestASlotWaitsForASlowNodeThatHasToGrantIt(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 5, Options{Timeout: longAnswer})
	// Each node must have a newest token of the name, or the slow node would find the number too small. A node that was not in use yet, or was
	// skipped as late, has none, and is asked again.
	allUp(t, s)
	free(t, s, "x")
	until(t, "all slots are released", func() bool {
		for _, server := range servers {
			value, err := clientsOf(t, server.Addr)[0].Get(t.Context(), s.key("x")).Result()
			if errors.Is(err, redis.Nil) {
				free(t, s, "x")
			}
			if err != nil || len(value) != headSize {
				return false
			}
		}
		return true
	})
	servers[0].Freeze()
	servers[1].Freeze()
	var a store.Answer
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err = s.Ask(t.Context(), slot("x", 3))
	}()
	until(t, "the store waits for the two slow nodes", func() bool { return busy(s) == 2 })
	time.Sleep(3 * s.straggle)
	servers[0].Thaw()
	<-done
	servers[1].Thaw()
	if err != nil || !a.Granted {
		t.Errorf("with one of five nodes slow and one dead: got %+v, %v", a, err)
	}
}

func TestUnderContentionNeverFourHoldThreeSlots(t *testing.T) {
	t.Parallel()
	const claimants, turns = 8, 15
	addrs, o := testserver.SharedRedises(t, 5), apart()
	var mu sync.Mutex
	held, most := 0, 0
	var all sync.WaitGroup
	for range claimants {
		s := trusting(t, clientsOf(t, addrs...), o)
		t.Cleanup(func() { s.Close() })
		all.Go(func() {
			for done := 0; done < turns; {
				c := slot("hot", 3)
				a, err := s.Ask(t.Context(), c)
				if err != nil {
					t.Errorf("Ask: %v", err)
					return
				}
				if !a.Granted {
					continue
				}
				done++
				mu.Lock()
				held++
				most = max(most, held)
				mu.Unlock()
				if r := s.Renew(t.Context(), []store.Hold{{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}})[0]; r.Err != nil {
					t.Errorf("Renew: %v", r.Err)
				}
				mu.Lock()
				held--
				mu.Unlock()
				if err := s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
					t.Errorf("Release: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	if most > 3 {
		t.Errorf("got %d holders at once of 3 slots", most)
	}
	t.Logf("got %d holders at once of 3 slots", most)
}
