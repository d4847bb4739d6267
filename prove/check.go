package prove

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Verdict is what a history proves.
type Verdict struct {
	Proved     bool        `json:"proved"`     // nothing is violated, and there was enough to judge
	Violations []Violation `json:"violations"` // the promises that were not kept
	TooLittle  []string    `json:"too_little"` // why the history would prove nothing even without violations
	Checks     []Count     `json:"checks"`     // one for each check
	// NotJudged has the checks that had nothing to judge, and why: what they are for was not
	// shown. Of those that the lock does not promise to pass Proved may be true all
	// the same.
	NotJudged []string `json:"not_judged,omitempty"`
	Unchecked []string `json:"unchecked"` // what was not checked on this store, and why
	Figures   Figures  `json:"figures"`   // what happened in the run

	broke bool // the run could not go on
}

// A Count says how much one check had to judge.
type Count struct {
	Check     int    `json:"check"`                 // its number
	Text      string `json:"text"`                  // what it checks
	Judged    int    `json:"judged"`                // how often it had something to judge
	Voided    int    `json:"voided"`                // not judged because of a fault after which no lock on this store can keep the promise
	Undecided int    `json:"undecided"`             // it would have taken too long
	Wrong     int    `json:"wrong"`                 // violations
	Not       string `json:"not_checked,omitempty"` // why it was not made; empty: it was
}

// A Violation is a promise that was not kept.
type Violation struct {
	Check  int           `json:"check"`          // the number of the check
	Name   string        `json:"name,omitempty"` // of what is locked; empty: of the run
	Text   string        `json:"text"`           // what happened, for people
	From   time.Duration `json:"from"`           // where the window begins, on the clock of the run
	To     time.Duration `json:"to"`             // where it ends
	Cause  string        `json:"cause"`          // what brought it about, in one line: the nearest that the history shows
	Events []Event       `json:"events"`         // the shortest window of the history that shows it
	Guilty int           `json:"guilty"`         // the index in Events of the operation that broke it; -1: unknown

	claims  []*claim
	overlap window // in which it was so, without the calls that led to it
}

// Figures are what happened in the run.
type Figures struct {
	Grants      int            `json:"grants"`                         // claims that got their hold
	Waits       int            `json:"waits"`                          // grants that were waited for
	Refused     int            `json:"refused"`                        // claims that others were ahead of
	Cancelled   int            `json:"cancelled"`                      // waits that their context ended
	Unavailable int            `json:"unavailable"`                    // claims that the store did not answer
	Losses      int            `json:"losses"`                         // holds whose loss was reported
	Kept        int            `json:"held_past_renewal"`              // holds that were kept beyond a renewal
	Nested      int            `json:"re_entries"`                     // leases of a re-entry
	HandedOn    int            `json:"handed_over_inside_the_process"` // holds that went on inside a process
	Changes     int            `json:"changes_of_weight"`              // upgrades and downgrades
	Raced       int            `json:"releases_raced_with_the_end"`    // releases at the moment of the deadline
	Uses        int            `json:"uses"`                           // of the registers
	Late        int            `json:"late_uses"`                      // refused by the fenced register
	Harmed      int            `json:"unsafe_uses"`                    // writes that harmed the unfenced one
	Caught      int            `json:"unsafe_uses_caught"`             // of those, refused by the fenced one
	LongestWait time.Duration  `json:"longest_wait"`                   // for a grant
	Deaths      int            `json:"deaths"`                         // processes that were killed
	Stalled     time.Duration  `json:"longest_stall"`                  // of a process, the parent or the store
	Faults      map[string]int `json:"faults"`                         // that met something
	Missed      int            `json:"faults_that_met_nothing"`        // faults
	worked      time.Duration  // until the faults ended: Run.For, or less if Options.Stop ended it
}

// judge is a check under way.
type judge struct {
	*view
	Count
	found []Violation
}

// wrong notes a violation. Of each check the first few are reported in full.
func (j *judge) wrong(name string, from, to time.Duration, claims []*claim, format string, args ...any) {
	j.Wrong++
	if len(j.found) < 5 {
		j.found = append(j.found, Violation{
			Check: j.Check, Name: name, Text: fmt.Sprintf(format, args...), From: from, To: to, claims: claims, overlap: window{from, to},
		})
	}
}

