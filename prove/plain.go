package prove

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// brokenPlainly says for each check what its failure means, for a reader who has never seen
// a lock.
var brokenPlainly = map[check]string{
	exclusion: "Two workers had the same lock at the same time. What the lock guards can be damaged then: done twice, or half by one and half by the other.",
	tokens:    "The numbers (tokens) that show which write is too late were wrong. A late write would be accepted, or a correct one refused.",
	linear:    "The answers that the workers got contradict each other: no correct lock could have given them.",
	reported:  "A worker did not learn in time that it had lost its lock. It would continue to work without it.",
	live:      "A lock stayed locked although no worker held it any more. Everything that waits for it would stop.",
	order:     "Workers did not get the lock in the order in which they asked. A waiter can be overtaken again and again.",
	bounded:   "A call took much longer than it was allowed to. The program that makes it would hang.",
}

// plain returns the verdict for a reader who has never seen a lock, a sentence or two
// per line. The first line is the verdict itself.
func (r *Report) plain() []string {
	v, run, f := r.Verdict, &r.Run, &r.Verdict.Figures
	lines := []string{r.headline(),
		"A lock admits one program at a time, or a fixed number of them. All others wait, or are refused.",
		fmt.Sprintf("For %v, %s competed for %s, and got one %s. Meanwhile the test did %s.",
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
		lines = append(lines, "Nothing went wrong that the checks look for. That holds for this run and these faults, and is no proof for others.")
	}
	if n := f.Harmed - f.Caught; n > 0 {
		lines = append(lines, fmt.Sprintf("%s came too late and got through: the worker had lost its lock and did not know yet. That can happen with every lock, as a program can be stopped at any moment. Only a fencing token, checked by what the lock guards, stops such writes.", many(n, "write")))
	}
	if v.Proved && len(v.NotJudged) > 0 {
		lines = append(lines, "Some checks were not made, as this lock does not promise what they check: see below.")
	}
	return lines
}

// harm says what the faults of the run did.
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
		{[]Fault{restart}, "restarted programs"},
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
	return fmt.Sprintf("harm %s: it %s", many(sum, "time"), strings.Join(done, ", "))
}

func (r *Report) headline() string {
	v := r.Verdict
	switch {
	case v.wrong(exclusion):
		return "Not proved: two had this lock at the same time."
	case v.broke && !v.wrong(tokens) && !v.wrong(linear) && !v.wrong(reported) && !v.wrong(order): // a stuck name or call may be a result of that
		return "Not proved: the test itself went wrong. It says nothing about the lock."
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

// longestOverlap returns the longest overlap of those that are reported in full.
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
