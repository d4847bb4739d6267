//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Work of packages before main costs time at each start, whichever store is used. The
// front of `run` starts in package front, so only the packages before that count for
// it. For all other processes the drivers of all stores count. The work is counted in
// allocations, which are the same on every machine. If a change comes near a bound,
// find the package that works in its initialization, and defer that work to its first
// use. If it exceeds the bound of the front, find what package front now imports that
// is initialized late. The drivers of etcd, MongoDB, NATS and SQL Server cannot defer their work: a
// build with the tag holdfast_lean leaves them out. With them all allocations are
// 1,194,640 bytes in 8,834 pieces. 52 of these are for top, and nearly 4,000 are the driver of MongoDB.
// 2,244 of the latter are the tables of its stringprep, whose path comes before those that
// the front needs.
func TestInitializationStaysSmall(t *testing.T) {
	t.Parallel()
	for tag, most := range map[string][2]initialised{ // of the front and of all others
		"holdfast_lean": {{96 << 10, 400}, {256 << 10, 1200}},
		"":              {{294 << 10, 3300}, {1254 << 10, 9000}},
	} {
		t.Run("tag_"+tag, func(t *testing.T) {
			t.Parallel()
			dir, err := t.TempDir(), error(nil)
			if tag == "" {
				dir, err = plainCommand()
			} else {
				err = buildCommand(tag, filepath.Join(dir, "holdfast"))
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(filepath.Join(dir, "holdfast"), "run", "x", "--", "true")
			cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "HOLDFAST_STORE=file:"+t.TempDir())
			var trace strings.Builder
			cmd.Stderr = &trace
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, trace.String())
			}
			processes := starts(trace.String())
			if len(processes) != 2 {
				t.Fatalf("got %d processes with a trace of their initialization, want front and engine:\n%s", len(processes), trace.String())
			}
			for i, most := range most {
				if is := processes[i]; is.bytes > most.bytes || is.allocs > most.allocs {
					t.Errorf("process %d allocates %+v before main, want at most %+v:\n%s", i+1, is, most, trace.String())
				}
			}
			t.Logf("%+v", processes)
		})
	}
}

// initialised is what the packages of a process allocate when they are
// initialized.
type initialised struct{ bytes, allocs int }

// starts reads the Go runtime's trace of that, for processes one after the other.
// All begin with the same package.
func starts(trace string) (all []initialised) {
	first := ""
	for line := range strings.Lines(trace) {
		var name string
		var at, took float64
		var bytes, allocs int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &bytes, &allocs); n != 5 {
			continue
		}
		if first == "" {
			first = name
		}
		if name == first {
			all = append(all, initialised{})
		}
		last := &all[len(all)-1]
		if name != "encoding/gob" { // 27,000 bytes, and 167,000 since Go 1.27, in as many pieces: nats.go imports it
			last.bytes += bytes
		}
		last.allocs += allocs
	}
	return all
}
