package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// behind fails if the workspace is tested with an older version of something that users get with a module than there
// is: their programs may have the newest.
func behind(all []*module) error {
	has, err := imported(all)
	if err != nil {
		return err
	}
	format := `{{with .Update}}{{$.Path}} {{$.Version}}, and there is {{.Version}}{{end}}`
	out, err := stdout(exec.Command("go", slices.Concat([]string{"list", "-m", "-u", "-f", format}, has)...))
	if err != nil {
		return err
	}
	if old := strings.TrimSpace(out); old != "" {
		return fmt.Errorf("the workspace has older versions than there are, so nobody has tried the newest; have bench ask for those:\n%s", old)
	}
	fmt.Printf("the newest there are: %s\n", strings.Join(has, ", "))
	return nil
}

// imported are the modules of others that a published module imports, but for its tests.
func imported(all []*module) ([]string, error) {
	of, imports := map[string]string{}, map[string][]string{} // by package: its module, and what it imports
	out, err := stdout(exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{$.ImportPath}} {{.Path}} {{join $.Imports " "}}{{end}}`, "work"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		of[f[0]], imports[f[0]] = f[1], f[2:]
	}
	found := map[string]bool{}
	for _, m := range all {
		if slices.Contains(unpublished, m.dir) {
			continue
		}
		for pkg, in := range of {
			if in != m.path {
				continue
			}
			for _, i := range imports[pkg] {
				if from := of[i]; from != "" && !isOwn(from) {
					found[from] = true
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no module imports one of others")
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// stdout is what the command prints there.
func stdout(cmd *exec.Cmd) (string, error) {
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err, says.String())
	}
	return string(out), nil
}

// holes runs govulncheck on each published module, with the versions that it asks for itself. It fails if the module calls a
// function that has a known vulnerability. db is what knows them: a URL, a directory with OSV files such as data/osv of
// golang/vulndb, or empty for the Go project's own.
func holes(all []*module, db string) error {
	check, err := exec.LookPath(filepath.Join(".tests", "bin", "govulncheck"))
	if err == nil {
		check, err = filepath.Abs(check)
	}
	if err != nil {
		return fmt.Errorf("%w: make tools builds it", err)
	}
	var args []string
	if db != "" {
		if dir, err := filepath.Abs(db); err == nil && !strings.Contains(db, "://") {
			db = "file://" + filepath.ToSlash(dir)
		}
		args = append(args, "-db="+db)
	}
	tmp, err := os.MkdirTemp("", "modules-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var failed []string
	for i, m := range all {
		if slices.Contains(unpublished, m.dir) {
			continue
		}
		work, err := m.workspace(filepath.Join(tmp, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		cmd := m.command(check, append(args, "./...")...)
		cmd.Env = append(cmd.Env, "GOWORK="+work) // it has no flag for another go.mod
		fmt.Printf("%s:\n", m.dir)
		if err := shown(cmd); err != nil {
			failed = append(failed, fmt.Sprintf("%s (%v)", m.dir, err))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("govulncheck fails in %s", strings.Join(failed, ", "))
	}
	return nil
}
