package main

import (
	"flag"
	"fmt"
	"io"
	"math/bits"
	"os"
	"time"
)

func main() {
	wide := flag.Bool("wide", false, "wider bounds: tens of millions of states")
	only := flag.Int("part", 0, "only this part")
	small := flag.Bool("small", false, "only the small bounds of the test")
	flag.Parse()
	bad := false
	for i, p := range parts() {
		if *only != 0 && *only != i+1 {
			continue
		}
		fmt.Printf("\n%d. %s\n", i+1, p.about)
		runs := p.runs
		if !*small {
			runs = append(runs, p.more...)
		}
		if *wide {
			runs = append(runs, p.wide...)
		}
		for _, r := range runs {
			begun := time.Now()
			res := r.explore()
			fmt.Printf("  %v: %d states, %v: %s\n", r, res.states, time.Since(begun).Round(time.Second/10), verdict(&res))
			bad = tellWrong(os.Stdout, &res) || bad
		}
		for _, l := range p.laws.each() {
			fmt.Printf("\n  Without: %v\n", l)
			res, r := p.without(l)
			if bad = bad || res.wrong == ""; res.wrong == "" {
				fmt.Println("    NOTHING GOES WRONG")
				continue
			}
			fmt.Printf("  %v, %d states: %s\n", r, res.states, verdict(&res))
			tellWrong(os.Stdout, &res)
		}
	}
	if bad {
		os.Exit(1)
	}
}

// without returns what the small runs of a part find when a law is dropped.
func (p *part) without(l law) (res result, r run) {
	for _, r = range p.runs {
		if res = r.without(l).explore(); res.wrong != "" {
			break
		}
	}
	return res, r
}

// each returns the laws of a set.
func (l law) each() (laws []law) {
	for ; l != 0; l &= l - 1 {
		laws = append(laws, 1<<bits.TrailingZeros64(uint64(l)))
	}
	return laws
}

func tellWrong(w io.Writer, res *result) bool {
	if res.wrong == "" {
		return false
	}
	res.tell(w)
	return true
}

func verdict(r *result) string {
	if r.wrong != "" {
		return r.wrong
	}
	return "all is well"
}

func (s scheme) String() string { return [...]string{"void by call", "void by mark", "no join"}[s] }
func (l law) String() string    { return says[l] }
func (r *rules) String() string {
	return fmt.Sprintf("%v, %d claims:%s", r.scheme, r.n, r.bounds)
}

func (f faults) String() (out string) {
	for _, x := range []struct {
		n    int8
		what string
	}{
		{f.silent, "unanswered"}, {f.copies, "doubled"}, {f.lapses, "run out"}, {f.deaths, "killed"},
		{f.breaks, "broken"}, {f.drops, "lost"}, {f.deletes, "deleted"}, {f.ends, "ended"},
	} {
		if x.n > 0 {
			out += fmt.Sprintf(" %d %s", x.n, x.what)
		}
	}
	return out
}
