package prove

import (
	"fmt"
	"slices"
	"time"
)

// A guilty is the event that broke a promise, as far as the history shows.
type guilty struct {
	key
	do Kind
	at time.Duration
}

func (g *guilty) is(e Event) bool { return e.key() == g.key && e.Do == g.do && e.At == g.at }

// explain finds the operation that broke the promise, and sets the cause. It adds a claim
// that took part to the violation's claims, so that the window shows it.
func (v *view) explain(w *Violation) (g guilty) {
	if len(w.claims) == 0 {
		w.Cause = fmt.Sprintf("%q was not released, or its entries did not expire", w.Name)
		if w.Name == "" {
			w.Cause = "the entries that the processes left in the store did not expire"
		} else if c := v.lastOf(w.Name); c != nil {
			return v.leftBy(w, c)
		}
		return guilty{}
	}
	last := slices.MaxFunc(w.claims, func(a, b *claim) int { return int(min(max(a.back-b.back, -1), 1)) })
	granting := guilty{last.key, got, last.back}
	switch check(w.Check) {
	case exclusion, linear:
		return v.explainOverlap(w, last)
	case tokens:
		w.Cause = fmt.Sprintf("%s was granted with a token that is not larger than earlier ones", last.who(last.token))
		return granting
	case reported:
		c := w.claims[0]
		w.Cause = fmt.Sprintf("the lease of %s expired, and it continued without a report of the loss", c.who(c.token))
		return guilty{c.key, over, c.over}
	case live:
		c := w.claims[0]
		w.Cause = fmt.Sprintf("%s waited for a lock that was free", c.who(0))
		return guilty{c.key, ask, c.call}
	case order:
		last = w.claims[1]
		w.Cause = fmt.Sprintf("%s was granted before a claim that had waited longer", last.who(last.token))
		return guilty{last.key, got, last.back}
	case bounded:
		c := w.claims[0]
		w.Cause = fmt.Sprintf("a call of %s did not return in time", c.who(c.token))
		if c.release != never && c.release == w.From {
			return guilty{c.key, release, c.release}
		}
		return guilty{c.key, ask, c.call}
	}
	return granting
}

// explainOverlap finds why a claim was granted together with others, or refused: a third
// released a hold that was no longer its own, the first used the lock for longer than its
// TTL, or there is no visible reason.
func (v *view) explainOverlap(w *Violation, last *claim) guilty {
	if c := v.strayRelease(w, last); c != nil {
		w.claims = append(w.claims, c)
		w.Cause = fmt.Sprintf("%s released a lock that it had lost before, and so took it from its new holder", c.who(c.token))
		return guilty{c.key, release, c.release}
	}
	if last.err == "held" {
		w.Cause = fmt.Sprintf("%s was refused although the lock was free", last.who(0))
		return guilty{last.key, not, last.back}
	}
	for _, c := range w.claims {
		if c == last || !c.granted || c.end() <= last.back {
			continue
		}
		if had := last.back - c.back; had > v.Run.TTL && (c.until == never || v.Run.Lines) {
			w.Cause = fmt.Sprintf("%s used the lock for %v after the grant, but the TTL is only %v", c.who(c.token), short(had), v.Run.TTL)
			if at := v.belief(c, last.back); at != never {
				return guilty{c.key, until, at}
			}
			return guilty{c.key, got, c.back}
		}
	}
	w.Cause = fmt.Sprintf("%s was granted while another claim held the lock", last.who(last.token))
	return guilty{last.key, got, last.back}
}

// strayRelease finds a claim that was released after its hold had ended and another had
// been granted, and before last was granted. The other is still held at that time. Of
// several it returns the one released last.
func (v *view) strayRelease(w *Violation, last *claim) (stray *claim) {
	for _, first := range w.claims {
		if first == last || !first.granted || first.end() <= last.back {
			continue
		}
		for _, c := range v.byName[w.Name] {
			between := c.granted && c.back < first.back && first.back < c.release && c.release <= last.back
			if between && v.overBy(c, first) < c.release && (stray == nil || c.release > stray.release) {
				stray = c
			}
		}
	}
	return stray
}

// overBy returns when the hold of c had ended, as far as was known before next was granted.
func (v *view) overBy(c, next *claim) time.Duration {
	foreseen := c.until
	if v.Run.Lines && c.until >= next.back { // its worker was asked after next was granted, and wrongly answered that it had the lock
		foreseen = never
	}
	if foreseen == never {
		foreseen = c.back + v.Run.TTL
	}
	return min(foreseen, c.lost)
}

// belief returns when the worker of a claim first reported that it had the lock at an
// instant later than after; never: it did not.
func (v *view) belief(c *claim, after time.Duration) time.Duration {
	for i := range v.Events {
		if e := &v.Events[i]; e.Do == until && e.key() == c.key && e.Until > after {
			return e.At
		}
	}
	return never
}

// lastOf returns the claim of the name that was granted last before the end of all
// faults; nil: none was.
func (v *view) lastOf(name string) (last *claim) {
	for _, c := range v.byName[name] {
		if c.granted && c.back < v.calm && (last == nil || c.back > last.back) {
			last = c
		}
	}
	return last
}

// leftBy sets the cause for a name that was not freed after its last hold, that of c.
func (v *view) leftBy(w *Violation, c *claim) guilty {
	w.claims = append(w.claims, c)
	switch {
	case c.died != never && c.release == never:
		w.Cause = fmt.Sprintf("%s held it last and was killed, and its lock never expired", c.who(c.token))
		return guilty{c.key, got, c.back}
	case c.release != never:
		w.Cause = fmt.Sprintf("%s held it last and released it, but it stayed locked", c.who(c.token))
		return guilty{c.key, release, c.release}
	}
	w.Cause = fmt.Sprintf("%s held it last, and it stayed locked", c.who(c.token))
	return guilty{c.key, got, c.back}
}
