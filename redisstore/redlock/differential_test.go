package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Random operations of three clients run on a majority of nodes and on the model of one node, at the same moment by the same clock. Both must
// give the same answers, and every node that is up must have the same entries. The model's numbers are its own: of tokens only the order has
// to match.
func TestTheMajorityAnswersAsTheModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ nodes, dead int }{"3 nodes": {3, 0}, "3 nodes, one dead": {3, 1}, "5 nodes, two dead": {5, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, steps := uint64(rand.Uint32()), 1_500
			if s := os.Getenv("HOLDFAST_TEST_SEED"); s != "" {
				seed, _ = strconv.ParseUint(s, 10, 64)
			}
			t.Logf("HOLDFAST_TEST_SEED=%d", seed)
			d := &whole{T: t, rng: rand.New(rand.NewPCG(seed, 0)), now: 1_700_000_000_000_000, seen: map[string]int{}}
			addrs := testserver.SharedRedises(t, c.nodes)
			for i := range c.dead {
				addrs[i] = fmt.Sprint("127.0.0.1:", i+1)
			}
			o := apart()
			o.Timeout = longAnswer
			for range 3 {
				s, err := newStore(clientsOf(t, addrs...), o, func() int64 { return d.now })
				if err != nil {
					t.Fatal(err)
				}
				s.trusts = true
				t.Cleanup(func() { s.Close() })
				if err := s.ready(t.Context(), c.nodes); err != nil {
					t.Fatal(err)
				}
				d.stores = append(d.stores, s)
			}
			matters := []string{
				"ask granted", "ask refused", "ask mismatch", "try granted", "try refused", "renew done", "renew lost", "renamed",
				"release done", "release lost", "withdrawn", "break done", "break lost", "minimum hold or delay in the way", "two readers",
			}
			for step := 0; step < steps || step < 4*steps && rare(d.seen, matters, 3) != ""; step++ {
				if step%200 == 0 {
					d.begin(fmt.Sprint("name ", step))
				}
				d.step()
			}
			t.Log(d.seen)
			if what := rare(d.seen, matters, 3); what != "" {
				t.Errorf("got %q too seldom in %d steps", what, 4*steps)
			}
		})
	}
}

// rare returns one of those that were seen fewer than least times, or an empty string.
func rare(seen map[string]int, of []string, least int) string {
	for _, what := range of {
		if seen[what] < least {
			return what
		}
	}
	return ""
}

type whole struct {
	*testing.T
	rng     *rand.Rand
	now     int64
	stores  []*Store
	seen    map[string]int
	history []string

	name   string
	model  *model
	most   int64 // the largest token so far
	owners []*owning
}

// owning is an id, its owner, and the tokens of its newest grant.
type owning struct {
	s     *Store
	id    store.ID
	order int64
	p     int64 // of the newest ask, in the model
	own   int64 // the token in the model, 0 if there is none
	token int64 // the token in the store
	n     int
	left  bool // it was released or its loss was reported; the id is not used again
}

// remembered is what the store knew of the claim before an operation.
type remembered struct{ there, held, placed bool }

func (d *whole) begin(name string) {
	d.name, d.model, d.most, d.owners = name, &model{}, 0, nil
	for i := range 6 {
		d.owners = append(d.owners, &owning{s: d.stores[i%len(d.stores)], id: me.NewID()})
	}
}

func (d *whole) step() {
	d.now += int64(d.rng.IntN(400_000)) - 20_000 // sometimes back
	if d.rng.IntN(6) == 0 {
		d.now += int64(d.rng.IntN(25_000_000))
	}
	kind := d.rng.IntN(22)
	o := d.owners[d.rng.IntN(len(d.owners))]
	if i := slices.IndexFunc(d.owners, func(o *owning) bool { return o.token != 0 }); (kind < 2 || kind >= 11) && i >= 0 && d.rng.IntN(3) > 0 {
		o = d.owners[i] // most steps about a hold pick an owner that has one
	}
	var was remembered
	if cl := o.s.claims.get(o.id); cl != nil {
		was = remembered{true, cl.held, cl.place != 0}
	}
	switch {
	case kind < 11 && o.left:
		*o = owning{s: o.s, id: me.NewID()}
		d.ask(o, remembered{})
	case kind < 11:
		d.ask(o, was)
	case kind < 15:
		d.renew(o, was)
	case kind < 20:
		d.release(o, was)
	case kind < 21:
		d.breaks(o)
	default: // a new claimant
		*o = owning{s: o.s, id: me.NewID()}
	}
	d.settled()
	for _, s := range d.stores {
		s.claims.timeless()
	}
	d.same()
}

