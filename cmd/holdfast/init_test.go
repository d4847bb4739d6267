package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the packages of all stores do before main is paid by every call of the
// command, twice by `run`, whichever store is used. It is counted in
// allocations, which are the same on every machine. Whoever comes near the
// bound should find out which package works in its initialisation, and let it
// do so when it is used. The drivers of etcd, MongoDB and NATS cannot: they are left
// out of a build with the tag holdfast_lean, which is for those who use none. With
// them it is 1,113,264 bytes in 8,436 pieces, nearly 4,000 of which are the driver
// of MongoDB, and 2,244 of these the tables of its stringprep.
func TestInitialisationStaysSmall(t *testing.T) {
	for tag, most := range map[string]struct{ bytes, allocs int }{
		"holdfast_lean": {256 << 10, 1200},
		"":              {1280 << 10, 9000},
	} {
		t.Run("tag_"+tag, func(t *testing.T) { initialises(t, tag, most.bytes, most.allocs) })
	}
}

func initialises(t *testing.T, tag string, maxBytes, maxAllocs int) {
	bin := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.Command("go", "build", "-tags", tag, "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	packages, bytes, allocs := 0, 0, 0
	for line := range strings.Lines(trace.String()) {
		var name string
		var at, took float64
		var b, a int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &b, &a); n == 5 {
			packages++
			bytes += b
			allocs += a
		}
	}
	if packages < 10 {
		t.Fatalf("no trace of the initialisation:\n%s", trace.String())
	}
	if bytes > maxBytes || allocs > maxAllocs {
		t.Errorf("%d packages allocate %d bytes in %d pieces, want at most %d in %d:\n%s", packages, bytes, allocs, maxBytes, maxAllocs, trace.String())
	}
	t.Logf("%d packages, %d bytes, %d allocations", packages, bytes, allocs)
}
