package pgstore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// Replicas that may lose a grant are a warning, not ok.
func TestAsynchronousReplicasAreWarnedOf(t *testing.T) {
	for _, c := range []struct {
		replicas    int64
		synchronous string
		want        store.Level
		says        string
	}{
		{0, "", store.LevelOK, "none"}, {2, "", store.LevelWarning, "2 replicas, none of them synchronous"}, {2, "ANY 1 (a, b)", store.LevelOK, "ANY 1 (a, b)"}, {0, "a", store.LevelOK, "none"},
	} {
		if f := checkReplicas(facts{replicas: c.replicas, synchronous: c.synchronous}); f.Level() != c.want || !strings.Contains(f.Found, c.says) {
			t.Errorf("%d replicas, %q: got %s %q", c.replicas, c.synchronous, f.Level(), f.Found)
		}
	}
}
