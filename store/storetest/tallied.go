package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// count counts the cases that the operation is about to meet.
func (d *duel) count(now queue.Time, o op) {
	d.counts[o.kind]++
	for i, name := range o.names() {
		var id store.ID
		switch o.kind {
		case "ask", "poll":
			id = o.claim.ID
		case "break":
			id = o.broken.ID
		default:
			id = o.holds[i].ID
		}
		met := map[string]bool{}
		meets := func(what string, yes bool) { met[what] = met[what] || yes }
		for _, e := range d.model.queue(name).Entries {
			own := e.ID == id
			meets("expiries", e.Expires <= now.Clock)
			meets("expiry at exactly this time", e.Expires == now.Clock)
			meets("late "+o.kind+" by the owner", own && e.Expires <= now.Clock)
			held := e.Granted && e.Expires <= now.Clock
			meets("blocked for a minimum hold", held && e.Shown && e.Since+e.MinHold > now.Clock)
			meets("blocked for a lock delay", held && e.Expires+e.LockDelay > now.Clock)
			hour := now.Clock - time.Hour.Microseconds()
			meets("met a hold of over an hour", e.Granted && e.Since < hour && e.Expires > now.Clock)
			meets("blocked for a minimum hold of over an hour", held && e.Since < hour && e.Shown && e.Since+e.MinHold > now.Clock)
			meets("blocked for a lock delay of over an hour", held && e.Expires < hour && e.Expires+e.LockDelay > now.Clock)
			meets("met a broken hold", e.Broken != nil)
			meets("met a pending upgrade", e.Granted && e.Want > e.Weight && e.Expires > now.Clock)
			meets("met a pending upgrade that has expired", e.Granted && e.Want > e.Weight && e.Expires <= now.Clock)
			meets("met a waiter that asks to give up", !e.Granted && e.GiveUp != nil)
			meets("met an upgrade that asks to give up", e.Granted && e.Asking(now))
			meets("met two totals", e.Limit < store.Full && o.kind == "ask" && o.claim.Limit < store.Full && e.Limit != int32(o.claim.Limit))
			meets("met a waiter for a block", !e.Granted && e.N > 1)
			if own && len(o.holds) > 0 {
				h := o.holds[i]
				meets(o.kind+" of a waiting entry", !e.Granted)
				meets(o.kind+" with a wrong token", e.Granted && h.Token != 0 && h.Token != e.Token)
				meets(o.kind+" with token 0", h.Token == 0)
				meets(o.kind+" that reports the used part of a block", e.Granted && e.N > 1 && h.Used >= e.Token && h.Used < e.Token+int64(e.N))
			}
		}
		for what, yes := range met {
			if yes {
				d.counts[what]++
			}
		}
	}
}

// tally counts the result of the operation.
func (d *duel) tally(o op, out outcome, woken int) {
	if o.kind == "ask" && out.Errs[0] == "" {
		if out.Answer.Granted {
			d.counts["grants"]++
		} else {
			d.counts["refusals"]++
		}
	}
	for _, e := range out.Errs {
		if e != "" {
			e, _, _ = strings.Cut(e, " ")
			d.counts[o.kind+" "+strings.TrimSuffix(e, ":")]++
		}
	}
	if o.kind == "change" && out.Errs[0] == "" {
		what := "changes back"
		switch a := out.Answer; {
		case o.weight == store.Full && a.Granted:
			what = "upgrades granted"
		case o.weight == store.Full && a.Want == store.Full:
			what = "upgrades pending"
		case !a.Granted:
			what = "changes not applied"
		}
		d.counts[what]++
	}
	if o.kind == "break" && out.Errs[0] == "" {
		d.counts["breaks done"]++
		if o.broken.Now {
			d.counts["holds freed"]++
		}
	}
	if woken > 0 {
		d.counts["wakes"]++
	}
}

// floors returns how often each important case must occur, in percent of the steps.
func (d *duel) floors() map[string]float64 {
	floors := map[string]float64{
		"expiries": 5, "repeats": 5, "refusals": 5, "grants": 5,
		"expiry at exactly this time": 0.5, "late ask by the owner": 0.3, "late renew by the owner": 0.3, "late release by the owner": 0.3,
		"renew with a wrong token": 0.1, "renew of a waiting entry": 0.1, "renew with token 0": 0.1, "renew lost": 1,
		"release with a wrong token": 0.1, "release of a waiting entry": 0.5, "release with token 0": 0.2, "release lost": 1,
		"ask lost": 0.5, "clock set back": 0.5,
	}
	for promise, names := range map[store.Promise][]string{
		store.PromiseMinHold:   {"blocked for a minimum hold"},
		store.PromiseLockDelay: {"blocked for a lock delay"},
		store.PromiseSlots:     {"ask mismatch"},
		store.PromiseInspect:   {"breaks done", "met a broken hold"},
		store.PromiseUpgrade: {
			"upgrades granted", "upgrades pending", "changes back", "late changes", "met a pending upgrade", "change lost",
		},
		store.PromiseBlock:  {"met a waiter for a block", "release that reports the used part of a block", "renew that reports the used part of a block"},
		store.PromiseDetach: {"holds with another id"},
		store.PromiseReason: {"holds freed"},
		store.PromiseGiveUp: {"met a waiter that asks to give up"},
		store.PromiseTotals: {"met two totals"},
	} {
		if !d.lacks(promise) {
			for _, name := range names {
				floors[name] = 0.1
			}
		}
	}
	if !d.lacks(store.PromiseUpgrade) && !d.lacks(store.PromiseGiveUp) {
		floors["met an upgrade that asks to give up"] = 0.1
	}
	if _, ok := d.sides[0].Store.(store.Watcher); ok {
		floors["wakes"] = 1
	}
	if d.ages() {
		floors["met a hold of over an hour"] = 0.1
		if !d.lacks(store.PromiseMinHold) {
			floors["blocked for a minimum hold of over an hour"] = 0.02
		}
		if !d.lacks(store.PromiseLockDelay) {
			floors["blocked for a lock delay of over an hour"] = 0.02
		}
	}
	if d.c2 != nil {
		for _, timed := range []string{
			"expiries", "expiry at exactly this time", "late ask by the owner", "late renew by the owner", "late release by the owner",
			"renew with a wrong token", "release with a wrong token", "ask lost", "clock set back",
			"blocked for a minimum hold",
		} {
			delete(floors, timed)
		}
		floors["sessions ended"], floors["tokens compared"] = 0.5, 6
	}
	return floors
}

// tooRare returns the cases that occurred too rarely for that many steps.
func (d *duel) tooRare(floors map[string]float64, steps int) (what []string) {
	for name, least := range floors {
		if n := d.counts[name]; float64(n) < least/100*float64(steps) {
			what = append(what, fmt.Sprintf("%s: %d times in %d steps, want %.2f %% of %d", name, n, d.steps, least, steps))
		}
	}
	if d.c.TooRare != nil {
		what = append(what, d.c.TooRare(steps)...)
	}
	return what
}

// report prints the counts, and fails if a case occurred too rarely for that many
// steps.
func (d *duel) report(floors map[string]float64, steps int) {
	d.t.Helper()
	var lines []string
	for what, n := range d.counts {
		lines = append(lines, fmt.Sprintf("%6d  %5.1f %%  %s", n, 100*float64(n)/float64(d.steps), what))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(b, a) })
	d.t.Logf("%d steps:\n%s", d.steps, strings.Join(lines, "\n"))
	for _, what := range d.tooRare(floors, steps) {
		d.t.Error(what)
	}
}
