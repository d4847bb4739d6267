//go:build proveall && (linux || darwin)

package prove

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stores are the stores that have a run of the kind.
func (r *records) stores(kind string) (names []string) {
	for _, s := range provable {
		if _, runs, _, _ := r.sum(s.name, kind); runs > 0 {
			names = append(names, s.name)
		}
	}
	var others []string
	for _, x := range r.all {
		if x.Kind == kind && x.Broken == "" && !slices.Contains(names, x.Store) && !slices.Contains(others, x.Store) {
			others = append(others, x.Store)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

const (
	begin = "<!-- figures: written by make prove-all -->\n"
	end   = "<!-- end of figures -->\n"
)

// write puts the figures between the markers on the page.
func (r *records) write(t *testing.T) {
	path := filepath.Join("..", "docs", "proof.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks around the figures", path)
	}
	var b strings.Builder
	for _, kind := range []string{"", "dense", "wide", string(failover), string(full), string(stopBoth)} {
		stores := r.stores(kind)
		if len(stores) == 0 {
			continue
		}
		if kind != "" {
			fmt.Fprintf(&b, "\n%s%s:\n", strings.ToUpper(kind[:1]), kind[1:])
		}
		b.WriteString("\n| store | runs | proved | grants | of them waited for | handed over in a process | losses reported | late uses refused by the fence | faults |\n|---|---|---|---|---|---|---|---|---|\n")
		for _, name := range stores {
			sum, runs, proved, faults := r.sum(name, kind)
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", name, runs, proved, sum.Grants, sum.Waits, sum.Handed, sum.Losses, sum.Caught, faults)
		}
	}
	b.WriteString("\n| broken lock | on | under | found | in the median | by check |\n|---|---|---|---|---|---|\n")
	for _, l := range slices.Concat(brokenLocks, brokenRuns) {
		var took []time.Duration
		by := map[int]bool{}
		runs := 0
		for _, x := range r.all {
			if x.Broken != l.name {
				continue
			}
			if runs++; x.Found > 0 {
				took, by[x.Found] = append(took, x.Took), true
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		var numbers []string
		for _, c := range checks {
			if by[int(c)] {
				numbers = append(numbers, strconv.Itoa(int(c)))
			}
		}
		faults := slices.Compact(slices.Clone(l.faults))
		if l.server != "" {
			faults = append(faults, l.server)
		}
		under := join(faults)
		if l.wide {
			under += ", wide"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d of %d | %.1f s | %s |\n", l.name, l.on, under, len(took), runs, took[len(took)/2].Seconds(), strings.Join(numbers, ", "))
	}
	b.WriteString("\n")
	if err := os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o666); err != nil {
		t.Fatal(err)
	}
}
