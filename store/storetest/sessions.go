package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Sessioned is a store whose server keeps the time: the claims of a process
// last as long as its session.
type Sessioned struct {
	// Open makes a fresh backing, and returns a function that opens one more
	// store object over it.
	Open func(t *testing.T) func() store.Store

	// End ends the sessions of the store object, as its server does if they are
	// not renewed in time, and returns when their entries have ended. It does not
	// call the store object, which may be notified. An error that took long, as
	// from a server that stood still, has the comparison go on with a fresh
	// backing; one that comes at once fails it.
	End func(t *testing.T, s store.Store) error
}

// DifferentialBySession is Differential for a store whose clock a test cannot set. No
// time passes; instead, the sessions of a process end now and then. Tokens are compared
// by their order: grants that exclude each other must have the model's order, and no two
// tokens are equal. The store may send notifications that the model does not send, but
// must send all that it sends.
func DifferentialBySession(t *testing.T, c Sessioned) {
	t.Helper()
	differential(t, Clocked{Open: func(t *testing.T, _ func() queue.Time) func() store.Store { return c.Open(t) }}, &c)
}

// A pairing maps a grant of the model to the same grant of the store.
type pairing struct {
	weight, limit int64
	model, store  int64 // the first token
	n             int64
}

// endSession ends the sessions of one process: its entries end, as if it had
// died, and it goes on like a new process.
func (d *duel) endSession() {
	d.t.Helper()
	side := d.rng.IntN(len(d.sides))
	s := d.sides[side]
	d.withdraw(side)
	d.begun()
	var lost []known
	var woken []store.Notification
	now := d.clock()
	for _, name := range d.names {
		q := d.model.queue(name.name)
		change := q.Expire(now, name.name, func(p store.Process) bool { return p == s.proc })
		woken = append(woken, change.Woken...)
		name.claims = slices.DeleteFunc(name.claims, func(k known) bool {
			if k.side != side || k.ID.Process() == (store.Process{}) {
				return false
			}
			if d.learned[k.ID] != nil || d.chance(20) {
				lost = append(lost, k)
			}
			return true // the claim is not asked for again: its owner takes a new id
		})
	}
	d.counts["sessions ended"]++
	d.note(now, op{kind: "release", holds: []store.Hold{{Name: "all of process " + s.proc.String()}}}, outcome{})
	before := store.Now()
	if err := d.c2.End(d.t, s.Store); err != nil {
		d.answered(before, fmt.Errorf("%w: the end of sessions: %w", store.ErrUnavailable, err))
		d.fail("the sessions of a process were not ended: %v", err)
	}
	d.notifications(woken)
	for i, k := range lost {
		hold := store.Hold{Name: k.Name, ID: k.ID, TTL: d.unit}
		if p := d.learned[k.ID]; p != nil {
			hold.Token = p.model
		}
		kind := "release"
		if i%2 == 0 {
			kind = "renew"
		}
		d.do(op{kind: kind, side: side, holds: []store.Hold{hold}})
	}
	for _, name := range d.names {
		d.compare(now, name.name)
	}
}

// withdraw withdraws the waiting claims of a process that has other entries too. They may be in several
// sessions, which do not end at the same moment: another process that sees the first one end could grant a
// claim of the second, whose lock delay would then count.
func (d *duel) withdraw(side int) {
	d.t.Helper()
	for _, name := range d.names {
		var all, waits []queue.Entry
		for _, e := range d.model.queue(name.name).Entries {
			if e.ID.Process() != d.sides[side].proc {
				continue
			}
			if all = append(all, e); !e.Granted || e.Want > e.Weight {
				waits = append(waits, e)
			}
		}
		if len(all) < 2 {
			continue
		}
		for i := range waits {
			d.do(op{kind: "release", side: side, holds: []store.Hold{{Name: name.name, ID: waits[i].ID, Token: waits[i].Token, TTL: d.unit}}})
		}
	}
}

// clear breaks an ended entry that still blocks a name by its minimum hold,
// which never ends here. It reports whether there was one.
func (d *duel) clear(s *subject) bool {
	d.t.Helper()
	now := d.clock()
	for _, e := range d.model.queue(s.name).Entries {
		if e.Granted && e.Expires <= now.Clock {
			d.do(op{kind: "break", side: d.rng.IntN(len(d.sides)), broken: store.Break{Name: s.name, ID: e.ID, Token: e.Token, Now: d.chance(50)}})
			return true
		}
	}
	return false
}

