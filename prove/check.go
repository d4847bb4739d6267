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
	Proved     bool        `json:"proved"`     // no promise was broken, and there was enough to judge
	Violations []Violation `json:"violations"` // the promises that were not kept
	TooLittle  []string    `json:"too_little"` // why the history would prove nothing even without violations
	Checks     []Count     `json:"checks"`     // one for each check
	// NotJudged has the checks that had nothing to judge, and why: the run does not show
	// what they check. Proved may still be true if the lock does not promise to pass them.
	NotJudged []string `json:"not_judged,omitempty"`
	Unchecked []string `json:"unchecked"` // what was not checked on this store, and why
	Figures   Figures  `json:"figures"`   // what happened in the run

	broke bool // the run could not go on
}

// A Count says how much one check had to judge.
type Count struct {
	Check     int    `json:"check"`                 // its number
	Text      string `json:"text"`                  // what it checks
	Judged    int    `json:"judged"`                // cases that it judged
	Voided    int    `json:"voided"`                // cases not judged because of a fault after which no lock on this store can keep the promise
	Undecided int    `json:"undecided"`             // cases that it could not decide, mostly for lack of time
	Wrong     int    `json:"wrong"`                 // violations
	Not       string `json:"not_checked,omitempty"` // why it judged nothing; empty: it judged something
}

// A Violation is a promise that was not kept.
type Violation struct {
	Check  int           `json:"check"`          // the number of the check
	Name   string        `json:"name,omitempty"` // the name of the lock; empty: it concerns the whole run
	Text   string        `json:"text"`           // what happened, as a sentence
	From   time.Duration `json:"from"`           // start of the window, on the clock of the run
	To     time.Duration `json:"to"`             // end of the window
	Cause  string        `json:"cause"`          // what caused it, in one line, as far as the history shows
	Events []Event       `json:"events"`         // the shortest window of the history that shows it
	Guilty int           `json:"guilty"`         // the index in Events of the operation that broke it; -1: unknown

	claims  []*claim
	overlap window // when the promise was broken, without the calls that led to it
}

// Figures are what happened in the run.
type Figures struct {
	Grants      int            `json:"grants"`                         // claims that were granted
	Waits       int            `json:"waits"`                          // grants that had to wait
	Refused     int            `json:"refused"`                        // claims refused because others were ahead
	Cancelled   int            `json:"cancelled"`                      // claims whose context ended first
	Unavailable int            `json:"unavailable"`                    // claims that failed otherwise, as when the store did not answer
	Losses      int            `json:"losses"`                         // holds whose loss was reported
	Kept        int            `json:"held_past_renewal"`              // holds that outlived a renewal
	Nested      int            `json:"re_entries"`                     // re-entries that were granted
	HandedOn    int            `json:"handed_over_inside_the_process"` // holds handed to another claim of the same process
	Changes     int            `json:"changes_of_weight"`              // upgrades and downgrades
	Raced       int            `json:"releases_raced_with_the_end"`    // releases at the moment of the deadline
	Uses        int            `json:"uses"`                           // uses of the registers
	Late        int            `json:"late_uses"`                      // uses refused by the fenced register
	Harmed      int            `json:"unsafe_uses"`                    // writes that harmed the unfenced register
	Caught      int            `json:"unsafe_uses_caught"`             // of those, refused by the fenced register
	LongestWait time.Duration  `json:"longest_wait"`                   // the longest time from a claim to its grant
	Deaths      int            `json:"deaths"`                         // processes that were killed
	Stalled     time.Duration  `json:"longest_stall"`                  // the longest stall of a process, the parent or the store
	Faults      map[string]int `json:"faults"`                         // faults that met something, by kind
	Missed      int            `json:"faults_that_met_nothing"`        // faults that met nothing
	worked      time.Duration  // time until the faults ended: Run.For, or less if the run was stopped
}

// judge is a check in progress.
type judge struct {
	*view
	Count
	found []Violation
}

// wrong records a violation. The first few of each check are reported in full.
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
			case j.Voided+j.Undecided == 0 && v.broke: // running longer would not help
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

// notJudged returns the text for checks that had nothing to judge.
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

// waited reports whether a granted claim was made while the one granted before it held the lock.
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
	add(f.Refused+f.Cancelled == 0 && v.Run.Peer && !v.waited(), "no claim ever blocked another")
	add(links >= 5 && struckLinks == 0 && v.Run.Lines, "no link fault affected a connection: does the worker use the address in %s?", urlVar)
	add(f.Grants < v.Run.Floor, "%d grants were seen, and fewer than %d are no proof", f.Grants, v.Run.Floor) //mutant:judge-run-few-grants-proof
	add(v.calm == never, "the run did not come to its end")                                                   //mutant:judge-run-without-end-proof
	for _, c := range verdict.Checks {
		add(c.Undecided > c.Judged, "check %d (%s) could not decide %d of %d windows", c.Check, c.Text, c.Undecided, c.Undecided+c.Judged)
	}
	return why
}

// around returns the events that show the violation: those of its claims, the
// guilty one among them, the faults that were on, and the uses of the registers.
func (v *view) around(w *Violation, g *guilty) (events []Event) {
	const margin = time.Millisecond
	of, procs := map[key]bool{}, map[int]bool{0: true}
	for _, c := range w.claims {
		of[c.key], procs[c.proc] = true, true
		w.From = min(w.From, c.call)
	}
	began, ends := map[[2]any]int{}, map[int]time.Duration{} // index of the event that began a fault; and the fault's end, by that index
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
				f.Waits += count(!v.Run.Peer) // unknown for a lock that is no store
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

// byToken returns the granted claims in the order of their tokens.
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
