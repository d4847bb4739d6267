package storetest

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// century bounds how much time the comparison lets pass: a server's floating-point numbers are exact for longer, but
// not for ever.
const century = 100 * 365 * 24 * time.Hour

// ages reports whether years may pass: the test must set the clock of the store, and its TTLs must go beyond some hours.
func (d *duel) ages() bool {
	return d.c2 == nil && d.d.MaxTTL > 4*time.Hour && time.Duration(d.clock().Wall-epoch)*time.Microsecond < century
}

// epoch is the time at which a comparison begins.
const epoch = 1_700_000_000_000_000

// years returns a duration of about an hour or more, and sometimes the greatest TTL.
func (d *duel) years() time.Duration {
	by := []time.Duration{time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, d.d.MaxTTL}[d.rng.IntN(4)]
	if by = min(by, d.d.MaxTTL); d.chance(50) {
		by -= time.Duration(d.rng.Int64N(int64(by/4/d.d.Tick))) * d.d.Tick
	}
	return by
}

// leap advances the clock by the remaining time of a random long-lived entry: by half of it, all of it, or all but a
// tick.
func (d *duel) leap() {
	now := d.clock()
	var far []time.Duration
	for _, s := range d.names {
		for _, e := range d.model.queue(s.name).Entries {
			for _, at := range []int64{e.Expires, e.Expires + e.LockDelay, e.Since + e.MinHold} {
				if left := time.Duration(at-now.Clock) * time.Microsecond; left > 100*d.unit {
					far = append(far, left)
				}
			}
		}
	}
	if len(far) == 0 || !d.ages() {
		return
	}
	by := far[d.rng.IntN(len(far))]
	switch d.rng.IntN(3) {
	case 0:
		by /= 2
	case 1:
		by -= d.d.Tick
	}
	d.counts["leaps"]++
	d.advance(by / d.d.Tick * d.d.Tick)
}

// longName returns a name of n bytes with a head and a tail.
func longName(head, tail string, n int) string {
	return head + strings.Repeat("n", n-len(head)-len(tail)) + tail
}

// crowd compares a name with as many claims as the contract allows for: they wait, are granted at once, are renewed in
// one batch and released in another. It also compares a list of many names. The state is compared between these phases,
// not after each step.
func (d *duel) crowd() {
	d.t.Helper()
	n, start := crowdOf(&d.d), time.Now()
	if !d.d.InProcess {
		n /= 3 // each has two compared operations, and Run has tested the full number
	}
	defer func() { d.t.Logf("a crowd of %d took %v", n, time.Since(start).Round(time.Millisecond)) }()
	name := longName("crowd/", random(), store.MaxName)
	first := d.claim(0, name, store.Full, store.Full)
	d.do(op{kind: "ask", side: 0, claim: first})
	all := make([]store.Claim, n)
	for i := range all {
		all[i] = d.claim(1, name, store.Full, 1)
		d.unseen(op{kind: "ask", side: 1, claim: all[i]})
	}
	d.compare(d.clock(), name)
	d.do(op{kind: "release", side: 0, holds: []store.Hold{{Name: name, ID: first.ID, Token: d.model.token(name, first.ID)}}})
	batch := make([]store.Hold, len(all))
	for i := range all {
		d.unseen(op{kind: "ask", side: 1, claim: all[i]})
		batch[i] = store.Hold{Name: name, ID: all[i].ID, Token: d.model.token(name, all[i].ID), TTL: min(12*d.unit, d.d.MaxTTL)}
	}
	d.compare(d.clock(), name)
	d.unseen(op{kind: "renew", side: 1, holds: batch})
	d.compare(d.clock(), name)
	d.unseen(op{kind: "release all", side: 1, holds: batch})
	d.compare(d.clock(), name)

	batch = nil
	for range manyNames {
		c := d.claim(2, longName("crowd/", random(), 40), store.Full, store.Full)
		d.unseen(op{kind: "ask", side: 2, claim: c})
		batch = append(batch, store.Hold{Name: c.Name, ID: c.ID, Token: d.model.token(c.Name, c.ID), TTL: d.unit})
	}
	d.compareAll()
	d.unseen(op{kind: "release all", side: 2, holds: batch})
	d.compareAll()
}

// manyNames is how many additional names are listed at the end of a comparison.
const manyNames = 120

// unseen is do without comparing the state, or counting what it meets.
func (d *duel) unseen(o op) {
	d.t.Helper()
	d.unlooked = true
	defer func() { d.unlooked = false }()
	d.do(o)
}