// begun notes how many notifications each process has got before an operation.
func (d *duel) begun() {
	for _, s := range d.sides {
		s.mu.Lock()
		s.read = len(s.got)
		s.mu.Unlock()
	}
}

// heed asks for every claim that got a notification, as its owner would.
func (d *duel) heed() {
	d.t.Helper()
	for i, s := range d.sides {
		for {
			s.mu.Lock()
			var h store.Notification
			if s.heeded < len(s.got) {
				h = s.got[s.heeded]
				s.heeded++
			}
			s.mu.Unlock()
			if h.ID == (store.ID{}) {
				break
			}
			d.heedOne(i, h)
		}
	}
}

// knows reports whether the claim is still asked for.
func (d *duel) knows(h store.Notification) bool {
	return slices.ContainsFunc(d.names, func(s *subject) bool {
		return slices.ContainsFunc(s.claims, func(k known) bool { return k.ID == h.ID })
	})
}

func (d *duel) heedOne(side int, h store.Notification) {
	d.t.Helper()
	for _, name := range d.names {
		for _, k := range name.claims {
			if k.ID == h.ID && k.side == side && d.model.entry(name.name, k.ID) != nil {
				d.do(op{kind: "ask", side: side, claim: k.Claim})
				return
			}
		}
	}
}

// heard waits for the notifications that the model sent.
func (d *duel) heard(woken []store.Notification) {
	d.t.Helper()
	for _, h := range woken {
		for _, s := range d.sides {
			if s.proc != h.ID.Process() || !d.knows(h) {
				continue
			}
			limit := time.After(patience)
			for came := false; !came; {
				s.mu.Lock()
				// An earlier notification that was not handled yet also counts.
				came = slices.ContainsFunc(s.got[min(s.read, s.heeded):], func(g store.Notification) bool { return g.ID == h.ID && g.Name == h.Name })
				s.mu.Unlock()
				if came {
					break
				}
				select {
				case <-s.news:
				case <-limit:
					d.compare(d.clock(), h.Name) // if the entries differ, this fails with more detail
					d.fail("after %v there is no notification for %v on %q", patience, h.ID, h.Name)
				}
			}
		}
	}
}

// translated returns the operation as it is sent to the store: with the tokens of the store.
func (d *duel) translated(o op) op {
	o.holds = slices.Clone(o.holds)
	for i := range o.holds {
		h := &o.holds[i]
		if p := d.learned[h.ID]; p != nil && h.Token != 0 {
			// A wrong token stays wrong by the same difference.
			if h.Used != 0 {
				h.Used += p.store - p.model
			}
			h.Token += p.store - p.model
		}
	}
	if p := d.learned[o.broken.ID]; p != nil {
		o.broken.Token = p.store
	} else if d.c2 != nil && o.kind == "break" { // the token was not returned to any owner: an operator reads it in the list
		o.broken.Token = cmp.Or(d.listed(o.broken.Name, o.broken.ID), math.MaxInt64) // or a token that the store cannot rule out
	}
	return o
}

// listed returns the token that the store lists for a hold, or 0.
func (d *duel) listed(name string, id store.ID) int64 {
	d.t.Helper()
	if in, ok := d.sides[0].Store.(store.Inspector); ok {
		before := store.Now()
		for st, err := range in.List(d.ctx, name) {
			if d.answered(before, err); err != nil {
				d.fail("list of %q: got %v", name, err)
			}
			for i := range st.Entries {
				if e := &st.Entries[i]; e.ID == id {
					return e.Token
				}
			}
		}
	}
	return 0
}

// learn compares the tokens that the store and the model have drawn for a claim.
func (d *duel) learn(name string, id store.ID, weight, limit, model, have, n int64) {
	d.t.Helper()
	if model == 0 || have == 0 {
		return
	}
	key := drawnBy{id, model}
	if was := d.drawn[key]; was != nil {
		if was.store != have {
			d.fail("the token of %v changed from %d to %d", id, was.store, have)
		}
		return
	}
	p := &pairing{weight, limit, model, have, n}
	for _, o := range d.order[name] {
		first, second := o, p
		if first.model > second.model {
			first, second = second, first
		}
		apart := o.limit != limit || o.weight+weight > limit
		switch {
		case first.store == second.store:
			d.fail("got token %d twice", have)
		// A release gives back the unused tokens of a block.
		case apart && second.store < first.store+min(first.n, second.model-first.model):
			d.fail("got token %d after %d … %d, although these holds exclude each other", second.store, first.store, first.store+first.n-1)
		}
	}
	d.drawn[key] = p
	d.order[name] = append(d.order[name], p)
	if d.learned[id] == nil {
		d.learned[id] = p
	}
	d.counts["tokens compared"]++
}