// Check judges a history.
func Check(h *History) *Verdict {
	v := newView(h)
	verdict := &Verdict{Unchecked: slices.Clone(h.Run.Unchecked), Figures: v.figures(), broke: v.broke}
	var idle []int // checks that were made and found nothing to judge
	for _, c := range checks {
		j := &judge{view: v, Count: Count{Check: int(c), Text: c.String()}}
		if j.Not = v.notChecked(c); j.Not != "" {
			verdict.add(&j.Count)
			continue
		}
		switch c {
		case exclusion:
			j.exclusion()
		case tokens:
			j.tokens()
		case linear:
			j.linear()
		case reported:
			j.reported()
		case live:
			j.live()
		case order:
			j.order()
		case bounded:
			j.bounded()
		}
		for i := range j.found {
			w := &j.found[i]
			e := v.explain(w)
			w.Events = v.around(w, &e)
			w.Guilty = slices.IndexFunc(w.Events, e.is)
		}
		if j.Judged == 0 && j.Not == "" {
			switch {
			case j.Voided+j.Undecided == 0 && v.broke: // to run it for longer is no use
				j.Not = "no such case happened, as the run could not go on"
			case j.Voided+j.Undecided == 0:
				j.Not = "no such case happened; run it for longer"
			default:
				j.Not = fmt.Sprintf("of all cases %d were excused by a fault, and %d took too long to decide", j.Voided, j.Undecided)
			}
			idle = append(idle, j.Check)
		}
		verdict.Violations = append(verdict.Violations, j.found...)
		verdict.add(&j.Count)
	}
	verdict.TooLittle = v.tooLittle(verdict)
	if len(idle) > 0 { //mutant:judge-idle-check-is-proof
		verdict.TooLittle = append(verdict.TooLittle, notJudged(idle))
	}
	verdict.Proved = len(verdict.Violations) == 0 && len(verdict.TooLittle) == 0
	return verdict
}

// notJudged is the text for checks that had nothing to judge.
func notJudged(idle []int) string {
	if len(idle) == 1 {
		return fmt.Sprintf("check %d had nothing to judge", idle[0])
	}
	return fmt.Sprintf("checks %s had nothing to judge", strings.Trim(strings.ReplaceAll(fmt.Sprint(idle), " ", ", "), "[]"))
}

// add adds the count of a check.
func (v *Verdict) add(c *Count) {
	v.Checks = append(v.Checks, *c)
	if c.Judged == 0 {
		v.NotJudged = append(v.NotJudged, fmt.Sprintf("check %d (%s): %s", c.Check, c.Text, c.Not))
	}
}

// waited reports whether a claim was granted that had come while the one before it had the lock.
func (v *view) waited() bool {
	for _, all := range v.byName {
		granted := slices.DeleteFunc(slices.Clone(all), func(c *claim) bool { return !c.granted })
		slices.SortFunc(granted, func(a, b *claim) int { return cmp.Compare(a.back, b.back) })
		for i, c := range granted[min(1, len(granted)):] {
			if c.call < granted[i].end() {
				return true
			}
		}
	}
	return false
}

// tooLittle says why the history would prove nothing.
func (v *view) tooLittle(verdict *Verdict) (why []string) {
	add := func(bad bool, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); bad && !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	f := &verdict.Figures
	met := 0
	for _, n := range f.Faults {
		met += n
	}
	links, struckLinks := 0, 0
	for i := range v.Events {
		e := &v.Events[i]
		if e.Do == mended && slices.Contains(linkFaults, e.Fault) {
			links, struckLinks = links+1, struckLinks+count(e.Hits > 0)
		}
		add(e.Do == failed, "the run could not go on: %s", e.Text)                                   //mutant:judge-process-died-itself-matter
		add(e.Do == astray, "process %d made a connection past its own proxies: %s", e.Proc, e.Text) //mutant:judge-connection-past-proxies-matter
	}
	add(met == 0, "no fault struck")                       //mutant:judge-run-without-faults-proof
	add(f.Waits == 0 && !v.Run.Peer, "nobody ever waited") //mutant:judge-run-without-waits-proof
	add(f.Refused+f.Cancelled == 0 && v.Run.Peer && !v.waited(), "nobody was ever in another's way")
	add(links >= 5 && struckLinks == 0 && v.Run.Lines, "no fault of a link met anything: does the worker use the address in %s?", urlVar)
	add(f.Grants < v.Run.Floor, "%d grants were seen, and fewer than %d are no proof", f.Grants, v.Run.Floor) //mutant:judge-run-few-grants-proof
	add(v.calm == never, "the run did not come to its end")                                                   //mutant:judge-run-without-end-proof
	for _, c := range verdict.Checks {
		add(c.Undecided > c.Judged, "check %d (%s) could not decide %d of %d windows", c.Check, c.Text, c.Undecided, c.Undecided+c.Judged)
	}
	return why
}

