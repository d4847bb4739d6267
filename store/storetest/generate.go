package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A subject is a name that random operations share, and the newest claims for
// it, including dead ones.
type subject struct {
	name   string
	limit  int64
	claims []known
}

// A known claim is one that was sent, with the process that sent it.
type known struct {
	store.Claim
	side int
}

// subjects makes the names: locks, semaphores, and one that is hard to quote.
func (d *duel) subjects() {
	tail := random()
	d.names = []*subject{
		{name: "a/" + tail, limit: store.Full},
		{name: longName("b {"+tail+"}\x00\n'\"ü🔒", "ü", store.MaxName), limit: store.Full},
	}
	if !d.lacks(store.PromiseSlots) {
		d.names = append(d.names, &subject{name: longName("c/", tail+"c", 300), limit: 3}, &subject{name: longName("c/", tail+"C", 300), limit: 2}, &subject{name: "d/" + tail, limit: store.MaxSlots})
	}
}

func (d *duel) lacks(p store.Promise) bool { _, ok := d.d.Lacks[p]; return ok }

// chance is true n times in a hundred.
func (d *duel) chance(n int) bool { return d.rng.IntN(100) < n }

// process and id use plain letters for the first process, so that an owner can
// contain them.
func (d *duel) process(i int) (p store.Process) { d.fill(p[:], i == 0); return p }

func (d *duel) id(side int) (id store.ID) {
	p := d.sides[side].proc
	copy(id[:], p[:])
	d.fill(id[len(p):], side == 0)
	return id
}

func (d *duel) fill(b []byte, letters bool) {
	for i := range b {
		b[i] = byte(d.rng.Uint32())
		if letters {
			b[i] = 'a' + b[i]%26
		}
	}
}

// turn may let some time pass, and does one random operation.
func (d *duel) turn() {
	d.t.Helper()
	if d.c2 != nil {
		d.heed()
	}
	switch n := d.rng.IntN(1000); {
	case d.c2 != nil:
		if n < 15 {
			d.endSession()
			return
		}
	case n < 150:
		d.advance(time.Duration(1+d.rng.IntN(int(d.unit/d.d.Tick))) * d.d.Tick)
	case n < 210:
		d.advance(d.unit)
	case n < 230:
		d.advance(time.Duration(1+d.rng.IntN(4)) * d.unit)
	case n < 232:
		d.advance(30 * d.unit)
	case n < 240:
		d.leap()
	case n < 258:
		d.advance(-time.Duration(1+d.rng.IntN(int(d.unit/d.d.Tick))) * d.d.Tick)
		d.counts["clock set back"]++
	}
	if d.sent.kind != "" && d.chance(7) && !d.over(d.sent) {
		d.counts["repeats"]++
		d.do(d.sent) // as if its answer was lost
		return
	}
	s := d.names[d.rng.IntN(len(d.names))]
	k, found := d.known(s)
	if d.c2 != nil && d.chance(25) && d.clear(s) {
		return
	}
	if d.c2 != nil && found && d.model.entry(s.name, k.ID) == nil {
		found = d.chance(30) // to renew or release an expired hold
		if found {
			d.do(op{kind: []string{"renew", "release"}[d.rng.IntN(2)], side: k.side, holds: []store.Hold{d.hold(k)}})
			return
		}
	}
	if d.c2 != nil && found && k.ID.Process() == (store.Process{}) {
		d.rename(s, k) // it belongs to no process, and can only be adopted
		return
	}
	switch n := d.rng.IntN(100); {
	case n < 26 || !found:
		d.do(op{kind: "ask", side: d.fresh(s), claim: s.claims[len(s.claims)-1].Claim})
	case n < 43:
		d.counts["repeats"]++
		k.GiveUp = d.asksFor(20)
		d.do(op{kind: "ask", side: k.side, claim: k.Claim})
	case n < 56:
		d.do(d.renewal())
	case n < 60 && !d.lacks(store.PromiseDetach):
		d.rename(s, k)
	case n < 68 && !d.lacks(store.PromiseUpgrade):
		d.change()
	case n < 86:
		d.do(op{kind: "release", side: k.side, holds: []store.Hold{d.hold(k)}})
	case n < 93:
		d.poll(s, k)
	default:
		d.breaking(k)
	}
}

// over reports whether the operation asks for a claim that has ended, on a
// store that remembers that for longer than the model does.
func (d *duel) over(o op) bool {
	return d.c2 != nil && (o.kind == "ask" || o.kind == "poll") && d.model.entry(o.claim.Name, o.claim.ID) == nil
}

// known returns a claim for the name that was sent before; found is false if
// there is none. It prefers claims that have an entry.
func (d *duel) known(s *subject) (k known, found bool) {
	if len(s.claims) == 0 {
		return k, false
	}
	for range 6 {
		k = s.claims[d.rng.IntN(len(s.claims))]
		if d.model.entry(s.name, k.ID) != nil {
			break
		}
	}
	return k, true
}