// timeless stops the Store's memory from expiring by its own clock: here the test sets the time.
func (c *claims) timeless() {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := store.Now().Add(time.Hour)
	for _, cl := range c.of {
		if cl.place != 0 {
			cl.place = end
		}
		if cl.deadline != 0 {
			cl.deadline = end
		}
	}
}

func (d *whole) did(format string, args ...any) {
	d.history = append(d.history, fmt.Sprintf("at %d ", d.now)+fmt.Sprintf(format, args...))
}

func (d *whole) fail(format string, args ...any) {
	d.Helper()
	d.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(d.history[max(0, len(d.history)-15):], "\n"))
}

// outcome describes an error in one word.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, store.ErrLost):
		return "lost"
	case errors.Is(err, store.ErrMismatch):
		return "mismatch"
	}
	return err.Error()
}

func (d *whole) ask(o *owning, had remembered) {
	c := mutex(d.name)
	c.ID, c.TTL, c.PositionTTL = o.id, 50*time.Second, 8*time.Second
	c.Weight, c.Block, c.Owner = []int64{1, 1, store.Full, store.Full, store.Upgradeable}[d.rng.IntN(5)], d.rng.IntN(9), strings.Repeat("o", d.rng.IntN(4))
	if d.rng.IntN(25) == 0 {
		c.Limit, c.Weight = 1, 1
	}
	if d.rng.IntN(3) == 0 {
		c.MinHold, c.LockDelay = time.Duration(d.rng.IntN(60_000_000))*time.Microsecond, time.Duration(d.rng.IntN(9_000_000))*time.Microsecond
	}
	c.Try = d.rng.IntN(4) == 0
	sent := exchanges(o.s)
	a, err := o.s.Ask(d.Context(), c)
	d.settled()
	d.reach(o.s, sent)
	d.did("ask %+v: %+v, %v", c, a, err)
	if had.held {
		d.askAgain(o, a, err)
		return
	}
	if !had.there {
		o.order = d.now
	} else if had.placed {
		c.Try = false // a claim with a position keeps it
	}
	if !d.model.there {
		d.model.last = d.now
	}
	o.p = max(d.now, d.model.last+1, o.p+1)
	e := entry{id: o.id, order: o.order, p: o.p, limit: c.Limit, weight: c.Weight, n: c.Tokens(), owner: c.Owner, keep: micros(c.MinHold), delay: micros(c.LockDelay)}
	mode, what := "", "ask "
	if c.Try {
		mode, what = "t", "try "
	}
	was := slices.Clone(d.model.q)
	want := d.model.ask(d.now, e, micros(c.TTL), micros(c.PositionTTL), mode)
	d.model.there = true
	switch got := outcome(err); {
	case want == 'O':
		if err != nil || !a.Granted {
			d.fail("the store returns %+v, %v, the model a grant", a, err)
		}
		if a.Token <= d.most || a.N != c.Tokens() || a.Last < a.Token+int64(a.N)-1 {
			d.fail("token %d of %d, the newest %d, after %d", a.Token, a.N, a.Last, d.most)
		}
		d.most = a.Token + int64(a.N) - 1
		o.token, o.own, o.n = a.Token, o.p, a.N
		d.seen[what+"granted"]++
	case want == 'R':
		if err != nil || a.Granted {
			d.fail("the store returns %+v, %v, the model a refusal", a, err)
		}
		d.refused(o, a)
		if c.Try {
			d.model.release(d.now, o.id, o.p, 0, true, false)
		}
		d.seen[what+"refused"]++
	case want == 'L' && got == "lost", want == 'M' && got == "mismatch":
		d.model.release(d.now, o.id, o.p, 0, true, false)
		o.left = got == "lost"
		d.seen["ask "+got]++
	default:
		d.fail("the store returns %+v, %v, the model %c, from %+v", a, err, want, was)
	}
	if want != 'O' {
		o.token, o.own = 0, 0
	}
}

