package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/prove"
)

// faultyArg as the first argument, with the name of a library as the second, makes the program
// a process of a prove run.
const faultyArg = "faulty"

func faultyChild(name string, in io.Reader, out io.Writer) error {
	i := slices.IndexFunc(underFaults, func(f faulty) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("unknown library %q", name)
	}
	return underFaults[i].own().Child(in, out)
}

// A loss is what a library lost in all runs, counted by prove.
type loss struct {
	runs, proved, grants, faults   int
	overlaps, late, stuck, toolong int
	uses, unsafe, caught           int
	went                           []string // runs that did not finish
}

// faults runs the libraries on one Redis server under the faults of prove, with its processes,
// links and checks. All libraries get the same seeds.
func faults(ctx context.Context, s setup) error {
	server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	addr := server.Addr
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sums := make([]loss, len(underFaults))
	for seed := uint64(1); seed <= uint64(s.seeds); seed++ {
		for i, f := range underFaults {
			r, err := prove.Prove(ctx, &prove.Options{
				URL: "redis://" + addr, For: s.proveFor, Processes: 6, Names: 3, Seed: seed,
				Command: func() *exec.Cmd { return exec.Command(self, faultyArg, f.name) },
				Own:     f.own(),
			})
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			sums[i].add(r)
		}
	}
	table := lossTable(s, sums)
	fmt.Fprint(s.out, table)
	if s.write == "" {
		return nil
	}
	return replaceBetween(s.write, "<!-- peers: written by go -C bench run . -write ../docs/proof.md faults -->\n", "<!-- end of peers -->\n", table)
}

func (l *loss) add(r *prove.Report) {
	f := &r.Verdict.Figures
	l.runs++
	l.grants, l.uses, l.unsafe, l.caught = l.grants+f.Grants, l.uses+f.Uses, l.unsafe+f.Harmed, l.caught+f.Caught
	for _, n := range f.Faults {
		l.faults += n
	}
	wrong := map[int]int{}
	for _, c := range r.Verdict.Checks {
		wrong[c.Check] = c.Wrong
	}
	l.overlaps, l.late, l.stuck, l.toolong = l.overlaps+wrong[1], l.late+wrong[4], l.stuck+wrong[5], l.toolong+wrong[7]
	if r.Verdict.Proved {
		l.proved++
	}
	l.went = append(l.went, r.Verdict.TooLittle...)
}

// lossTable formats the results for people, and for a Markdown page.
func lossTable(s setup, sums []loss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| on Redis, %d runs of %v each | runs without a violation | grants | faults | grants while another held | losses reported late or never | names or waiters stuck after the faults | calls too long | uses of the resource, of them unsafe | of those, refused by the fence |\n",
		s.seeds, s.proveFor)
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	var notes []string
	for i, f := range underFaults {
		l := &sums[i]
		late, fence := fmt.Sprint(l.late), "no token"
		if f.name == "rueidislock" {
			late = "not seen from outside"
		}
		if f.fenced {
			fence = fmt.Sprint(l.caught)
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %d | %d | %d | %s | %d | %d | %d, %d | %s |\n",
			f.name, l.proved, l.runs, l.grants, l.faults, l.overlaps, late, l.stuck, l.toolong, l.uses, l.unsafe, fence)
		slices.SortFunc(l.went, cmp.Compare[string])
		for _, why := range slices.Compact(l.went) {
			notes = append(notes, f.name+": "+why)
		}
	}
	for _, n := range notes {
		first, _, _ := strings.Cut(n, "\n")
		fmt.Fprintf(&b, "\n%s\n", first)
	}
	b.WriteString("\n")
	return b.String()
}

// replaceBetween replaces the text between two marks in a file.
func replaceBetween(path, begin, end, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return errors.New(path + " has no marks for the figures")
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o666)
}
