package redlock

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// scanPage is how many keys a node scans for one page of a list, and how many names are
// read together.
const scanPage = 500

// glob escapes a prefix so that it matches literally.
var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// List implements [store.Inspector]. It shows the state of a majority of the nodes. A hold is
// granted if it has enough votes, or could have them with the votes of nodes that do not
// answer. List fails if fewer than a majority answer.
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		if name != "" {
			if err := store.CheckName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
			s.states(ctx, []string{s.key(name)}, yield)
			return
		}
		keys, err := s.keys(ctx)
		if err != nil {
			yield(store.State{}, err)
			return
		}
		for page := range slices.Chunk(keys, scanPage) {
			if !s.states(ctx, page, yield) {
				return
			}
		}
	}
}

// keys returns the keys of all names that any node knows.
func (s *Store) keys(ctx context.Context) ([]string, error) {
	need := len(s.nodes)/2 + 1
	if err := s.ready(ctx, need); err != nil {
		return nil, s.ended("list the names", "", err)
	}
	type found struct {
		keys []string
		err  error
	}
	all := make(chan found, len(s.nodes))
	for _, n := range s.nodes {
		s.tasks.Go(func() {
			keys, err := n.scan(ctx)
			all <- found{keys, err}
		})
	}
	seen, errs := map[string]bool{}, []error(nil)
	for range s.nodes {
		f := <-all
		if f.err != nil {
			errs = append(errs, f.err)
		}
		for _, k := range f.keys {
			seen[k] = true
		}
	}
	if done := len(s.nodes) - len(errs); done < need {
		return nil, s.indeterminate("list the names of", s.prefix, done, need, errs)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func (n *node) scan(ctx context.Context) (all []string, err error) {
	n.mu.Lock()
	state, err := n.state, n.err
	n.mu.Unlock()
	if state != up { // a connection attempt would fail, and take long
		return nil, cmp.Or(err, n.failed(errNotYet))
	}
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var keys []string
		keys, cursor, err = n.client.Scan(ctx, cursor, glob.Replace(n.s.prefix)+"{*}", scanPage).Result()
		if err != nil {
			n.gone(err, nil)
			return nil, n.failed(err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// A seen is what the nodes store about a name.
type seen struct {
	answers int
	lasts   []int64
	entries map[store.ID]*sighting
	errs    []error
}

// A sighting is one entry on several nodes.
type sighting struct {
	votes  []copied // accepted copies with the largest number
	places []copied
	broken string
	asks   string
}

type copied struct {
	entry
	now int64 // its node's time
	age int64 // since its first vote on any node; only set by standing
}

func (c copied) left() int64 { return c.ends() - c.now }

// standing returns the copy of an entry that blocks longest, that is, until a quorum of nodes
// is free of it. It may show an entry whose release has not reached all nodes. It sorts the
// copies by their remaining time.
func standing(copies []copied, need, nodes int) copied {
	slices.SortFunc(copies, func(a, b copied) int { return cmp.Compare(a.left(), b.left()) })
	c := copies[max(need-(nodes-len(copies))-1, 0)]
	for _, other := range copies { // so that the age does not change with the node that answers
		if other.p == c.p {
			c.age = max(c.age, other.now-other.since) //mutant:redlock-age-of-first-vote
		}
	}
	return c
}

// show returns the entry for display. held means that it has the votes of a hold; otherwise it waits.
func (c copied) show(held bool) store.Entry {
	s := store.Entry{
		ID: c.id, Weight: c.weight, Want: c.weight, Granted: held,
		Expires: duration(c.expires - c.now), Ends: duration(c.left()),
		Owner: store.ParseOwner(c.owner),
	}
	if held {
		s.Broken = c.reason
		s.Token, s.N, s.Used, s.Age = c.p, c.n, c.p+c.used, duration(c.age)
	} else {
		s.GiveUp = c.reason
	}
	return s
}

// sees adds one node's copy.
func (g *sighting) sees(c copied) {
	g.broken, g.asks = max(g.broken, c.broken()), max(g.asks, c.asks())
	switch {
	case !c.accepted:
		g.places = append(g.places, c)
	case len(g.votes) == 0 || c.p == g.votes[0].p:
		g.votes = append(g.votes, c)
	case c.p > g.votes[0].p:
		g.places = append(g.places, g.votes...)
		g.votes = []copied{c}
	default:
		g.places = append(g.places, c)
	}
}

// states yields the states of the keys that have entries, and reports whether to continue.
func (s *Store) states(ctx context.Context, keys []string, yield func(store.State, error) bool) bool {
	need := len(s.nodes)/2 + 1
	if err := s.ready(ctx, need); err != nil {
		return yield(store.State{}, s.ended("list", "", err))
	}
	names := make([]seen, len(keys))
	out := make(chan reply, len(keys)*len(s.nodes))
	for i, key := range keys {
		names[i].entries = map[store.ID]*sighting{}
		args := s.scripts.view.call(1, key)
		for _, n := range s.nodes {
			n.send(&job{n: n, ctx: ctx, id: store.ID{}, sc: &s.scripts.view, args: args, index: i, out: out})
		}
	}
	s.collect(ctx, out, cap(out), s.timeout, func(r reply) bool {
		names[r.index].add(r, keys[r.index])
		return false
	}, nil, nil)
	for i, key := range keys {
		name, ok := s.name(key)
		if !ok {
			if !yield(store.State{Name: key}, fmt.Errorf("%w: no name has the key %q on %s: it is not of holdfast", store.ErrCorrupt, key, s.address)) {
				return false
			}
			continue
		}
		if names[i].answers < need {
			if !yield(store.State{Name: name}, s.indeterminate("look at", name, names[i].answers, need, names[i].errs)) {
				return false
			}
			continue
		}
		if st := s.state(name, &names[i]); len(st.Entries) > 0 && !yield(st, nil) {
			return false
		}
	}
	return true
}

func (a *seen) add(r reply, key string) {
	err := r.err
	if err == nil && len(r.answer) < 8 {
		err = r.n.strange(r.answer)
	}
	var last int64
	var entries []entry
	if err == nil {
		last, entries, err = r.n.parse(key, r.answer[8:])
	}
	if err != nil {
		a.errs = append(a.errs, err)
		return
	}
	now := float(r.answer)
	a.answers++
	a.lasts = append(a.lasts, last)
	for _, e := range entries {
		if e.ends() <= now {
			continue
		}
		if a.entries[e.id] == nil {
			a.entries[e.id] = &sighting{}
		}
		a.entries[e.id].sees(copied{entry: e, now: now})
	}
}

// state combines the sightings of a name.
func (s *Store) state(name string, a *seen) store.State {
	away := len(s.nodes) - a.answers // the entries of these nodes are unknown
	type placed struct {
		store.Entry
		order int64
		id    string
	}
	var holds, places []placed
	st := store.State{Name: name}
	slices.Sort(a.lasts)
	// A drawn token is on a majority of nodes, but some of those may be down.
	st.Last = a.lasts[min(len(a.lasts)-(len(s.nodes)/2+1)+away, len(a.lasts)-1)]
	// Entries with the most votes come first. No more are shown as held than fit.
	ids := slices.SortedFunc(maps.Keys(a.entries), func(x, y store.ID) int {
		return cmp.Or(cmp.Compare(len(a.entries[y].votes), len(a.entries[x].votes)), bytes.Compare(x[:], y[:]))
	})
	taken, least := int64(0), int64(store.Full)
	for _, id := range ids {
		g := a.entries[id]
		all := append(g.votes, g.places...)
		need := s.votesFor(all[0].limit)
		held := len(g.votes) > 0 && len(g.votes)+away >= need && taken+all[0].weight <= min(least, all[0].limit)
		if held {
			taken, least = taken+all[0].weight, min(least, all[0].limit)
		}
		shown := g.places
		if held || len(shown) == 0 {
			shown = g.votes
		}
		if !held && len(all)+away < need {
			continue // its release has not reached some nodes
		}
		c := standing(shown, need, len(s.nodes))
		if c.reason = g.asks; held {
			c.reason = g.broken
		}
		c.used, c.owner = reportedBy(shown, c)
		if st.Limit == 0 || c.limit < st.Limit {
			st.Limit = c.limit
		}
		p := placed{c.show(held), c.order, id.String()}
		if held {
			holds = append(holds, p)
		} else {
			places = append(places, p)
		}
	}
	for _, some := range [][]placed{holds, places} {
		slices.SortFunc(some, func(a, b placed) int { return cmp.Or(cmp.Compare(a.order, b.order), strings.Compare(a.id, b.id)) })
		for _, p := range some {
			st.Entries = append(st.Entries, p.Entry)
		}
	}
	return st
}

// reportedBy returns the newest token used and the owner, from the copies of an entry. The newest renewal may not be
// on all nodes yet, but if it was answered it is on most of them.
func reportedBy(shown []copied, c copied) (used int64, owner string) {
	used = c.used
	for _, other := range shown {
		if other.p == c.p {
			used = max(used, other.used) //mutant:redlock-newest-renewal-listed
		}
	}
	most, have := 0, map[string]int{}
	for _, other := range shown { // sorted by remaining time: of two equally frequent owners the later one is newer
		if other.p != c.p || other.used != used {
			continue
		}
		if have[other.owner]++; have[other.owner] >= most { //mutant:redlock-owner-of-most-listed
			most, owner = have[other.owner], other.owner
		}
	}
	return used, owner
}

// BreakHold implements [store.Inspector]. It succeeds once a majority of the nodes has done
// it. Nodes that are down can let the hold be renewed only if they come back together with
// enough others for a majority without those that did it.
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	need := len(s.nodes)/2 + 1
	if err := s.ready(ctx, need); err != nil {
		return s.ended("break", b.Name, err)
	}
	reason, now := cmp.Or(b.Reason, "no reason given"), ""
	if b.Now {
		now = "now"
	}
	key := s.key(b.Name)
	args := s.scripts.brk.call(1, key, b.ID.String(), strconv.FormatInt(b.Token, 10), reason, now)
	out := make(chan reply, len(s.nodes))
	for _, n := range s.nodes {
		n.send(&job{n: n, ctx: ctx, id: b.ID, sc: &s.scripts.brk, args: args, out: out})
	}
	var c count
	late := s.collect(ctx, out, len(s.nodes), s.timeout, func(r reply) bool {
		c.add(s, key, r)
		return false
	}, func() bool { return c.done+c.lost >= need }, s.slow)
	switch {
	case c.lost > len(s.nodes)-need: // it cannot have a majority
		return store.ErrLost
	case c.done+c.lost >= need: // a node that lacks the hold has no vote for it
		return nil
	}
	return s.indeterminate("break", b.Name, c.done, need, append(c.errs, late...))
}