// askAgain checks an ask of a holder: it returns the same token, and acts like a renewal by an owner that has not shown the token.
func (d *whole) askAgain(o *owning, a store.Answer, err error) {
	i := d.model.find(o.id)
	shown := i >= 0 && d.model.q[i].shown
	want := d.model.renew(d.now, o.id, o.own, micros(50*time.Second), 0, store.ID{}, "")
	if want == '1' {
		d.model.q[d.model.find(o.id)].shown = shown
	}
	if (want == '1') != (err == nil && a.Granted && a.Token == o.token) || want != '1' && outcome(err) != "lost" {
		d.fail("ask again by the holder of %d: got %+v, %v, the model returns %c", o.token, a, err, want)
	}
	if want != '1' {
		d.seen["ask lost"]++
		d.lost(o, err)
	}
}

// lost does what a client does when its loss is reported: it releases what may be left, unless somebody has broken the hold.
func (d *whole) lost(o *owning, err error) {
	var broken *store.LostError
	if !errors.As(err, &broken) || broken.Reason == "" {
		d.model.release(d.now, o.id, o.own, 0, true, false)
	}
	o.token, o.own, o.left = 0, 0, true
}

// refused compares the reported blockers, and for how long they block.
func (d *whole) refused(o *owning, a store.Answer) {
	var holders []store.ID
	var untils, placed []int64
	others, passed, placesAhead := 0, false, false
	for _, e := range d.model.q {
		if e.id == o.id {
			passed = true
			continue
		}
		if !e.granted && passed {
			continue
		}
		others++
		placed = append(placed, e.ends()-d.now)
		placesAhead = placesAhead || !e.granted
		if e.granted && e.accepted {
			holders, untils = append(holders, e.id), append(untils, e.ends()-d.now)
		}
	}
	if len(holders) == 0 || placesAhead {
		untils = placed
	}
	var said []store.ID
	for _, h := range a.Holders {
		said = append(said, h.ID)
	}
	if !slices.Equal(said, holders[:min(len(holders), store.MaxHolders)]) || a.Holding+a.Waiting != others || a.Until != duration(max(slices.Min(untils), 1)) {
		d.fail("refusal: got %+v, want of the model %v, %d in all, %v", a, holders, others, untils)
	}
}

// renew renews for at least as long as a stalling machine may need for the answers.
func (d *whole) renew(o *owning, had remembered) {
	ttl, u, newID := time.Duration(5+d.rng.IntN(46))*time.Second, int64(d.rng.IntN(12)), store.ID{}
	if d.rng.IntN(5) == 0 {
		newID = me.NewID()
	}
	owner := []string{"", "", "another"}[d.rng.IntN(3)]
	r := o.s.Renew(d.Context(), []store.Hold{{Name: d.name, ID: o.id, Token: max(o.token, 1), TTL: ttl, Used: o.token + u, NewID: newID, Owner: owner}})[0]
	want := d.model.renew(d.now, o.id, max(o.own, 1), micros(ttl), o.own+u, newID, owner)
	d.did("renew %v, token %d, for %v as %v: %v, by the model %c", o.id, o.token, ttl, newID, r.Err, want)
	if got := outcome(r.Err); (want == '1') != (got == "done") || want != '1' && got != "lost" {
		d.fail("renewal: got %v, the model returns %c", r.Err, want)
	}
	d.seen["renew "+outcome(r.Err)]++
	if want == '1' && newID != (store.ID{}) {
		o.id = newID
		d.seen["renamed"]++
	}
	if want != '1' && had.held {
		d.lost(o, r.Err)
	}
}

func (d *whole) release(o *owning, had remembered) {
	h, own := store.Hold{Name: d.name, ID: o.id, Token: o.token}, o.own
	if d.rng.IntN(4) == 0 {
		h.Token, own = o.token+1, o.own+1 // no hold has this token
	}
	if withdraw := o.token == 0 || d.rng.IntN(5) == 0; withdraw {
		h.Token = 0
	}
	u := int64(0)
	if h.Token != 0 && d.rng.IntN(2) == 0 {
		u = 1 + int64(d.rng.IntN(o.n))
		h.Used = h.Token + u - 1
	}
	err := o.s.Release(d.Context(), h)
	before := d.model.last
	var want byte
	if h.Token == 0 {
		p := int64(1) << 60
		if had.there {
			p = o.p
		}
		want = d.model.release(d.now, o.id, p, 0, true, false)
		d.seen["withdrawn"]++
	} else {
		used := int64(0)
		if u > 0 {
			used = own + u - 1
		}
		want = d.model.release(d.now, o.id, own, used, false, h.Token == o.token && had.there)
		d.seen["release "+outcome(err)]++
	}
	d.did("release %+v: %v, by the model %c", h, err, want)
	if got := outcome(err); (want == '1') != (got == "done") || want != '1' && got != "lost" {
		d.fail("release: got %v, the model returns %c", err, want)
	}
	if d.model.last < before { // part of the block was given back
		d.most -= before - d.model.last
	}
	if o.s.claims.get(o.id) == nil {
		o.token, o.own, o.left = 0, 0, true
	}
}

