package arch

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-go/holdfast"

func TestPackagesImportOnlyWhatTheirRuleAllows(t *testing.T) {
	pkgs := list(t)
	if len(pkgs) < 5 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	for _, w := range check(pkgs, rules) {
		t.Error(w)
	}
}

// list returns the packages of the module, each with its imports on all
// operating systems together.
func list(t *testing.T) []pkg {
	t.Helper()
	type listed struct{ ImportPath, Name string }
	names := map[string]string{}
	imports := map[string]map[string]bool{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports", "./...")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", goos, err)
		}
		for in := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct {
				listed
				Imports []string
			}
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			names[p.ImportPath] = p.Name
			if imports[p.ImportPath] == nil {
				imports[p.ImportPath] = map[string]bool{}
			}
			for _, imp := range p.Imports {
				imports[p.ImportPath][imp] = true
			}
		}
	}
	var pkgs []pkg
	for _, full := range slices.Sorted(maps.Keys(imports)) {
		path, _ := below(full)
		p := pkg{path: path, name: names[full]}
		for _, imp := range slices.Sorted(maps.Keys(imports[full])) {
			imp, own := below(imp)
			p.imports = append(p.imports, imp)
			p.own = append(p.own, own)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

// below returns the path below the module's, or the path itself and false.
func below(path string) (string, bool) {
	switch {
	case path == module:
		return ".", true
	case strings.HasPrefix(path, module+"/"):
		return strings.TrimPrefix(path, module+"/"), true
	}
	return path, false
}

// Each planted package breaks one rule, and the check says which; that it
// says nothing else shows that the sound ones beside it pass.
func TestCheckFindsEachBreach(t *testing.T) {
	planted := map[string]rule{
		".": {core, []string{sys}}, "store": {core, nil}, "store/queue": {core, nil}, engine: {core, nil},
		"memstore": {store, nil}, "redisstore": {store, []string{goredis}}, "redisstore/script": {store, nil},
		"redisstore/internal/script": {part, nil}, "redisstore/redlock": {store, []string{goredis}}, "internal/clock": {core, nil}, "internal/words": {core, nil},
		"guard": {beside, nil}, "redisstore/redisguard": {beside, []string{goredis}},
		"open": {top, nil}, "open/all": {top, nil}, "store/storetest": {support, nil}, "internal/testserver": {support, nil}, "pgstore/internal/pgtest": {support, nil},
	}
	sound := []string{
		". store store/queue internal/engine golang.org/x/sys/unix time", "store context", "store/queue store", "internal/engine store",
		"memstore store store/queue", "redisstore store redisstore/script github.com/redis/go-redis/v9/internal", "redisstore/script",
		"redisstore/internal/script store", "redisstore/redlock store internal/clock redisstore/internal/script", "internal/clock time", "internal/words",
		"guard . store database/sql", "redisstore/redisguard guard . github.com/redis/go-redis/v9", "open memstore internal/words .", "open/all open redisstore redisstore/redlock internal/clock",
		"store/storetest . store memstore", "internal/testserver", "pgstore/internal/pgtest internal/testserver store",
	}
	for _, c := range []struct{ breach, says string }{
		{". github.com/redis/go-redis/v9", "its rule does not list that module"},
		{"store golang.org/x/sys/unix", "its rule does not list that module"},
		{"redisstore github.com/redis/go-redis/v99", "its rule does not list that module"},
		{". memstore", "the core knows no store"},
		{"store .", "the contract does not know the engine"},
		{"memstore .", "a store knows the contract, not the engine"},
		{"internal/engine .", "the engine does not know what callers see of it"},
		{"internal/engine store/queue", "the engine knows the contract and the clocks, and nothing else"},
		{"memstore internal/engine", "the engine is used by way of the root package"},
		{"guard internal/engine", "the engine is used by way of the root package"},
		{"memstore redisstore", "a store knows no other store"},
		{"memstore store/storetest", "that is for tests"},
		{"open store/storetest", "that is for tests"},
		{". guard", "nobody has to have that"},
		{"redisstore guard", "nobody has to have that"},
		{"open guard", "nobody has to have that"},
		{"guard redisstore/redisguard", "nobody has to have that"},
		{"guard github.com/redis/go-redis/v9", "its rule does not list that module"},
		{"guard memstore", "it is used with any store"},
		{"guard open", "that brings all stores in"},
		{"redisstore open", "that brings all stores in"},
		{"open etcdstore", "that package has no rule"},
		{"etcdstore store", "has no rule: add it"},
		{"redisstore internal/words", "that is internal, and will be of another module"},
		{"open/all internal/words", "that is internal, and will be of another module"},
		{"open redisstore", "the root module needs none of those"},
		{"redisstore/internal/script .", "a store knows the contract, not the engine"},
		{"redisstore/internal/script redisstore", "the core knows no store"},
	} {
		t.Run(c.breach, func(t *testing.T) {
			pkgs := []pkg{parse(c.breach, planted)}
			for _, s := range sound {
				if p := parse(s, planted); p.path != pkgs[0].path {
					pkgs = append(pkgs, p)
				}
			}
			wrong := check(pkgs, planted)
			if len(wrong) != 1 || !strings.Contains(wrong[0], c.says) {
				t.Errorf("got %q, want one that says %q", wrong, c.says)
			}
		})
	}
	t.Run("a vague name", func(t *testing.T) {
		wrong := check([]pkg{{path: "memstore/util", name: "util"}}, map[string]rule{"memstore/util": {store, nil}})
		if len(wrong) != 1 || !strings.Contains(wrong[0], "says nothing") {
			t.Errorf("got %q", wrong)
		}
	})
	t.Run("a rule without its package", func(t *testing.T) {
		wrong := check([]pkg{parse("store context", planted)}, map[string]rule{"store": {core, nil}, "gone": {store, nil}})
		if len(wrong) != 1 || !strings.Contains(wrong[0], "not there") {
			t.Errorf("got %q", wrong)
		}
	})
}

// parse reads a package's path and its imports, between blanks.
func parse(s string, rules map[string]rule) pkg {
	f := strings.Fields(s)
	p := pkg{path: f[0], name: f[0][strings.LastIndex(f[0], "/")+1:], imports: f[1:]}
	for _, imp := range p.imports {
		_, own := rules[imp]
		p.own = append(p.own, own || imp == "etcdstore")
	}
	return p
}
