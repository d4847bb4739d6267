package holdfastotel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The adapter with one thing wrong fails a test.
func TestEachMutantIsCaught(t *testing.T) {
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a loss is not counted", "TestMetricsCountWhatALockerDoes", "otel-loss", mutant.Delete()},
		{"the last grant is not kept", "TestMetricsCountWhatALockerDoes", "otel-last", mutant.Delete()},
		{"a hold has no parent", "TestSpansHaveTheClaimsSpanAsParent", "otel-parent", mutant.Value(`t.tracer.Start(context.Background(), "holdfast hold", start...)`)},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastotel", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
