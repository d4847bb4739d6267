package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// behind fails if the workspace is tested with an older version of a users' dependency than the newest: their
// programs may use the newest.
func behind(all []*module) error {
	has, err := imported(all)
	if err != nil {
		return err
	}
	format := `{{with .Update}}{{$.Path}} {{$.Version}}; the newest is {{.Version}}{{end}}`
	out, err := stdout(exec.Command("go", slices.Concat([]string{"list", "-m", "-u", "-f", format}, has)...))
	if err != nil {
		return err
	}
	if old := strings.TrimSpace(out); old != "" {
		return fmt.Errorf("the workspace has old versions of drivers, so the newest are not tested; require those in bench:\n%s", old)
	}
	fmt.Printf("the newest versions: %s\n", strings.Join(has, ", "))
	return nil
}

// imported returns the third-party modules that published modules import, except in tests. It leaves out those of the
// adapters: their newest versions, in the workspace, would decide with which versions the stores are tested and the
// command is built.
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
	for _, m := range shipped(all) {
		if strings.HasPrefix(m.dir, "adapters/") {
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
		return nil, errors.New("no module imports a driver")
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// stdout returns what the command prints to standard output.
func stdout(cmd *exec.Cmd) (string, error) {
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err, says.String())
	}
	return string(out), nil
}

// accepted are known vulnerabilities that we leave, each with the reason. Decision 51 explains
// them.
var accepted = map[string]string{
	"GO-2026-5970": "the texts are user names, passwords and host names, which are the program's own",
	"GO-2026-5026": "the host names are the program's own",
	"GO-2026-4918": "k8sstore, the only one, speaks HTTP/1.1",
}

// A hole is a known vulnerability in a function that a module calls.
type hole struct{ osv, in string }

// holes runs govulncheck on each published module, with the versions that the module itself requires. It fails if a
// module calls a function with a known vulnerability that is not accepted, or if an accepted vulnerability is no longer
// called by any. db is the vulnerability database: a URL, a directory with OSV files such as data/osv of golang/vulndb,
// or empty for the Go project's own.
func holes(all []*module, db string) error {
	check, err := exec.LookPath(filepath.Join(".tests", "bin", "govulncheck"))
	if err == nil {
		check, err = filepath.Abs(check)
	}
	if err != nil {
		return fmt.Errorf("%w: make tools builds it", err)
	}
	args := []string{"-format=json"}
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
	var bad []string
	stays := maps.Clone(accepted)
	for i, m := range shipped(all) {
		work, err := m.workspace(filepath.Join(tmp, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		cmd := m.command(check, append(args, "./...")...)
		cmd.Env = append(cmd.Env, "GOWORK="+work) // it has no flag for another go.mod
		out, err := stdout(cmd)
		if err != nil {
			return fmt.Errorf("in %s: %w", m.dir, err)
		}
		found, err := called(out)
		if err != nil {
			return fmt.Errorf("in %s: what govulncheck prints: %w", m.dir, err)
		}
		for _, h := range found {
			why, ok := accepted[h.osv]
			if ok {
				fmt.Printf("%s calls %s, which has %s: accepted, because %s\n", m.dir, h.in, h.osv, why)
				delete(stays, h.osv)
			} else {
				bad = append(bad, fmt.Sprintf("%s calls %s, which has %s", m.dir, h.in, h.osv))
			}
		}
	}
	for osv := range stays {
		bad = append(bad, fmt.Sprintf("%s is accepted, but no module has it any more", osv))
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n"))
	}
	fmt.Println("no module calls code with another known vulnerability")
	return nil
}

// called returns the vulnerabilities in functions that are called, each once, from govulncheck's JSON output.
func called(text string) (all []hole, err error) {
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		var message struct {
			Finding *struct {
				OSV   string
				Trace []struct{ Module, Version, Package, Function string }
			}
		}
		if err := in.Decode(&message); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			h := hole{f.OSV, f.Trace[0].Module + "@" + f.Trace[0].Version}
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
}
