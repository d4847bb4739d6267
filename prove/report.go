package prove

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

// A Report is a run with its verdict, as in report.json.
type Report struct {
	Run     Run      `json:"run"`     // the run that was judged
	Verdict *Verdict `json:"verdict"` // what it proves

	history *History
}

// Print writes the report as text.
func (r *Report) Print(out io.Writer) error {
	run, v, f := &r.Run, r.Verdict, &r.Verdict.Figures
	w := &strings.Builder{}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range r.plain() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	row("store", "%s", run.Store)
	row("run", "%v, %d processes, %d names, TTL %v, --seed %d", r.worked(), run.Processes, len(run.Names), run.TTL, run.Seed)
	row("granted", "%d claims; %s", f.Grants, r.waits())
	row("not granted", "%d claims: %d refused, %d gave up waiting, %d had no answer from the store", f.Refused+f.Cancelled+f.Unavailable, f.Refused, f.Cancelled, f.Unavailable)
	row("of the grants", "%d outlived a renewal, %d came from another claim of the same process, %d were re-entries, %d upgrades and downgrades, %d released as they expired", f.Kept, f.HandedOn, f.Nested, f.Changes, f.Raced)
	row("lost", "%d leases, and their holders knew; %d processes were killed; the longest stall was %v", f.Losses, f.Deaths, short(f.Stalled))
	row("late writes", "%d of %d uses of what the locks guard; a check of the token refused %d", f.Harmed, f.Uses, f.Caught)
	var faults []string
	for _, k := range slices.Sorted(maps.Keys(f.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", k, f.Faults[k]))
	}
	if faults == nil {
		faults = []string{"none"}
	}
	row("faults with an effect", "%s", strings.Join(faults, ", "))
	t.Flush()
	fmt.Fprint(t, "\nCHECK\tRESULT\tCASES\tNOTE\n")
	for _, c := range v.Checks {
		fmt.Fprintf(t, "%d. %s\t%s\t%d\t%s\n", c.Check, c.Text, c.result(), c.Judged, c.note())
	}
	t.Flush()
	if len(v.Unchecked) > 0 {
		fmt.Fprint(w, "\nNot tested here:\n")
	}
	for _, u := range v.Unchecked {
		fmt.Fprintf(w, "  %s\n", u)
	}
	fmt.Fprintln(w)
	for i := range v.Violations {
		v.Violations[i].print(w, run)
	}
	for _, why := range v.TooLittle {
		fmt.Fprintf(w, "too little happened: %s\n", why)
	}
	fmt.Fprintln(w, r.verdict())
	_, err := io.WriteString(out, visible(w.String()))
	return err
}

// worked returns how long the processes worked: less than Run.For if the run was stopped.
func (r *Report) worked() time.Duration {
	if w := r.Verdict.Figures.worked; 0 < w && w < r.Run.For {
		return w.Round(100 * time.Millisecond)
	}
	return r.Run.For
}

// waits says how many grants had to wait, where that is visible.
func (r *Report) waits() string {
	f := &r.Verdict.Figures
	if r.Run.Peer {
		return fmt.Sprintf("the slowest took %v", short(f.LongestWait)) // whether it waited or not
	}
	return fmt.Sprintf("%d had to wait, the longest %v", f.Waits, short(f.LongestWait))
}

// result returns the outcome of the check in a word.
func (c *Count) result() string {
	switch {
	case c.Wrong > 0:
		return fmt.Sprintf("%d WRONG", c.Wrong)
	case c.Judged == 0:
		return "not judged"
	}
	return "ok"
}

// note says why the check judged nothing, or which cases it left out.
func (c *Count) note() string {
	if c.Not != "" {
		return c.Not
	}
	var left []string
	if c.Voided > 0 {
		left = append(left, fmt.Sprintf("%d more excused by a fault", c.Voided))
	}
	if c.Undecided > 0 {
		left = append(left, fmt.Sprintf("%d more took too long to decide", c.Undecided))
	}
	return strings.Join(left, ", ")
}

// visible escapes what a terminal would obey: the text contains what workers wrote to their
// stderr, and whatever a history says.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// lastLine is the maximum length of the report's last line, in characters.
const lastLine = 160

// verdict returns the last line of the report. It is a plain PROVED only if each check had
// something to judge. It says why a check had nothing if that fits; otherwise the lines above do.
func (r *Report) verdict() string {
	v, text := r.Verdict, "PROVED, for the faults above"
	switch {
	case len(v.Violations) > 0:
		return fmt.Sprintf("NOT PROVED: promises were broken; --seed %d repeats the same faults", r.Run.Seed)
	case !v.Proved:
		text = "NOT PROVED: too little happened to be proof"
	case len(v.NotJudged) > 0: //mutant:prove-verdict-says-not-judged
		text = "PROVED in part, for the faults above"
	}
	if len(v.NotJudged) == 0 {
		return text
	}
	whole := text + "; not judged: " + strings.Join(v.NotJudged, "; ")
	if utf8.RuneCountInString(whole) <= lastLine { //mutant:prove-verdict-is-one-line
		return whole
	}
	var numbers []string
	for _, why := range v.NotJudged {
		number, _, _ := strings.Cut(why, " (")
		numbers = append(numbers, strings.TrimPrefix(number, "check "))
	}
	return text + "; not judged, as explained above: checks " + strings.Join(numbers, ", ")
}

func (w *Violation) print(out io.Writer, run *Run) {
	name := ""
	if w.Name != "" {
		name = fmt.Sprintf(" of %q", w.Name)
	}
	fmt.Fprintf(out, "check %d%s: %s\n", w.Check, name, w.Text)
	fmt.Fprintf(out, "cause: %s\n", w.Cause)
	for i, e := range w.Events {
		mark := " "
		if i == w.Guilty {
			mark = ">"
		}
		fmt.Fprintf(out, "%s %12.3f ms  %s\n", mark, float64(e.At)/1e6, e.line())
	}
	fmt.Fprintln(out)
}

// line returns the event as text.
func (e *Event) line() string {
	who := "parent"
	if e.Proc > 0 {
		who = fmt.Sprintf("process %d", e.Proc)
		if e.Life > 0 {
			who += fmt.Sprintf(" life %d", e.Life+1)
		}
	}
	if e.Op > 0 {
		who += fmt.Sprintf(" claim %d", e.Op)
	}
	do := string(e.Do)
	if e.Do == until {
		do = "valid" // the deadline follows below, as "until"
	}
	text := fmt.Sprintf("%-26s %s", who, do)
	add := func(is bool, format string, args ...any) {
		if is {
			text += fmt.Sprintf(" "+format, args...)
		}
	}
	add(e.Fault != "", "%s", e.Fault)
	add(e.Verb != "", "%s", e.Verb)
	add(e.Do == ask && e.Limit != store.Full, "%d of %d", e.Weight, e.Limit)
	add(e.Do == weight, "now %s", map[int64]string{store.Full: "the whole", store.Upgradeable: "a part"}[e.Weight])
	add(e.Bound > 0, "for at most %v", short(e.Bound))
	add(e.Token != 0, "token %d", e.Token)
	add(e.Until != 0, "until %.3f ms", float64(e.Until)/1e6)
	add(e.By != 0, "%v late", short(e.By))
	add(e.Do == use && e.Write, "write")
	add(e.Refused, "refused by the fence")
	add(e.Harm, "and harmed the unfenced register")
	add(e.Do == mended, "hits %d", e.Hits)
	add(e.Do == left, "%d entries", e.Entries)
	add(e.Err != "", "%s", e.Err)
	add(e.Text != "", "%q", e.Text)
	return text
}

func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}
