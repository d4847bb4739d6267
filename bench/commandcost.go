package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// commandMemory reports the memory of the processes of one `holdfast run` while the command
// sleeps.
func commandMemory(ctx context.Context, s setup, holdfast, store string) error {
	if runtime.GOOS != "linux" {
		return nil // there is no smaps_rollup
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

// rollup returns the memory of a process, in KiB.
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

// commandInit reports how long package initialization takes before main: in the front process
// of `run`, which needs few packages, and in the engine process, which has all.
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
			if first = cmp.Or(first, f[1]); f[1] == first { // all processes initialize this package first
				if process++; process >= len(names) {
					return errors.New("more than two processes report their initialization")
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
