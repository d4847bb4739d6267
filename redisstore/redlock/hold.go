package redlock

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A count collects the nodes' answers about one hold.
type count struct {
	done   int
	lost   int
	reason string // of a break
	entry  *entry // as a node returned it, if requested
	asks   *asker // the first waiter that asks the holder to give up
	errs   []error
}

func (c *count) add(s *Store, key string, r reply) {
	switch {
	case r.err != nil:
		c.errs = append(c.errs, r.err)
	case r.answer == "1":
		c.done++
	case r.answer[0] == '1':
		e, a, ok := readRenewal(r.answer[1:])
		if !ok {
			c.errs = append(c.errs, r.n.strange(r.answer))
			return
		}
		c.done++
		if e != nil {
			c.entry = e
		}
		if a != nil && (c.asks == nil || a.place.less(c.asks.place)) { //mutant:redlock-first-that-asks
			c.asks = a
		}
	case r.answer == "A":
		c.lost++
	case r.answer[0] == 'L':
		c.lost++
		c.reason = max(c.reason, r.answer[1:])
	default:
		c.errs = append(c.errs, r.n.common(key, r.answer))
	}
}

// An asker is a waiter that asks the holders to give up, as a node returned it.
type asker struct {
	place
	reason string
}

// readRenewal reads the rest of a node's answer to a renewal.
func readRenewal(text string) (e *entry, a *asker, ok bool) {
	if len(text) < 2 {
		return nil, nil, false
	}
	size := int(le.Uint16([]byte(text)))
	if text = text[2:]; len(text) < size {
		return nil, nil, false
	}
	if size > 0 {
		all, err := parseEntries(text[:size])
		if err != nil || len(all) != 1 {
			return nil, nil, false
		}
		e, text = &all[0], text[size:]
	}
	if text == "" {
		return e, nil, e != nil
	}
	if len(text) <= placeSize {
		return nil, nil, false
	}
	id, err := store.ParseID(text[8:placeSize])
	if err != nil {
		return nil, nil, false
	}
	return e, &asker{place{float(text), id}, text[placeSize:]}, true
}

func (c *count) loss() error {
	if c.reason != "" {
		return &store.LostError{Reason: c.reason}
	}
	return store.ErrLost
}

// need returns how many nodes a hold must be on. It depends on the hold's limit; for a hold
// that this Store did not ask for, on the limit that a node returned.
func (s *Store) need(cl *claim, c *count) int {
	limit := int64(store.Full)
	switch {
	case cl != nil:
		limit = cl.Limit
	case c != nil && c.entry != nil:
		limit = c.entry.limit
	}
	return s.votesFor(limit)
}

// votesFor returns how many nodes a hold with the limit must be on.
func (s *Store) votesFor(limit int64) int {
	if q, err := s.quorum(limit); err == nil {
		return q
	}
	return len(s.nodes)
}

// Renew implements [store.Store]. A hold continues if enough nodes confirm this one renewal.
// Confirmations of two renewals never add up.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	return s.renew(ctx, holds, "shown")
}