// A drawnBy is the key of a pairing: a claim, and a token or upgrade token that
// the model drew for it.
type drawnBy struct {
	id    store.ID
	model int64
}

// crowd is the least number of holders and waiters ahead with which a refusal may be a moment old; see
// [store.Answer].
const crowd = 8

// level compares the tokens of a store's answer with the model's. Then it makes
// them equal, and the values that a store with sessions does not have.
func (d *duel) level(o op, have, want *outcome) {
	d.t.Helper()
	for _, out := range []*outcome{have, want} {
		for i := range o.holds { // an owner without a token does not get the reason of a loss
			if o.holds[i].Token == 0 && strings.HasPrefix(out.Errs[i], "lost") {
				out.Errs[i] = "lost"
			}
		}
	}
	if len(have.Errs) > 0 && have.Errs[0] != "" || len(want.Errs) > 0 && want.Errs[0] != "" {
		if o.kind != "renew" {
			return
		}
	}
	switch o.kind {
	case "ask", "change":
		name, id, limit := o.claim.Name, o.claim.ID, o.claim.Limit
		if o.kind == "change" {
			name, id, limit = o.holds[0].Name, o.holds[0].ID, store.Full
		}
		weight := d.weightOf(name, id)
		d.learn(name, id, weight, limit, want.Answer.Token, have.Answer.Token, int64(want.Answer.N))
		d.learn(name, id, store.Full, limit, want.Answer.UpgradeToken, have.Answer.UpgradeToken, 1)
	case "renew":
		for i := range have.Renewals {
			d.learn(o.holds[i].Name, cmp.Or(o.holds[i].NewID, o.holds[i].ID), store.Full, store.Full, want.Renewals[i].UpgradeToken, have.Renewals[i].UpgradeToken, 1)
		}
	}
	// In a crowd a refusal may be a moment old.
	if h, w := &have.Answer, &want.Answer; o.kind == "ask" && !h.Granted && !w.Granted && h.Holding+h.Waiting >= crowd {
		h.Holders, h.Holding, h.Waiting, h.Until = w.Holders, w.Holding, w.Waiting, w.Until
	}
	// A session may last for less than the time-out of its server.
	if answer := &have.Answer; want.Answer.TTL/2 < answer.TTL && answer.TTL < want.Answer.TTL {
		answer.TTL = want.Answer.TTL
	}
	for _, out := range []*outcome{have, want} {
		a := &out.Answer
		a.Token, a.Last, a.Until, a.UpgradeToken = 0, 0, 0, min(a.UpgradeToken, 1)
		out.Renewals = slices.Clone(out.Renewals)
		for i := range out.Renewals {
			out.Renewals[i].UpgradeToken = min(out.Renewals[i].UpgradeToken, 1)
		}
		if a.Holders = timeless(a.Holders); a.Holding > store.MaxHolders {
			a.Holders = nil // the store chooses which of them it returns
		}
	}
}

// inherit notes that a hold goes on under another id, with its tokens.
func (d *duel) inherit(id, from store.ID) {
	d.learned[id] = d.learned[from]
	for key, p := range d.drawn {
		if key.id == from {
			d.drawn[drawnBy{id, key.model}] = p
		}
	}
}

// weightOf returns the weight that the claim was granted with.
func (d *duel) weightOf(name string, id store.ID) int64 {
	for _, s := range d.names {
		for _, k := range s.claims {
			if s.name == name && k.ID == id {
				return k.Weight
			}
		}
	}
	return store.Full
}

// timeless returns the entries without the values that a store with sessions does not
// have. An upgrade token is stored only when its owner has received it. Holds are in
// no promised order.
func timeless(entries []store.Entry) []store.Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		e := &entries[i]
		e.Token, e.Used, e.UpgradeToken = min(e.Token, 1), 0, 0
		e.Age, e.Expires, e.Ends = 0, 0, 0
	}
	slices.SortStableFunc(entries, func(a, b store.Entry) int {
		if !a.Granted || !b.Granted {
			return 0
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	return entries
}
