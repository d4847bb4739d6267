// Command modules maintains the modules of the repository. Run it at the repository's root.
//
//	modules list                the directory of each, the root first
//	modules tidy [-diff]        make go.mod and go.sum of each, and go.work.sum, what the code needs; or fail if one is not
//	modules alone DIRS ARGS...  run go ARGS in the modules in DIRS, with commas between them, each with the versions that it asks for itself;
//	                            DIRS may be "oldest": all but those that ask for the newest drivers; or "adapters". ARGS of test: flags alone
//	modules newest DIRS ARGS... the same, with the newest of the libraries that they name themselves
//	modules behind              fail if the workspace tests an older version of what users get with a module than there is
//	modules holes [DB]          govulncheck each published module with the versions that it asks for; DB is a URL, or a directory of OSV files
//	modules proxy DIR VERSION   write to DIR what a module proxy has of them, as if they were tagged
//	modules tag [-do] VERSION   print what tags all of them alike, or do it
//
// In the tree, all modules refer to each other by the same version, and have no replace:
// go.work makes the go command take them from the tree.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	all, err := find(".")
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "list":
		for _, m := range all {
			fmt.Println(m.dir)
		}
		return nil
	case len(args) == 1 && args[0] == "tidy":
		return tidy(all, true)
	case len(args) == 2 && args[0] == "tidy" && args[1] == "-diff":
		return tidy(all, false)
	case len(args) > 2 && args[0] == "alone":
		return alone(all, args[1], args[2:], false)
	case len(args) > 2 && args[0] == "newest":
		return alone(all, args[1], args[2:], true)
	case len(args) == 1 && args[0] == "behind":
		return behind(all)
	case len(args) >= 1 && len(args) <= 2 && args[0] == "holes":
		return holes(all, strings.Join(args[1:], ""))
	case len(args) == 3 && args[0] == "proxy" && semver.Canonical(args[2]) == args[2]:
		return proxy(all, args[1], args[2])
	case len(args) == 2 && args[0] == "tag" && semver.Canonical(args[1]) == args[1]:
		return tag(os.Stdout, all, args[1], false)
	case len(args) == 3 && args[0] == "tag" && args[1] == "-do" && semver.Canonical(args[2]) == args[2]:
		return tag(os.Stdout, all, args[2], true)
	}
	return fmt.Errorf("usage: modules list | tidy [-diff] | alone DIRS ARGS... | newest DIRS ARGS... | behind | holes [DB] | proxy DIR VERSION | tag [-do] VERSION; a version is like v1.2.3")
}

// own is the path of the root module. The paths of the other modules begin with it.
const own = "github.com/holdfast-go/holdfast"

// A module is a module of the repository.
type module struct {
	dir  string // below the root, with slashes
	path string
}

// unpublished are the modules that users do not need.
var unpublished = []string{"bench", "internal/guardtest", "internal/tools"}

// shipped returns the modules that users get.
func shipped(all []*module) []*module {
	return slices.DeleteFunc(slices.Clone(all), func(m *module) bool { return slices.Contains(unpublished, m.dir) })
}

// find returns the modules below the root. The root module is the first.
func find(root string) (all []*module, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		all = append(all, &module{dir: filepath.ToSlash(dir), path: modfile.ModulePath(data)})
		return nil
	})
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	if err == nil && (len(all) == 0 || all[0].path != own) {
		err = fmt.Errorf("this is not the root of %s", own)
	}
	return all, err
}

// isOwn reports whether the module belongs to the repository.
func isOwn(path string) bool { return path == own || strings.HasPrefix(path, own+"/") }

// version returns the version by which the modules refer to each other in the tree.
func version() (string, error) {
	data, err := os.ReadFile("go.work")
	if err != nil {
		return "", err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return "", err
	}
	for _, r := range work.Replace {
		if r.Old.Path == own {
			return r.Old.Version, nil
		}
	}
	return "", fmt.Errorf("go.work replaces no version of %s", own)
}

// at returns the text of a go.mod that requires the repository's modules in this version. It fails if there is a
// replace, which has no effect for users of the module.
func at(text []byte, version string) ([]byte, error) {
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range file.Replace {
		return nil, fmt.Errorf("%s replaces %s, which has no effect for its users: remove that line", file.Module.Mod.Path, r.Old.Path)
	}
	for _, r := range slices.Clone(file.Require) {
		if isOwn(r.Mod.Path) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	file.Cleanup()
	return file.Format()
}
