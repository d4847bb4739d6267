package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command measures `holdfast run` against the programs of the system that do a
// part of what it does: what it costs to run a command that does nothing, what
// its processes take while a command runs, and what is done before main.
func command(ctx context.Context, s setup) error {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	holdfast := filepath.Join(dir, "holdfast")
	lean := filepath.Join(dir, "holdfast-lean")
	for program, tags := range map[string]string{holdfast: "", lean: "holdfast_lean"} {
		if err := buildCommand(ctx, program, tags); err != nil {
			return err
		}
	}
	store := "file:" + filepath.Join(dir, "store")
	program := func(name string, argv ...string) runner {
		return runner{name, func(ctx context.Context) (measure, error) {
			var took []time.Duration
			for began := time.Now(); len(took) < 5 || time.Since(began) < s.slice; {
				cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
				cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+store)
				start := time.Now()
				if err := cmd.Run(); err != nil {
					return nil, err
				}
				took = append(took, time.Since(start))
			}
			return measure{"p50": float64(median(took))}, nil
		}}
	}
	runners := []runner{
		program("holdfast run x -- true", holdfast, "run", "x", "--", "true"),
		program("the same, holdfast_lean", lean, "run", "x", "--", "true"),
		program("true", "true"),
	}
	for _, other := range [][]string{{"flock", filepath.Join(dir, "lock"), "true"}, {"timeout", "5", "true"}} {
		if _, err := exec.LookPath(other[0]); err == nil {
			runners = append(runners, program(strings.Join(append(other[:1:1], "… true"), " "), other...))
		}
	}
	err = rounds(ctx, s, "The command, on files: to run a program that does nothing", "flock … true",
		[]column{{name: "p50", print: duration, ratio: true}}, runners)
	if err != nil {
		return err
	}
	if err := commandMemory(ctx, s, holdfast, store); err != nil {
		return err
	}
	return commandInit(ctx, s, holdfast, store)
}

// buildCommand builds the command from the source that this program is of, with
// the build tags.
func buildCommand(ctx context.Context, to, tags string) error {
	source, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast").Output()
	if err != nil {
		return fmt.Errorf("find the module of the command: %w", err)
	}
	linked := to + ".linked"
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-tags", tags, "-o", linked, "./cmd/holdfast")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // or the dynamic linker adds a fifth
	build.Dir = strings.TrimSpace(string(source))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the command: %w\n%s", err, out)
	}
	// What the linker has just written is in memory in small pages: to run it takes
	// 2 to 3 ms longer than to run a copy, or a program that was read from a disk, and
	// that changes from build to build.
	program, err := os.ReadFile(linked)
	if err != nil {
		return err
	}
	if err := os.Remove(linked); err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// commandMemory tells what the processes of one `holdfast run` take while the
// command sleeps.
func commandMemory(ctx context.Context, s setup, holdfast, store string) error {
	if runtime.GOOS != "linux" {
		return nil // nothing like smaps_rollup
	}
	cmd := exec.CommandContext(ctx, holdfast, "run", "x", "--", "sh", "-c", "echo; exec sleep 1000")
	cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+store)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return errors.New("the command did not start")
	}
	fmt.Fprintf(s.out, "\nThe command: memory while a program runs, in KiB, of which private\n")
	for pid, i := cmd.Process.Pid, 0; ; i++ {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != holdfast {
			if i == 0 {
				return fmt.Errorf("process %d is %s: %w", pid, exe, err)
			}
			return nil
		}
		resident, private, err := rollup(pid)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  process %d  %d  %d\n", i+1, resident, private)
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(string(children), " ")
		if pid, err = strconv.Atoi(first); err != nil {
			return nil
		}
	}
}

// rollup is what a process takes, in KiB.
func rollup(pid int) (resident, private int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "Rss:":
			resident = n
		case "Private_Clean:", "Private_Dirty:":
			private += n
		}
	}
	return resident, private, err
}

// commandInit tells what the packages of the command do before main: in the front
// of `run`, which needs few of them, and in the engine, which has all.
func commandInit(ctx context.Context, s setup, holdfast, store string) error {
	names := [2]string{"front", "engine"}
	var times [2]map[string][]float64
	var totals [2][]float64
	for i := range times {
		times[i] = map[string][]float64{}
	}
	for range s.rounds {
		cmd := exec.CommandContext(ctx, holdfast, "run", "x", "--", "true")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "HOLDFAST_STORE="+store)
		var trace strings.Builder
		cmd.Stderr = &trace
		if err := cmd.Run(); err != nil {
			return err
		}
		process, first := -1, ""
		for line := range strings.Lines(trace.String()) {
			// init PACKAGE @AT ms, TOOK ms clock, BYTES bytes, ALLOCS allocs
			f := strings.Fields(line)
			if len(f) < 6 || f[0] != "init" {
				continue
			}
			if first = cmp.Or(first, f[1]); f[1] == first { // all begin with the same
				if process++; process >= len(names) {
					return errors.New("more than two processes tell of their initialisation")
				}
				totals[process] = append(totals[process], 0)
			}
			took, err := strconv.ParseFloat(f[4], 64)
			if err != nil {
				return fmt.Errorf("read %q: %w", line, err)
			}
			ns := took * float64(time.Millisecond)
			times[process][f[1]] = append(times[process][f[1]], ns)
			totals[process][len(totals[process])-1] += ns
		}
	}
	type took struct {
		name string
		ns   float64
	}
	for i, name := range names {
		var each []took
		for name, ns := range times[i] {
			each = append(each, took{name, median(ns)})
		}
		slices.SortFunc(each, func(a, b took) int { return cmp.Compare(b.ns, a.ns) })
		fmt.Fprintf(s.out, "\nThe command: package initialisation of the %s: %s, of which\n", name, duration(median(totals[i])))
		for _, p := range each[:min(5, len(each))] {
			fmt.Fprintf(s.out, "  %s  %s\n", duration(p.ns), p.name)
		}
	}
	return nil
}
