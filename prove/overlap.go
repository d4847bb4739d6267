package prove

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// exclusion: at no instant do the holds of a name weigh more than its limit. A
// hold counts from the moment at which its owner had the lease until the owner
// called the release, the deadline passed, the loss was reported, or the owner was
// killed, whichever came first.
func (j *judge) exclusion() {
	excused := j.voids(exclusion)
	for _, name := range slices.Sorted(maps.Keys(j.byName)) {
		var in []span // spans that have begun and not ended
		sum := int64(0)
		for _, s := range j.spansOf(name) {
			in = slices.DeleteFunc(in, func(o span) bool {
				if o.to <= s.from { //mutant:judge-hold-ended-counted
					sum -= o.weight
					return true
				}
				return false
			})
			in, sum = append(in, s), sum+s.weight
			limit := s.c.limit
			for _, o := range in {
				limit = min(limit, o.c.limit)
			}
			switch {
			case sum <= limit: //mutant:judge-may-hold-beside-whole
				j.Judged++
			case within(excused, s.from, s.from+1):
				j.Voided++
			default:
				j.Judged++
				to := s.to
				var who []string
				var claims []*claim
				for _, o := range in {
					to = min(to, o.to)
					who = append(who, o.c.who(o.token))
					claims = append(claims, o.c)
				}
				j.wrong(name, s.from, to, claims, "%s held it at the same time for %v", strings.Join(who, " and "), to-s.from)
			}
		}
	}
}

// tokens: of two conflicting holds, the later has the larger token; no two grants
// have the same token; the fenced register never refuses a rightful holder.
func (j *judge) tokens() {
	excused := j.voids(exclusion)
	for _, name := range slices.Sorted(maps.Keys(j.byName)) {
		newest := map[int64]span{} // by weight: the span with the largest token
		ids := map[int64]*claim{}
		asked := map[string]time.Duration{} // by hold: when its first claim was made; later claims got the hold inside the process
		for _, c := range j.byName[name] {
			if first, ok := asked[c.id]; !ok || c.call < first {
				asked[c.id] = c.call
			}
		}
		for _, s := range j.spansOf(name) {
			j.Judged++
			if o := ids[s.token]; o != nil && o != s.c { //mutant:judge-tokens-may-repeat-hold
				j.wrong(name, o.call, s.from, []*claim{o, s.c}, "two grants have the token %d: %s and %s", s.token, o.who(s.token), s.c.who(s.token))
			}
			ids[s.token] = s.c
			for w, o := range newest {
				if o.c == s.c || w+s.weight <= s.c.limit || o.token <= s.token { //mutant:judge-tokens-may-go-back
					continue
				}
				// A correct lock may let two holds overlap when a fault excuses it, or when the
				// end of one is unknown. Then their order is certain only if the later hold was
				// first asked for after the earlier was granted.
				if excuse := within(excused, s.from, s.from+1); asked[s.c.id] < o.from && (excuse || !o.c.sure() || !s.c.sure()) { //mutant:judge-handed-hold-asked-himself
					j.Voided += count(excuse)
					continue
				}
				j.wrong(name, o.from, s.from, []*claim{o.c, s.c}, "%s came after %s and has a smaller token", s.c.who(s.token), o.c.who(o.token))
			}
			if o, ok := newest[s.weight]; !ok || o.token < s.token {
				newest[s.weight] = s
			}
		}
	}
	for _, c := range j.claims {
		for _, token := range c.inner {
			if token != c.token { //mutant:judge-re-entry-may-any
				j.wrong(c.name, c.call, c.end(), []*claim{c}, "a re-entry of %s has the token %d", c.who(c.token), token)
			}
		}
	}
	j.register()
}