// renew renews; shown is empty if the owner has not used the token yet.
func (s *Store) renew(ctx context.Context, holds []store.Hold, shown string) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	pending := 0
	for i := range holds {
		out[i].TTL = holds[i].TTL
		if out[i].Err = s.bounds().CheckRenewal(&holds[i]); out[i].Err == nil {
			pending++
		}
	}
	if pending == 0 {
		return out
	}
	fail := func(err error) []store.Renewal {
		for i := range out {
			if out[i].Err == nil {
				out[i].Err = s.ended("renew", holds[i].Name, err)
			}
		}
		return out
	}
	if err := s.ready(ctx, len(s.nodes)/2+1); err != nil {
		return fail(err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	sent := store.Now()
	counts := make([]count, len(holds))
	claims := make([]*claim, len(holds))
	decided := make([]bool, len(holds))
	mends := make([]mending, len(holds))
	replies := make(chan reply, len(holds)*len(s.nodes))
	limit, expected := s.timeout, 0
	for i := range holds {
		h := &holds[i]
		if out[i].Err != nil {
			continue
		}
		claims[i] = s.claims.get(h.ID)
		limit = min(limit, h.TTL)
		newID, tell := "", ""
		if claims[i] == nil {
			tell = "tell"
		}
		if h.NewID != (store.ID{}) {
			newID = h.NewID.String()
		}
		by := h.ID // decides the lane, so that no later operation on the hold overtakes this one
		if h.NewID.Process() != (store.Process{}) {
			by = h.NewID //mutant:redlock-adopted-in-its-lane
		}
		args := s.scripts.renew.call(1, announced(h.Announce, s.key(h.Name), h.ID.String(), strconv.FormatInt(h.Token, 10), strconv.FormatInt(micros(h.TTL), 10),
			strconv.FormatInt(h.Used, 10), newID, h.Owner, shown, tell)...)
		for _, n := range s.nodes {
			n.send(&job{n: n, ctx: ctx, id: by, sc: &s.scripts.renew, args: args, index: i, out: replies, mends: &mends[i]})
			expected++
		}
	}
	s.collect(ctx, replies, expected, limit, func(r reply) bool {
		i := r.index
		c := &counts[i]
		c.add(s, s.key(holds[i].Name), r)
		need := s.need(claims[i], c)
		if !decided[i] && (c.done >= need || c.lost > len(s.nodes)-need) {
			decided[i] = true
			pending--
		}
		return pending == 0
	}, nil, nil)
	now := store.Now()
	for i := range holds {
		if out[i].Err == nil {
			out[i] = s.renewed(&holds[i], claims[i], &counts[i], &mends[i], sent, now)
		}
	}
	return out
}

// renewed returns the result of the renewal of one hold.
func (s *Store) renewed(h *store.Hold, cl *claim, c *count, m *mending, sent, now store.Instant) store.Renewal {
	need := s.need(cl, c)
	r := store.Renewal{TTL: h.TTL, From: sent} //mutant:redlock-renewal-from
	switch {
	case c.lost > len(s.nodes)-need:
		r.Err = c.loss()
		if cl != nil && cl.held && cl.p == h.Token {
			s.claims.forget(h.ID)
			if c.reason == "" {
				s.giveBack(cl) // the remaining votes are useless; the owner of a broken hold may still release it
			}
		}
		return r
	case c.done < need:
		r.Err = s.indeterminate("renew", h.Name, c.done, need, c.errs)
		if cl != nil && cl.held && cl.p == h.Token && now < cl.deadline { //mutant:redlock-missing-votes-in-time
			// Restoring the missing votes can make the next renewal succeed.
			m.begin(cl, h.TTL) //mutant:redlock-missing-votes-given
		}
		return r
	}
	if cl == nil {
		cl = s.adopt(h, c.entry, sent)
	}
	r.Weight, r.Want = cl.Weight, cl.Weight
	if c.asks != nil {
		r.GiveUp = c.asks.reason //mutant:redlock-renewal-says-who-asks
	}
	if !cl.held || cl.p != h.Token {
		return r
	}
	if now >= cl.deadline { //mutant:redlock-renewal-in-time
		// The votes came after the deadline, and another claim may have held the name in between.
		// The engine has reported the loss, or will.
		r.Err = store.ErrLost
		s.claims.forget(h.ID)
		s.giveBack(cl)
		return r
	}
	if h.Owner != "" {
		cl.Owner = h.Owner
	}
	if h.NewID != (store.ID{}) && h.NewID != h.ID {
		s.claims.rename(h.ID, h.NewID)
	}
	if d := sent.Add(h.TTL - drift(h.TTL)); d > cl.deadline {
		s.claims.mu.Lock()
		cl.deadline = d
		s.claims.mu.Unlock()
	}
	m.begin(cl, h.TTL)
	return r
}

// adopt starts to remember a hold that another Store asked for.
func (s *Store) adopt(h *store.Hold, e *entry, sent store.Instant) *claim {
	cl := &claim{
		Claim: store.Claim{
			Name: h.Name, ID: e.id, Limit: e.limit, Weight: e.weight, TTL: h.TTL, PositionTTL: min(h.TTL, store.MaxPositionTTL),
			MinHold: duration(e.keep), LockDelay: duration(e.delay), Block: e.n, Owner: e.owner, Announce: h.Announce,
		},
		order: e.order, p: e.p, held: true, since: sent, deadline: sent.Add(h.TTL - drift(h.TTL)),
	}
	cl.sent.Store(1<<len(s.nodes) - 1)
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.claims.of[e.id] = cl
	return cl
}

// A mending restores the vote of a hold on nodes that lack it, if the name is free there. It
// does so once a renewal was confirmed before the deadline without these nodes, or had too
// few answers while the hold has not expired. A restored vote counts from the next renewal
// on, which must come before the same deadline: until then only the earlier votes count.
type mending struct {
	mu    sync.Mutex
	nodes []*node // nodes that lack it and were not restored yet
	of    *claim
	whole *claim // the entry to restore, once that is allowed
}

// lacks notes that a node lacks the hold. The answer may be late.
func (m *mending) lacks(n *node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = append(m.nodes, n) //mutant:redlock-lost-vote-repaired
	m.mend()
}

// begin allows restoring: the hold has not ended.
func (m *mending) begin(cl *claim, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	whole := claim{Claim: cl.Claim, order: cl.order, p: cl.p}
	whole.TTL, whole.MinHold = ttl, max(cl.MinHold-store.Now().Sub(cl.since), 0)
	m.of, m.whole = cl, &whole
	cl.sent.Store(math.MaxUint32) // its release goes to all nodes
	m.mend()
}

func (m *mending) mend() {
	if m.whole == nil {
		return
	}
	for _, n := range m.nodes {
		args := n.s.askCall(m.whole, min(m.whole.TTL, store.MaxPositionTTL), "r")
		n.send(&job{n: n, id: m.whole.ID, sc: &n.s.scripts.ask, args: args, vote: m.of})
	}
	m.nodes = nil
}

// Change implements [store.Store]. It is not supported.
func (s *Store) Change(_ context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(&h, turn, weight); err != nil {
		return store.Answer{}, err
	}
	return store.Answer{}, fmt.Errorf("%w: change the weight of %q on %s: %s", store.ErrUnsupported, h.Name, s.address, noUpgrade)
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return s.ended("release", h.Name, err)
	}
	cl := s.claims.get(h.ID)
	if cl != nil && h.Token != 0 && h.Token != cl.p {
		cl = nil // it belongs to another hold
	}
	need := s.need(cl, nil)
	if err := s.ready(ctx, need); err != nil {
		return s.ended("release", h.Name, err)
	}
	var c count
	key := s.key(h.Name)
	free := func() int { return c.done + c.lost }
	open := 0 // nodes that can grant to the next claim at once: up, and taking writes
	late := s.collect(ctx, s.releaseAll(ctx, h, cl), len(s.nodes), s.timeout, func(r reply) bool {
		was := free()
		c.add(s, key, r)
		if free() > was && r.n.grants() { //mutant:redlock-released-for-the-next
			open++
		}
		return open >= need || c.lost > len(s.nodes)-need
	}, nil, nil)
	isLost := h.Token != 0 && c.lost > len(s.nodes)-need
	if cl != nil && (isLost || free() >= need) {
		s.claims.forget(h.ID)
	}
	switch {
	case isLost:
		return c.loss()
	case free() >= need:
		return nil
	}
	return s.indeterminate("release", h.Name, free(), need, append(c.errs, late...))
}

// releasesAtOnce is how many releases of one call are in progress at a time. Those for one
// node share round trips.
const releasesAtOnce = 256

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, releasesAtOnce, func(i int) { out[i] = s.Release(ctx, holds[i]) })
	return out
}

// releaseAll sends the release of a hold to all nodes; with token 0, of everything that the
// claim has.
func (s *Store) releaseAll(ctx context.Context, h store.Hold, cl *claim) <-chan reply {
	token, used := h.Token, strconv.FormatInt(h.Used, 10)
	if token == 0 {
		token, used = cl.number(), "any"
	}
	owed := store.Now().Add(s.maxTTL)
	older := ""
	if cl != nil {
		older = "older"
		cl.released.Store(true)
	}
	args := s.scripts.release.call(1, announced(h.Announce, s.key(h.Name), h.ID.String(), strconv.FormatInt(token, 10), used, older)...)
	out := make(chan reply, len(s.nodes))
	for _, n := range s.nodes {
		n.send(&job{n: n, ctx: ctx, claim: cl, id: h.ID, sc: &s.scripts.release, args: args, out: out, owed: owed})
	}
	return out
}