// around is what is needed of the history to see the violation: the events of
// the claims in it, the guilty one of them, the faults that were on, and what the
// registers said.
func (v *view) around(w *Violation, g *guilty) (events []Event) {
	const margin = time.Millisecond
	of, procs := map[key]bool{}, map[int]bool{0: true}
	for _, c := range w.claims {
		of[c.key], procs[c.proc] = true, true
		w.From = min(w.From, c.call)
	}
	began, ends := map[[2]any]int{}, map[int]time.Duration{} // of faults: by process, and by event
	for i := range v.Events {
		switch e := &v.Events[i]; e.Do {
		case struck:
			began[[2]any{e.Proc, e.Fault}], ends[i] = i, never
		case mended:
			ends[began[[2]any{e.Proc, e.Fault}]] = e.At
		}
	}
	for i := range v.Events {
		e := &v.Events[i]
		mine := e.Op > 0 && of[e.key()] && (e.At <= w.To+v.Run.TTL || g.is(*e)) //mutant:judge-late-guilty-one-is-shown
		inside := e.At >= w.From-margin && e.At <= w.To+margin
		switch e.Do {
		case struck, mended, died, calm, left:
			mine = inside || e.Do == struck && e.At < w.From && ends[i] > w.From //mutant:judge-fault-over-shown
			mine = mine && (procs[e.Proc] || len(w.claims) == 0)                 //mutant:judge-another-fault-shown
		case stall:
			mine = inside && slices.ContainsFunc(w.claims, func(c *claim) bool { return c.proc == e.Proc && c.life == e.Life })
		}
		if mine && (e.Do != until || inside || g.is(*e)) {
			events = append(events, *e)
		}
	}
	const most = 60
	if len(events) > most {
		head, middle, tail := events[:most/2], events[most/2:len(events)-most/2], events[len(events)-most/2:]
		if i := slices.IndexFunc(middle, g.is); i >= 0 { //mutant:judge-guilty-one-is-shown
			head = append(slices.Clip(head), middle[i])
		}
		events = slices.Concat(head, tail)
	}
	return events
}

func (v *view) figures() (f Figures) {
	f.Faults, f.worked = map[string]int{}, min(v.calm, v.Run.For) //mutant:judge-run-was-as-long-as-asked
	ids := map[string]bool{}
	for _, c := range v.claims {
		switch {
		case c.granted:
			f.HandedOn += count(ids[c.id])
			ids[c.id] = true
			f.Grants++
			if v.placed[c.id].ID != "" || v.Run.Peer {
				f.Waits += count(!v.Run.Peer) // unknown for another library
				f.LongestWait = max(f.LongestWait, c.back-c.call)
			}
			if c.lost != never {
				f.Losses++
			}
			if c.end() > c.back+v.Run.TTL/2 {
				f.Kept++
			}
			if c.raced {
				f.Raced++
			}
		case c.err == "held":
			f.Refused++
		case c.err == "cancelled":
			f.Cancelled++
		case c.err != "":
			f.Unavailable++
		}
	}
	for i := range v.Events {
		switch e := &v.Events[i]; e.Do {
		case use:
			f.Uses++
			f.Late += count(e.Refused)
			f.Caught += count(e.Harm && e.Refused)
			f.Harmed += count(e.Harm)
		case nested:
			f.Nested++
		case weight:
			f.Changes++
		case died:
			f.Deaths++
		case stall:
			f.Stalled = max(f.Stalled, e.By)
		case mended:
			f.Faults[string(e.Fault)] += count(e.Hits > 0) //mutant:judge-fault-met-nothing
			f.Missed += count(e.Hits == 0)
		}
	}
	for k, n := range f.Faults {
		if n == 0 {
			delete(f.Faults, k)
		}
	}
	return f
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// byToken are the grants of a name in the order of their tokens.
func byToken(claims []*claim) []*claim {
	var all []*claim
	for _, c := range claims {
		if c.granted {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *claim) int { return cmp.Compare(a.token, b.token) })
	return all
}
