package prove

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// brokenPlainly says of each check what it means that it failed, for somebody who has never
// seen a lock.
var brokenPlainly = map[check]string{
	exclusion: "Two workers had the same lock at the same time. What the lock guards can be damaged then: done twice, or half by one and half by the other.",
	tokens:    "The numbers by which late writes are recognized were wrong. A write of a worker that is too late would be let through, or a rightful one refused.",
	linear:    "What the workers were answered does not fit together: no lock that lets in one at a time could have answered so.",
	told:      "A worker was not told in time that it had lost its lock. It would go on working without it.",
	live:      "A lock stayed taken although nobody had it any more. Everything that waits for it would stand still.",
	order:     "Workers were not let in by turns. One that waits can be passed over again and again.",
	bounded:   "A call took much longer than it was allowed to. The program that makes it would hang.",
}

// plain is the verdict for somebody who has never seen a lock, a sentence or two a
// line. The first line is the verdict itself.
func (r *Report) plain() []string {
	v, run, f := r.Verdict, &r.Run, &r.Verdict.Figures
	lines := []string{r.headline(),
		"A lock is a promise: of all who ask for it, only so many may have it at a time, most often one. The others wait, or are refused.",
		fmt.Sprintf("For %v, %s asked for %s, and had one %s. In that time the test did them %s.",
			r.worked(), many(run.Processes, "program"), many(len(run.Names), "lock"), many(f.Grants, "time"), f.harm()),
	}
	for _, c := range v.Checks {
		if c.Wrong == 0 {
			continue
		}
		text := brokenPlainly[check(c.Check)]
		if check(c.Check) == exclusion {
			text += fmt.Sprintf(" It happened %s, the longest for %v.", many(c.Wrong, "time"), short(v.longestOverlap()))
		}
		lines = append(lines, text)
	}
	if len(v.Violations) == 0 && len(v.TooLittle) == 0 {
		lines = append(lines, "Nothing of what was watched for went wrong. That is true of this run and of these faults, and no proof for others.")
	}
	if n := f.Harmed - f.Caught; n > 0 {
		lines = append(lines, fmt.Sprintf("%s came from a worker that had lost its lock and did not know, and went through: a stopped program can always be too late. A fencing token, which the guarded thing checks, is what refuses such writes.", many(n, "write")))
	}
	if v.Proved && len(v.NotJudged) > 0 {
		lines = append(lines, "Not all was judged, as this lock does not promise all: see below.")
	}
	return lines
}

// harm is what was done in the run.
func (f *Figures) harm() string {
	sum := 0
	for _, n := range f.Faults {
		sum += n
	}
	var done []string
	for _, kind := range []struct {
		faults []Fault
		done   string
	}{
		{[]Fault{stopShort, stopLong, stopBoth}, "stopped programs for a while"},
		{[]Fault{kill}, "killed programs"},
		{[]Fault{restart}, "ended programs and began others"},
		{linkFaults, "cut and slowed connections"},
		{serverFaults, "harmed the server itself"},
	} {
		if slices.ContainsFunc(kind.faults, func(x Fault) bool { return f.Faults[string(x)] > 0 }) {
			done = append(done, kind.done)
		}
	}
	if len(done) == 0 {
		return "no harm"
	}
	return fmt.Sprintf("harm on purpose, %s: it %s", many(sum, "time"), strings.Join(done, ", "))
}

func (r *Report) headline() string {
	v := r.Verdict
	switch {
	case v.wrong(exclusion):
		return "Not proved: this lock let in two at once."
	case v.broke && !v.wrong(tokens) && !v.wrong(linear) && !v.wrong(told) && !v.wrong(order): // that a name is stuck, or a call, may be of the break
		return "Not proved: the run could not be made as it should. It says nothing of the lock."
	case len(v.Violations) > 0:
		return "Not proved: this lock broke a promise."
	case !v.Proved:
		return "Not proved: too little happened to say anything."
	case len(v.NotJudged) > 0:
		return "Proved in part: this lock kept what it promises."
	}
	return "Proved: this lock kept all its promises."
}

func (v *Verdict) wrong(c check) bool {
	for _, x := range v.Checks {
		if x.Check == int(c) {
			return x.Wrong > 0
		}
	}
	return false
}

// longestOverlap is of those that are told in full.
func (v *Verdict) longestOverlap() (most time.Duration) {
	for _, w := range v.Violations {
		if check(w.Check) == exclusion {
			most = max(most, w.overlap.to-w.overlap.from)
		}
	}
	return most
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