// register: the fence refuses only uses by claims that no longer hold.
func (j *judge) register() {
	excused := j.voids(exclusion)
	at := map[key]*claim{}
	for _, c := range j.claims {
		at[c.key] = c
	}
	for i := range j.Events {
		e := &j.Events[i]
		c := at[e.key()]
		if e.Do != use || c == nil || !c.granted {
			continue
		}
		j.Judged++
		if e.Refused && e.At < c.end() && c.sure() && !within(excused, e.At, e.At+1) { //mutant:judge-fence-may-refuse-holder
			j.wrong(c.name, e.At, e.At, []*claim{c}, "the fenced register refused %s, which held the lock", c.who(e.Token))
		}
	}
}

// order: a claim that has a queue position is granted before any claim that was first sent after that. The
// order of grants is known from the tokens, which are drawn in that order. If each owner draws its own (the
// store lacks PromiseDrawn or PromiseNotificationToken), claims that a release has granted together draw in
// any order: then only claims that exclude each other are compared.
func (j *judge) order() {
	excused := j.voids(order)
	for _, name := range slices.Sorted(maps.Keys(j.byName)) {
		var claims []*claim
		used := map[string]bool{}
		for _, c := range byToken(j.byName[name]) {
			if c.sent > 0 && !used[c.id] { // the others got their hold inside the process
				used[c.id] = true
				claims = append(claims, c)
			}
		}
		// From the largest token down: a claim must not have been first sent after a
		// claim with a larger token had its position.
		firsts := map[int64]*claim{} // by weight: of the claims with larger tokens, the one that had its position first
		for _, c := range slices.Backward(claims) {
			j.Judged++
			var first *claim
			for w, f := range firsts {
				if (j.Run.lacks(store.PromiseDrawn) || j.Run.lacks(store.PromiseNotificationToken)) && w+c.weight <= c.limit {
					continue
				}
				if first == nil || j.placed[f.id].At < j.placed[first.id].At {
					first = f
				}
			}
			if first != nil && j.placed[first.id].At < c.sent { //mutant:judge-last-may-first
				if within(excused, j.placed[first.id].At, first.back) {
					j.Voided++
				} else {
					j.wrong(name, c.call, first.back, []*claim{first, c},
						"%s had its queue position %v before %s asked, and was granted later", first.who(first.token), c.sent-j.placed[first.id].At, c.who(c.token))
				}
			}
			if p, ok := j.placed[c.id]; ok && (firsts[c.weight] == nil || p.At < j.placed[firsts[c.weight].id].At) {
				firsts[c.weight] = c
			}
		}
	}
}

// slack is how much longer than its context a call may take, besides the delays
// of bare timers in its process.
const slack = time.Second

// bounded: no claim or upgrade takes longer than its context, no release or downgrade longer than
// Run.release, and every call in a process that was not killed returns.
func (j *judge) bounded() {
	for _, c := range j.claims {
		l := j.life(c)
		check := func(what string, from, to, bound time.Duration) {
			until := min(to, l.to, j.end)
			if to == never && c.died != never && until-from <= bound+slack {
				return
			}
			j.Judged++
			if took := until - from - l.stalled(from, until); took > bound+slack { //mutant:judge-call-may-take-ever
				j.wrong(c.name, from, until, []*claim{c}, "%s of %s took %v, but may take %v and %v", what, c.who(c.token), took, bound, slack)
			}
		}
		if c.bound > 0 {
			check("the "+c.verb, c.call, c.back, c.bound)
		}
		ofRelease := j.Run.release()
		for _, x := range c.changes {
			if x.bound < 0 {
				x.bound = ofRelease
			}
			check(x.what, x.from, x.to, x.bound)
		}
		if c.release != never {
			check("the release", c.release, c.released, ofRelease)
		}
	}
}

// tellBy is how much later than a bare timer a loss may be reported: on a busy
// machine a process has stalls of a tenth of a second that it does not notice.
const tellBy = 200 * time.Millisecond

