package holdfastprom_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The collector with one thing wrong fails a test.
func TestEachMutantIsCaught(t *testing.T) {
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a loss is not counted", "TestCollector_CountsWhatALockerDoes", "prom-loss", mutant.Delete()},
		{"a hold that has ended counts", "TestCollector_CountsWhatALockerDoes", "prom-holds", mutant.Delete()},
		{"the last grant is not kept", "TestCollector_CountsWhatALockerDoes", "prom-last", mutant.Delete()},
		{"terms are hold times", "TestCollector_SaysHowLongAndWhy", "prom-terms", mutant.Cond("true")},
		{"a standby candidate counts as a wait", "TestAStandbyCandidateIsNotCountedAsAWait", "prom-waits", mutant.Cond("true")},
		{"a claim that was canceled is a failure", "TestCollector_SaysHowLongAndWhy", "prom-canceled", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "holdfastprom", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