// fresh adds a new claim to the subject, and returns which process sends it.
func (d *duel) fresh(s *subject) int {
	side := d.rng.IntN(len(d.sides))
	limit := s.limit
	if d.chance(6) && !d.lacks(store.PromiseSlots) {
		limit = []int64{store.Full, 2, 3, 4}[d.rng.IntN(4)]
	}
	var weight int64
	switch limit {
	case store.Full:
		weight = []int64{store.Full, store.Full, 1, 1, 1, store.Upgradeable, store.Upgradeable}[d.rng.IntN(7)]
	case store.MaxSlots:
		weight = []int64{1, limit, limit - 1, limit / 2}[d.rng.IntN(4)]
	default:
		weight = 1 + d.rng.Int64N(limit)
	}
	c := d.claim(side, s.name, limit, weight)
	c.Try = d.chance(40)
	c.TTL = d.some(1, 6)
	c.PositionTTL = min(d.some(1, 4), c.TTL, store.MaxPositionTTL)
	if d.c2 != nil {
		c.PositionTTL = c.TTL // no time passes
	}
	if d.chance(70) && !d.lacks(store.PromiseBlock) {
		c.Block = []int{2, 5, 64, store.MaxBlock + 1}[d.rng.IntN(4)]
		if most := d.d.MaxBlock; most > 0 {
			c.Block = min(c.Block, most)
		}
	}
	often := 30
	if d.c2 != nil { // no minimum hold ends here
		often = 4
	}
	if d.chance(often) && !d.lacks(store.PromiseMinHold) {
		if c.MinHold = d.some(1, 8); d.chance(8) && d.ages() {
			c.MinHold = d.years()
		}
	}
	if d.chance(30) && !d.lacks(store.PromiseLockDelay) {
		c.LockDelay = d.some(1, 4)
	}
	if d.chance(30) && len(s.claims) > 0 { // an owner whose text looks like another entry
		other := s.claims[d.rng.IntN(len(s.claims))]
		note := other.ID.String()
		if other.side == 0 {
			note = string(other.ID[:])
		}
		c.Owner = store.Owner{Host: "h", PID: side, Program: note, Note: note + "|" + note}.Stored()
	}
	if c.Limit < store.MaxSlots && d.chance(25) && !d.lacks(store.PromiseTotals) { // of a version with one more slot
		c.Limit++
	}
	c.GiveUp = d.asksFor(20)
	if len(s.claims) > 12 {
		i := slices.IndexFunc(s.claims, func(k known) bool { return d.model.entry(s.name, k.ID) == nil })
		s.claims = slices.Delete(s.claims, max(i, 0), max(i, 0)+1)
	}
	s.claims = append(s.claims, known{c, side})
	return side
}

// asksFor returns a reason to give up, often times in a hundred; otherwise empty.
func (d *duel) asksFor(often int) string {
	if !d.chance(often) {
		return ""
	}
	reason := "reason " + strings.Repeat("ü'", d.rng.IntN(20))
	if d.chance(20) {
		reason = "\x01" + reason // as the stored reason of a hold broken with Now begins
	}
	return reason
}

func (d *duel) claim(side int, name string, limit, weight int64) store.Claim {
	place := min(6*d.unit, store.MaxPositionTTL)
	if d.c2 != nil {
		place = 6 * d.unit
	}
	return store.Claim{
		Name: name, ID: d.id(side), Limit: limit, Weight: weight, TTL: 6 * d.unit, PositionTTL: place,
		Owner: store.Owner{Host: "host", PID: side, Program: "differential"}.Stored(),
	}
}

// some returns a duration between low and high units, often a whole number of
// them, so that two things happen at one instant.
func (d *duel) some(low, high int) time.Duration {
	if d.c2 != nil { // each TTL has a session of its own
		return time.Duration(1+d.rng.IntN(2)) * d.unit
	}
	if d.chance(4) && d.ages() {
		return d.years()
	}
	by := time.Duration(low+d.rng.IntN(high-low+1)) * d.unit
	if d.chance(30) {
		by += time.Duration(d.rng.IntN(int(d.unit/d.d.Tick))) * d.d.Tick
	}
	return by
}

// hold returns the hold that a claim has or had, or a wrong one.
func (d *duel) hold(k known) store.Hold {
	token := d.model.token(k.Name, k.ID)
	last := d.model.queue(k.Name).Last
	h := store.Hold{Name: k.Name, ID: k.ID, Token: token, TTL: d.some(1, 6)}
	if token == 0 {
		h.Token = last
	}
	if d.c2 != nil { // its owner knows only tokens that it received
		h.Token = 0
		if d.learned[k.ID] != nil {
			h.Token = token
		}
	}
	switch n := d.rng.IntN(100); {
	case n < 14:
		h.Token = 0
	case (d.lacks(store.PromiseMatch) || d.c2 != nil && d.learned[k.ID] == nil) && n < 26:
	case n < 20:
		h.Token += 1 - 2*d.rng.Int64N(2)
	case n < 26:
		h.Token = last
	case n < 29:
		h.ID = d.id(k.side)
	}
	if e := d.model.entry(k.Name, k.ID); e != nil && (d.chance(20) || e.N > 1 && d.chance(80)) {
		h.Used = h.Token - 1 + d.rng.Int64N(int64(e.N)+2)
	}
	return h
}