// reported: when the deadline of a lease passes, its loss is reported, and it is never valid again.
func (j *judge) reported() {
	for _, c := range j.claims {
		if c.over == never || c.release < c.over {
			continue
		}
		if c.revived { //mutant:judge-over-may-valid-again
			j.wrong(c.name, c.over, c.until, []*claim{c}, "%s: its lease had expired, and then it was valid again", c.who(c.token))
		}
		l := j.life(c)
		until := min(c.lost, c.release, l.to, j.end)
		if late := until - c.over - l.stalled(c.over, until); late > tellBy { //mutant:judge-loss-may-told-any
			how := "was reported"
			if c.lost == never {
				how = "had not been reported"
			}
			j.wrong(c.name, c.over, until, []*claim{c}, "%s: its lease had expired, and the loss %s %v after a bare timer, which was itself %v late", c.who(c.token), how, late, c.late)
		}
		j.Judged++
	}
}

// takenBy is how soon after the last fault it must be possible to take every name.
func takenBy(ttl time.Duration) time.Duration { return ttl + 2*time.Second }

// takenBy returns that time for the run. It is longer for workers by lines, whose delays on a busy
// machine are not measured.
func (r *Run) takenBy() time.Duration {
	if r.Lines { //mutant:judge-lines-take-longer
		return takenBy(r.TTL) + 8*time.Second
	}
	return takenBy(r.TTL)
}

// live: within Run.takenBy of the last fault every name can be taken and each
// waiter is answered; within that time of the end of all processes the store has
// no entries left.
func (j *judge) live() {
	if j.calm == never {
		j.Not = "the run did not come to its end"
		return
	}
	stalled := func(to time.Duration) (most time.Duration) {
		for _, l := range j.lives {
			most = max(most, l.stalled(j.calm, to))
		}
		return most
	}
	bound := j.Run.takenBy()
	for _, n := range j.Run.Names {
		first, asked, tried := (*claim)(nil), never, j.calm // the first probe that got it; when the first began, and when the last other ended
		for _, c := range j.byName[n.Name] {
			if c.verb == probe {
				asked = min(asked, c.call)
			}
			if c.verb == probe && c.granted && (first == nil || c.back < first.back) {
				first = c
			} else if c.verb == probe {
				tried = max(tried, min(c.back, j.end))
			}
		}
		if asked == never && j.broke { //mutant:judge-nobody-there-to-ask
			j.Undecided++
			continue
		}
		j.Judged++
		if took := tried - j.calm - stalled(tried); first == nil && tried > j.calm && took <= bound {
			j.Undecided++ // the machine was too busy
		} else if first == nil { //mutant:judge-name-need-taken
			j.wrong(n.Name, j.calm, j.end, nil, "no process could take it after the last fault")
		} else if took := first.back - max(j.calm, asked) - stalled(first.back); took > bound { //mutant:judge-name-may-taken-late
			j.wrong(n.Name, j.calm, first.back, []*claim{first}, "after the last fault it took %v until %s had it, but it may take %v", took, first.who(first.token), bound)
		}
	}
	for _, c := range j.claims {
		if c.call < j.calm && c.back > j.calm && c.died == never && c.verb != "try" && c.call+c.bound > j.calm+bound {
			j.Judged++
			if took := min(c.back, j.end) - j.calm; took-stalled(j.calm+took) > bound { //mutant:judge-waits-need-served
				j.wrong(c.name, c.call, min(c.back, j.end), []*claim{c}, "%s waited at the last fault, and was not served within %v", c.who(0), bound)
			}
		}
		if l := j.life(c); c.back == never && c.died == never && l.to != never { //mutant:judge-claim-may-never-answered
			j.wrong(c.name, c.call, l.to, []*claim{c}, "%s was never answered, though its process ended its work", c.who(0))
		}
	}
	for i := range j.Events {
		if e := &j.Events[i]; e.Do == left {
			j.Judged++
			if e.Entries > 0 { //mutant:judge-anything-may-left
				j.wrong(e.Name, j.calm, e.At, nil, "%d entries are left in the store %v after the last fault: %s", e.Entries, e.At-j.calm, e.Text)
			}
		}
	}
}
