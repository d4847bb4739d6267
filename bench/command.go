package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	runLean  = "holdfast run x -- true"
	runWhole = "holdfast run x -- true, whole program"
)

// command measures `holdfast run` against system programs that do part of its work: what it
// costs to run a command that does nothing, what its processes use while a command runs, and
// how long package initialization takes.
func command(ctx context.Context, s setup) error {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	whole, lean := filepath.Join(dir, "holdfast-whole"), filepath.Join(dir, "holdfast")
	if err := buildCommand(ctx, whole, "", ""); err != nil {
		return err
	}
	if err := buildCommand(ctx, lean, "holdfast_lean", "-X main.whole="+whole); err != nil { // like scripts/release
		return err
	}
	twice := filepath.Join(dir, "twice")
	if err := buildProgram(ctx, twice, "", "github.com/holdfast-go/holdfast/bench/twice", "-ldflags=-s -w"); err != nil {
		return err
	}
	files := "file:" + filepath.Join(dir, "store")
	if err := commandRuns(ctx, s.at("files in "+dir), "The command, on files", dir, lean, whole, twice, files); err != nil {
		return err
	}
	if err := commandOnRedis(ctx, s, dir, lean, whole, twice); err != nil {
		return err
	}
	if err := commandMemory(ctx, s, whole, files); err != nil {
		return err
	}
	return commandInit(ctx, s, whole, files)
}

func commandOnRedis(ctx context.Context, s setup, dir, lean, whole, twice string) error {
	const redis = "redis"
	for _, on := range stores {
		if on.name == redis {
			return on.during(ctx, func(at running) error {
				return commandRuns(ctx, s.at(at.server), "The command, on Redis", dir, lean, whole, twice, redis+"://"+at.target)
			})
		}
	}
	return nil
}

// commandRuns measures how long it takes to run a program that does nothing. The system
// programs lock a file whatever the store is.
func commandRuns(ctx context.Context, s setup, title, dir, lean, whole, twice, store string) error {
	program := func(name string, argv ...string) runner {
		return runner{name, func(ctx context.Context) (measure, error) {
			var all []time.Duration
			for began := time.Now(); len(all) < 5 || time.Since(began) < s.slice; {
				cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
				cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+store)
				start := time.Now()
				if err := cmd.Run(); err != nil {
					return nil, err
				}
				all = append(all, time.Since(start))
			}
			return measure{"p50": float64(median(all))}, nil
		}}
	}
	runners := []runner{
		program(runLean, lean, "run", "x", "--", "true"),
		program(runWhole, whole, "run", "x", "--", "true"),
		program(twoAlone, twice, "true"),
		program("true", "true"),
	}
	title += ": to run a program that does nothing"
	for _, other := range [][]string{{"flock", filepath.Join(dir, "lock"), "true"}, {"timeout", "5", "true"}} {
		if _, err := exec.LookPath(other[0]); err != nil {
			if err := s.absent(title+", "+other[0], "not measured: "+err.Error()); err != nil {
				return err
			}
			continue
		}
		runners = append(runners, program(other[0]+" … true", other...))
	}
	return rounds(ctx, s, title, "flock … true", []column{elapsed("p50").beside()}, runners)
}

// buildCommand builds the command from the source of this program's module, with build tags and
// linker flags, as scripts/release does.
func buildCommand(ctx context.Context, to, tags, flags string) error {
	source, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast").Output()
	if err != nil {
		return fmt.Errorf("find the module of the command: %w", err)
	}
	return buildProgram(ctx, to, strings.TrimSpace(string(source)), "./cmd/holdfast", "-tags="+tags, "-ldflags=-s -w "+flags)
}

// buildProgram builds a program from a directory; empty: the working directory.
func buildProgram(ctx context.Context, to, dir, program string, flags ...string) error {
	linked := to + ".linked"
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", linked}, flags, []string{program})...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // otherwise the dynamic linker adds a fifth
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	// A file that the linker has just written is in memory in small pages. Running it takes 2
	// to 3 ms longer than running a copy, or a program read from disk, and that differs from
	// build to build.
	built, err := os.ReadFile(linked)
	if err != nil {
		return err
	}
	if err := os.Remove(linked); err != nil {
		return err
	}
	return os.WriteFile(to, built, 0o755)
}
