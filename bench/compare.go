package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// comparedSuites are the suites compared by default. Each takes a few seconds a round.
var comparedSuites = []string{"memory", "file", "redis", "poll", "postgres", "mysql", "redlock", "fleet", "etcd", "zk", "nats", "crowd", "hot", "command"}

// A tree is one of the two source trees that are compared.
type tree struct {
	dir    string // its bench directory
	bench  string // the program
	commit string
}

// compare measures holdfast of this tree and of another commit, in turns, and reports which
// rows became slower.
//
// Both are measured with the bench of this tree and with its package that starts the servers,
// which are copied into the other tree. So the commit may be older than the bench. If the bench
// cannot use the commit's API, compare fails and says so.
func compare(ctx context.Context, s setup, old string, suites []string) error {
	if len(suites) == 0 {
		suites = comparedSuites
	}
	wanted, err := suitesNamed(suites)
	if err != nil {
		return err
	}
	if s.rounds < leastPairs {
		fmt.Fprintf(s.out, "With fewer than %d rounds the noise hides every difference.\n", leastPairs)
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(s.out, "building both trees")
	before, now, err := bothTrees(ctx, dir, old)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s, %d rounds of each in turn\nold: %s\nnew: %s\n", machine(), s.rounds, before.commit, now.commit)
	var all []compared
	var only []rowKey
	for _, suite := range wanted {
		var rows [2][][]row
		for i := range s.rounds {
			// Alternate which tree is first in a pair.
			for j := range 2 {
				which := (i + j) % 2
				got, err := []tree{before, now}[which].measure(ctx, s, suite.name)
				if err := errors.Join(err, ctx.Err()); err != nil {
					return fmt.Errorf("%s of the %s tree: %w", suite.name, []string{"old", "new"}[which], err)
				}
				rows[which] = append(rows[which], got)
			}
		}
		fmt.Fprintf(s.out, "%s measured\n", suite.name)
		some, single := pairUp(rows[0], rows[1])
		all, only = append(all, some...), append(only, single...)
	}
	return printCompared(s.out, all, only)
}

// bothTrees builds the bench in a copy of the old commit and in this tree.
func bothTrees(ctx context.Context, dir, old string) (before, now tree, err error) {
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return before, now, err
	}
	hash, err := output(ctx, root, "git", "rev-parse", "--verify", old+"^{commit}")
	if err != nil {
		return before, now, err
	}
	copied := filepath.Join(dir, "old")
	if err := copyCommit(ctx, root, hash, copied); err != nil {
		return before, now, err
	}
	for _, ours := range []string{"bench", filepath.Join("internal", "testserver")} {
		if err := os.RemoveAll(filepath.Join(copied, ours)); err != nil {
			return before, now, err
		}
		if err := os.CopyFS(filepath.Join(copied, ours), os.DirFS(filepath.Join(root, ours))); err != nil {
			return before, now, err
		}
	}
	before = tree{filepath.Join(copied, "bench"), filepath.Join(dir, "bench-old"), hash}
	now = tree{filepath.Join(root, "bench"), filepath.Join(dir, "bench-new"), commit()}
	if _, err := output(ctx, now.dir, "go", "build", "-buildvcs=false", "-o", now.bench, "."); err != nil {
		return before, now, err
	}
	if _, err := output(ctx, before.dir, "go", "build", "-buildvcs=false", "-o", before.bench, "."); err != nil {
		return before, now, fmt.Errorf("this bench does not build with holdfast of %s, so the two cannot be compared: %w", hash, err)
	}
	return before, now, nil
}

// copyCommit writes the files of a commit to a directory that does not exist yet.
func copyCommit(ctx context.Context, root, hash, to string) error {
	archive := to + ".tar"
	if _, err := output(ctx, root, "git", "archive", "-o", archive, hash); err != nil {
		return err
	}
	defer os.Remove(archive)
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	_, err := output(ctx, to, "tar", "-xf", archive)
	return err
}

// measure runs one round of a suite, with holdfast only.
func (t tree) measure(ctx context.Context, s setup, suite string) ([]row, error) {
	args := []string{
		"-json", "-ours", "-rounds", "1", "-held", "100", "-pairs", "0",
		"-slice", s.slice.String(), "-turns", fmt.Sprint(s.turns), "-on", strings.Join(s.on, ","), suite,
	}
	if len(s.on) == 0 {
		args = append(args[:len(args)-3], suite)
	}
	cmd := exec.CommandContext(ctx, t.bench, args...)
	cmd.Dir, cmd.Env = t.dir, append(os.Environ(), commitEnv+"="+t.commit)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it stops its servers
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said.String())
	}
	return readRows(&out)
}

// output runs a program in a directory, and returns its output.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(out.String()), nil
}