// rename renews a hold with a new id: of any process, or of no process.
func (d *duel) rename(s *subject, k known) {
	side := d.rng.IntN(len(d.sides))
	h := d.hold(k)
	h.NewID = d.id(side)
	if d.chance(30) {
		clear(h.NewID[:len(store.Process{})])
	}
	if d.c2 != nil { // with the token that the owner received
		h.Token = 0
		if p := d.learned[k.ID]; p != nil {
			h.Token = p.model
			d.inherit(h.NewID, k.ID)
		}
	}
	d.do(op{kind: "renew", side: side, holds: []store.Hold{h}})
	if d.model.entry(s.name, h.NewID) != nil {
		d.counts["holds with another id"]++
		k.ID, k.side = h.NewID, side
		s.claims = append(s.claims, k)
	}
}

// change changes the weight of a hold, mostly an upgradeable one. It is its
// owner's next change, or a copy of an older one.
func (d *duel) change() {
	var of, best []known
	for _, s := range d.names {
		for _, k := range s.claims {
			e := d.model.entry(k.Name, k.ID)
			if d.c2 != nil && k.ID.Process() == (store.Process{}) {
				continue
			}
			if e != nil && e.Granted {
				of = append(of, k)
			}
			if e != nil && e.Granted && k.Weight == store.Upgradeable {
				best = append(best, k)
			}
		}
	}
	if len(best) > 0 && d.chance(90) {
		of = best
	}
	if len(of) == 0 {
		d.do(d.renewal())
		return
	}
	k := of[d.rng.IntN(len(of))]
	o := op{kind: "change", side: k.side, holds: []store.Hold{d.hold(k)}, turn: 1, weight: store.Full}
	if h := &o.holds[0]; h.Token == 0 && d.c2 == nil {
		h.Token = d.model.token(k.Name, k.ID)
	}
	if d.chance(40) {
		o.weight = store.Upgradeable
	}
	if e := d.model.entry(k.Name, k.ID); e != nil {
		o.turn = e.Turn + 1 + d.rng.Int32N(2)
		if d.chance(20) && e.Turn > 0 {
			o.turn = 1 + d.rng.Int32N(e.Turn)
			d.counts["late changes"]++
		}
	}
	o.holds[0].GiveUp = d.asksFor(50)
	d.do(o)
}

// renewal returns the renewal of up to four holds of one process.
func (d *duel) renewal() op {
	o := op{kind: "renew", side: d.rng.IntN(len(d.sides))}
	for range 1 + d.rng.IntN(4) {
		var of []known
		for _, k := range d.names[d.rng.IntN(len(d.names))].claims {
			if d.c2 != nil && k.ID.Process() == (store.Process{}) {
				continue
			}
			if e := d.model.entry(k.Name, k.ID); k.side == o.side && (e != nil && e.Granted || d.chance(20)) {
				of = append(of, k)
			}
		}
		if len(of) > 0 {
			o.holds = append(o.holds, d.hold(of[d.rng.IntN(len(of))]))
		}
	}
	for i := range o.holds {
		if d.chance(20) {
			o.holds[i].Owner = store.Owner{Host: "host", PID: i, Program: "differential", Note: strings.Repeat("ü|", d.rng.IntN(20))}.Stored()
		}
	}
	if len(o.holds) == 0 { // nothing is held: renew a hold that does not exist
		s := d.names[d.rng.IntN(len(d.names))]
		o.holds = []store.Hold{{Name: s.name, ID: d.id(o.side), Token: d.model.queue(s.name).Last, TTL: d.unit}}
	}
	return o
}

func (d *duel) poll(s *subject, k known) {
	if _, ok := d.sides[0].Store.(store.Poller); !ok {
		d.do(op{kind: "ask", side: k.side, claim: k.Claim})
		return
	}
	if d.chance(50) {
		side := d.fresh(s)
		k = s.claims[len(s.claims)-1]
		k.side = side
	}
	d.do(op{kind: "poll", side: k.side, claim: k.Claim})
}

func (d *duel) breaking(k known) {
	if d.lacks(store.PromiseInspect) {
		d.do(op{kind: "release", side: k.side, holds: []store.Hold{d.hold(k)}})
		return
	}
	h := d.hold(k)
	b := store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Now: d.chance(50)}
	if e := d.model.entry(k.Name, k.ID); e != nil && d.chance(30) {
		b.Token = cmp.Or(e.UpgradeToken, h.Used, h.Token)
	}
	if d.c2 != nil { // the hold is matched by its id alone
		b.Token = max(1, d.model.token(k.Name, b.ID))
	}
	if d.chance(80) {
		b.Reason = "reason " + strings.Repeat("ü'", d.rng.IntN(20))
	}
	d.do(op{kind: "break", side: d.rng.IntN(len(d.sides)), broken: b})
}
