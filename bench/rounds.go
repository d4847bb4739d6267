package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A runner measures one contender once.
type runner struct {
	name string
	run  func(ctx context.Context) (measure, error)
}

// A table has the figures of several contenders in the same rounds.
type table struct {
	title string
	// reference is the contender that the ratios refer to; bestPeer: the best of the other
	// libraries in each round; empty: there are no ratios.
	reference string
	columns   []column
	runners   []runner
	// derive adds figures that follow from those of several contenders in one round. Nil: there
	// are none.
	derive func(round map[string]measure)
	all    map[string][]measure // by contender and round
}

const bestPeer = "best peer"

// rounds measures a table and prints it.
func rounds(ctx context.Context, s setup, title, reference string, columns []column, runners []runner) error {
	t := table{title: title, reference: reference, columns: columns, runners: runners}
	return t.measure(ctx, s)
}

// measure runs every runner in every round, in a random order, and reports the medians.
func (t *table) measure(ctx context.Context, s setup) error {
	if s.ours {
		t.runners = onlyOurs(t.runners)
	}
	if len(t.runners) == 0 {
		return nil
	}
	t.all = map[string][]measure{}
	for range s.rounds {
		round := map[string]measure{}
		for _, i := range rand.Perm(len(t.runners)) {
			r := t.runners[i]
			m, err := r.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", t.title, r.name, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			round[r.name] = m
		}
		if t.reference == bestPeer {
			round[bestPeer] = best(t.columns, round)
		}
		if t.derive != nil {
			t.derive(round)
		}
		for name, m := range round {
			t.all[name] = append(t.all[name], m)
		}
	}
	return s.report(t)
}

// isOurs reports whether a contender is holdfast, in any variant.
func isOurs(name string) bool { return strings.HasPrefix(name, "holdfast") }

func onlyOurs(all []runner) (some []runner) {
	for _, r := range all {
		if isOurs(r.name) {
			some = append(some, r)
		}
	}
	return some
}

// best returns the best figures of the other libraries in the round.
func best(columns []column, round map[string]measure) measure {
	out := measure{}
	for name, m := range round {
		if isOurs(name) || contenderNotes[name].module == "" {
			continue
		}
		for _, c := range columns {
			v, ok := m[c.name]
			if !ok || !c.ratio {
				continue
			}
			old, had := out[c.name]
			if !had || c.better == less && v < old || c.better != less && v > old {
				out[c.name] = v
			}
		}
	}
	return out
}
