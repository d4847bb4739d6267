package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/OpenPeeDeeP/depguard/v2"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"
)

// Each planted import breaks a rule and is found. The allowed ones beside it are not reported.
func TestEachImportThatNoRuleAllowsIsFound(t *testing.T) {
	sound := map[string][]string{
		"":                      {"store", "internal/engine"},
		"store":                 {"internal/clock"},
		"store/record":          {"store", "store/session"},
		"internal/engine":       {"store", "internal/clock"},
		"memstore":              {"store", "store/queue"},
		"redisstore":            {"store", "redisstore/internal/lua", "github.com/redis/go-redis/v9"},
		"redisstore/redlock":    {"store", "redisstore/internal/lua", "github.com/redis/go-redis/v9"},
		"redisstore/redisguard": {"", "guard", "github.com/redis/go-redis/v9"},
		"guard":                 {"", "store"},
		"open":                  {"memstore"},
		"open/all":              {"open", "redisstore", "redisstore/redlock"},
		"cmd/holdfast":          {"open/all", "cmd/holdfast/internal/front"},
		"bench/peers":           {"internal/testserver", "redisstore", "github.com/redis/go-redis/v9"},
		// Without imports of the repository, so that others can import them.
		"internal/clock": nil, "store/queue": nil, "store/session": nil, "internal/testserver": nil, "redisstore/internal/lua": nil, "cmd/holdfast/internal/front": nil, "store/storetest": nil,
	}
	breaches := []string{
		" github.com/redis/go-redis/v9", "store github.com/redis/go-redis/v9", "guard github.com/redis/go-redis/v9",
		"memstore github.com/redis/go-redis/v9", "redisstore github.com/redis/go-redis/v99",
		" memstore", " guard", " internal/testserver", "store ", "memstore ", "internal/engine ", "internal/engine store/queue", "memstore internal/engine",
		"guard internal/engine", "memstore redisstore", "redisstore memstore", "memstore store/storetest", "open store/storetest", "open redisstore", "open guard",
		"redisstore internal/testserver", "redisstore open", "redisstore guard", "redisstore internal/clock", "redisstore ", "guard memstore",
		"cmd/holdfast/internal/front redisstore", "redisstore/internal/lua ", "newstore store", "redisstore/redisguard memstore",
	}
	for _, breach := range append([]string{""}, breaches...) {
		t.Run(breach, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, text string) {
				t.Helper()
				written(t, dir, map[string]string{file: text})
			}
			write("repo/go.mod", "module "+own+"\n\ngo 1.26\n\nrequire (\n\tgithub.com/redis/go-redis/v9 v9.0.0\n\tgithub.com/redis/go-redis/v99 v99.0.0\n)\n\nreplace (\n\tgithub.com/redis/go-redis/v9 => ../nine\n\tgithub.com/redis/go-redis/v99 => ../ninetynine\n)\n")
			for path, module := range map[string]string{"nine": "v9", "ninetynine": "v99"} {
				write(path+"/go.mod", "module github.com/redis/go-redis/"+module+"\n\ngo 1.26\n")
				write(path+"/redis.go", "package redis\n")
			}
			source := func(imports []string) string {
				var b strings.Builder
				b.WriteString("package p\n\nimport (\n\t_ \"errors\"\n")
				for _, path := range imports {
					if !strings.Contains(path, ".") {
						path = strings.TrimSuffix(own+"/"+path, "/")
					}
					b.WriteString("\t_ \"" + path + "\"\n")
				}
				return b.String() + ")\n"
			}
			for pkg, may := range sound {
				write("repo/"+pkg+"/p.go", source(may))
			}
			write("repo/redisstore/p_test.go", source([]string{"internal/testserver"})) // a test may import it
			want := 0
			if breach != "" {
				from, to, _ := strings.Cut(breach, " ")
				// Add the imported package, unless the allowed imports already have it; it has no imports.
				for _, pkg := range []string{"memstore", "redisstore", "guard", "", "open"} {
					if pkg == to {
						write("repo/"+pkg+"/p.go", source(nil))
					}
				}
				write("repo/"+from+"/breach.go", source([]string{to}))
				want = 1
			}
			t.Chdir(filepath.Join(dir, "repo"))
			a, err := depguard.NewAnalyzer(imports(filepath.Join(dir, "repo")))
			if err != nil {
				t.Fatal(err)
			}
			was := vet
			vet, mode = []*analysis.Analyzer{a}, packages.LoadSyntax // the standard library is not checked again each time
			defer func() { vet, mode = was, packages.LoadAllSyntax }()
			found := problems("linux/amd64")
			if len(found) != want || want == 1 && !strings.Contains(found[0], "breach.go") {
				t.Errorf("got %d: %s", len(found), strings.Join(found, "\n"))
			}
		})
	}
}

// A rule for a removed package would also apply to a new package with that name.
func TestEachRuleIsOfPackagesThatAreThere(t *testing.T) {
	dirs := append(slices.Clone(free), stores...)
	for _, r := range rooms {
		dirs = append(dirs, r.dirs...)
	}
	for _, dir := range dirs {
		dir, below := strings.CutSuffix(dir, "/...")
		below = below || slices.Contains(free, dir)
		found, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
		if below {
			found, err = filepath.Glob(filepath.Join("../../..", dir, "*"))
		}
		if err != nil || len(found) == 0 {
			t.Errorf("there is a rule for %q, but no such package (%v)", dir, err)
		}
	}
}
