// Command apichanges reports which changes of the Go API break programs written for an older
// commit: the newest tag of the root module or, while there is none, the commit that
// docs/stability.md names. Run it at the root of the repository.
//
//	apichanges      fail if docs/api-changes.txt is not what is found
//	apichanges -w   write that file
//
// So no such change goes unnoticed: with one, you must update the file, and say in CHANGELOG.md
// what a program has to do. Additions are not in the file.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apichanges:", err)
		os.Exit(1)
	}
}

const (
	// policy says which packages are covered, and from which commit on.
	policy = "docs/stability.md"
	// record is what this command writes.
	record = "docs/api-changes.txt"
)

func run(args []string) error {
	write := slices.Equal(args, []string{"-w"})
	if len(args) > 0 && !write {
		return errors.New("usage: apichanges [-w]")
	}
	text, err := os.ReadFile(policy)
	if err != nil {
		return err
	}
	since, err := base(string(text))
	if err != nil {
		return err
	}
	old, err := checkout(since)
	if err != nil {
		return err
	}
	found, err := changes(old, ".", uncovered(string(text)))
	if err != nil {
		return err
	}
	found = "# What breaks programs that were written for " + since + ". CHANGELOG.md says what to do.\n" +
		"# Written by 'make api API=-w'.\n" + found
	if write {
		return os.WriteFile(record, []byte(found), 0o644)
	}
	if is, err := os.ReadFile(record); err != nil || string(is) != found {
		return fmt.Errorf("%s does not match the code.\n%s\nIf you mean that change, run 'make api API=-w', and say in CHANGELOG.md what a program has to do",
			record, difference(string(is), found))
	}
	return nil
}

var named = regexp.MustCompile("those of commit `([0-9a-f]{12,40})`")

// base returns what changes are counted from: the newest tag of the root module, or else the
// commit that the policy names.
func base(policyText string) (string, error) {
	tags, err := git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD")
	if err != nil {
		return "", err
	}
	if tag, _, _ := strings.Cut(tags, "\n"); tag != "" {
		return tag, nil
	}
	m := named.FindStringSubmatch(policyText)
	if m == nil {
		return "", fmt.Errorf("there is no tag, and %s does not name a commit (%s)", policy, named)
	}
	return m[1], nil
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %s", strings.Join(args, " "), bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

var notCovered = regexp.MustCompile(`(?m)^Not covered: (.*)$`)

// uncovered returns the directories of the packages that the policy leaves out.
func uncovered(policyText string) (dirs []string) {
	if m := notCovered.FindStringSubmatch(policyText); m != nil {
		for i, part := range strings.Split(m[1], "`") {
			if i%2 == 1 {
				dirs = append(dirs, part)
			}
		}
	}
	return dirs
}

// changes returns the incompatible changes of the packages in old, compared with those in now.
func changes(old, now string, without []string) (string, error) {
	was, err := load(old, without)
	if err != nil {
		return "", err
	}
	is, err := load(now, without)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if is[path] == nil {
			fmt.Fprintf(&text, "%s\n- the package is gone\n", path)
			continue
		}
		report := apidiff.Changes(was[path].Types, is[path].Types)
		var broken []string
		for _, c := range report.Changes {
			if !c.Compatible {
				broken = append(broken, "- "+strings.ReplaceAll(c.Message, "\n", " ")+"\n")
			}
		}
		if slices.Sort(broken); len(broken) > 0 {
			fmt.Fprintf(&text, "%s\n%s", path, strings.Join(broken, ""))
		}
	}
	return text.String(), nil
}

// load returns the packages of all workspace modules in a directory that can be imported and
// that the policy covers.
func load(dir string, without []string) (map[string]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{
		Dir: dir, Mode: packages.LoadTypes | packages.NeedModule,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOWORK="), // the workspace of dir
	}, "work")
	if err != nil {
		return nil, err
	}
	root := ""
	for _, p := range all {
		if p.Module != nil && (root == "" || len(p.Module.Path) < len(root)) {
			root = p.Module.Path // the other paths begin with it
		}
	}
	covered := map[string]*packages.Package{}
	for _, p := range all {
		for _, err := range p.Errors {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		below := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, root), "/")
		left := func(without string) bool { return below == without || strings.HasPrefix(below, without+"/") }
		if p.Name == "main" || slices.Contains(strings.Split(below, "/"), "internal") || slices.ContainsFunc(without, left) {
			continue
		}
		covered[p.PkgPath] = p
	}
	return covered, nil
}

// difference returns the lines that are in only one of two texts.
func difference(was, is string) string {
	var lines []string
	only := func(sign, a, b string) {
		other := strings.Split(b, "\n")
		for line := range strings.Lines(a) {
			if line = strings.TrimRight(line, "\n"); !slices.Contains(other, line) {
				lines = append(lines, sign+line)
			}
		}
	}
	only("no more: ", was, is)
	only("new: ", is, was)
	return strings.Join(lines, "\n")
}