func (d *whole) breaks(o *owning) {
	at := d.rng.IntN(2) == 0
	u := int64(d.rng.IntN(3))
	err := d.stores[d.rng.IntN(len(d.stores))].BreakHold(d.Context(), store.Break{Name: d.name, ID: o.id, Token: o.token + u, Reason: "because", Now: at})
	want := d.model.breaks(d.now, o.id, o.own+u, "because", at)
	d.did("break %v, token %d + %d, now %v: %v, by the model %c", o.id, o.token, u, at, err, want)
	if got := outcome(err); (want == '1') != (got == "done") || want != '1' && got != "lost" {
		d.fail("break: got %v, the model returns %c", err, want)
	}
	d.seen["break "+outcome(err)]++
}

// exchanges returns how many exchanges each node has had.
func exchanges(s *Store) (all []int) {
	for _, n := range s.nodes {
		n.mu.Lock()
		all = append(all, n.measured)
		n.mu.Unlock()
	}
	return all
}

// reach makes each node do what every operation does, remove expired entries and grant waiters, if the node got no part of an ask. That
// happens when the ask was withdrawn before it was sent to the node.
func (d *whole) reach(s *Store, before []int) {
	now := exchanges(s)
	if slices.Equal(now, before) {
		return // no node got anything: it is no operation
	}
	for i, n := range s.nodes {
		if now[i] == before[i] {
			out := make(chan reply, 1)
			id := me.NewID()
			n.send(&job{n: n, id: id, sc: &s.scripts.release, args: s.scripts.release.call(1, s.key(d.name), id.String(), "1", "any", ""), out: out})
			<-out
		}
	}
}

// settled waits until all nodes are idle: a call returns before the last of them has got the request.
func (d *whole) settled() {
	for _, s := range d.stores {
		idle(d, s)
	}
}

// same compares the entries of the nodes, and the listing, with the model.
func (d *whole) same() {
	s := d.stores[d.rng.IntN(len(d.stores))]
	readers := 0
	for _, e := range d.model.q {
		if e.granted && e.accepted && e.weight == 1 && e.limit != 1 {
			if readers++; readers == 2 {
				d.seen["two readers"]++
			}
		}
		if e.expires <= d.now && e.ends() > d.now {
			d.seen["minimum hold or delay in the way"]++
		}
	}
	for _, n := range s.nodes {
		n.mu.Lock()
		state := n.state
		n.mu.Unlock()
		if state != up {
			continue
		}
		value, err := n.client.Get(d.Context(), s.key(d.name)).Result()
		if err != nil && err != redis.Nil {
			d.Fatal(err)
		}
		_, have, err := n.parse(s.key(d.name), value)
		want := slices.Clone(d.model.q)
		for i := range want {
			if i < len(have) {
				want[i].p = have[i].p // its own
			}
		}
		if err != nil || !slices.Equal(have, want) {
			d.fail("%s has\n%+v, %v\nthe model has\n%+v", n.address, have, err, want)
		}
	}
	var listed []store.Entry
	for st, err := range s.List(d.Context(), d.name) {
		if err != nil {
			d.fail("list: %v", err)
		}
		listed = st.Entries
	}
	held, left := map[store.ID]bool{}, 0
	for _, e := range d.model.q {
		if e.ends() > d.now {
			held[e.id], left = e.granted && e.accepted, left+1
		}
	}
	for _, e := range listed {
		if granted, ok := held[e.ID]; !ok || granted != e.Granted {
			d.fail("listed: %+v, the model has %+v", listed, d.model.q)
		}
	}
	if len(listed) != left {
		d.fail("listed: %+v, the model has %+v", listed, d.model.q)
	}
}
