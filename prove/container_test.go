//go:build linux || darwin

package prove

import (
	"errors"
	"os/exec"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// needContainers skips the test where no container can be made.
func needContainers(t *testing.T) {
	t.Helper()
	r := &run{o: options("file:"+t.TempDir(), 1)}
	r.starter()
	defer close(r.starts)
	if err := r.tryContainer(); err != nil {
		t.Skipf("no container can be made here: %v", err)
	}
}

func TestFilesAreProvedAmongContainersWithBootIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	needContainers(t)
	o := options("file:"+t.TempDir(), 1)
	o.Faults = []Fault{contained, stopShort, stopLong, kill}
	if met := proved(t, o).Verdict.Figures.Faults[string(contained)]; met < o.Processes/2 {
		t.Errorf("got %d processes in containers, want half of %d", met, o.Processes)
	}
}

// Where no container can be made, the file store is proved without one, and the report says so.
func TestContainersThatCannotBeMadeAreNoFault(t *testing.T) {
	t.Parallel()
	o := options("file:"+t.TempDir(), 1)
	o.Faults = Faults(o.URL)
	r := &run{o: o}
	r.starter()
	defer close(r.starts)
	o.Command = func() *exec.Cmd { return exec.Command("false") }
	if err := r.containers(true); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("%v, want ErrUnsupported", err)
	}
	if err := r.containers(false); err != nil || r.uncontained == nil || slices.Contains(o.Faults, contained) {
		t.Errorf("got %v, %v, faults %v, want no error and no fault", err, r.uncontained, o.Faults)
	}
}
