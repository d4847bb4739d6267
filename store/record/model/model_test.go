package main

import (
	"bytes"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// It is explored at night, and further by the part `model` of make nightly: under the race detector it takes minutes, and no
// other code has a part in it.
func TestNothingGoesWrongUnderAllLaws(t *testing.T) {
	testserver.AtNight(t)
	states := 0
	for _, p := range parts() {
		t.Run(p.about, func(t *testing.T) {
			for _, r := range p.runs {
				res := r.explore()
				t.Logf("%v: %d states", r, res.states)
				if states += res.states; res.wrong != "" {
					t.Errorf("%v: %s\n%s", r, res.wrong, history(&res))
				}
			}
		})
	}
	t.Logf("%d states in total", states)
}

// They are the mutants of the model: what is proved by it would be without each law.
func TestEachDroppedLawIsCaught(t *testing.T) {
	testserver.AtNight(t)
	dropped := law(0)
	for i, p := range parts() {
		dropped |= p.laws
		for _, l := range p.laws.each() {
			t.Run(p.about+"/without: "+l.String(), func(t *testing.T) {
				res, r := p.without(l)
				if res.wrong == "" {
					t.Fatal("nothing goes wrong without the law, in part", i+1)
				}
				t.Logf("%v, %d states: %s\n%s", r, res.states, res.wrong, history(&res))
				if history(&res) == "" {
					t.Error("the failure has no history")
				}
			})
		}
	}
	for _, l := range law(all &^ dropped).each() {
		t.Errorf("no part drops the law that %v", l)
	}
}

func history(res *result) string {
	var out bytes.Buffer
	res.tell(&out)
	return out.String()
}
