package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// A user has a module of their own and no workspace, and gets the modules of the tree from a proxy.
type user struct {
	t   *testing.T
	dir string
	env []string
}

const tried = "v0.1.0-tried"

// packedTree packs the modules of the tree. All other modules come from this machine's cache, or from where the
// environment says.
func packedTree(t *testing.T) (env []string) {
	t.Helper()
	t.Chdir("../../..")
	all, err := find(".")
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	if err := proxy(all, files, tried); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY", "GONOSUMDB").Output()
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Split(string(out), "\n")
	// The module cache is temporary, as that of the machine would keep an earlier tree as this version. With -trimpath a
	// build does not depend on the directory of a package, so the build cache has the drivers the next time.
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "GONOSUMDB="+own+","+was[2], "GOMODCACHE="+t.TempDir(),
		"GOPROXY=file://"+files+",file://"+was[0]+"/cache/download,"+was[1])
}

func newUser(t *testing.T, env []string, gomod, program string) *user {
	t.Helper()
	u := &user{t, t.TempDir(), env}
	u.write("go.mod", "module example.org/app\n\ngo 1.26.0\n"+gomod)
	u.write("main.go", program)
	return u
}

func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) do(args ...string) string {
	u.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = u.dir, u.env
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, &failed)
	}
	return string(out)
}

// requires are the requirements in go.mod, with the version of each module.
func (u *user) requires() map[string]string {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, "go.mod"))
	if err != nil {
		u.t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	if len(file.Replace) > 0 {
		u.t.Errorf("it needs a replace line: %v", file.Replace)
	}
	all := map[string]string{}
	for _, r := range file.Require {
		all[r.Mod.Path] = r.Mod.Version
	}
	return all
}

// locks is a program that takes a lock on a store, and prints that it has it.
func locks(imports, open string) string {
	return fmt.Sprintf(`package main

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	%s
)

func main() {
	s, err := %s
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	locks, err := holdfast.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	l, err := locks.Mutex("a").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release()
	fmt.Println("locked", l.Name())
}
`, imports, open)
}

// Users get the modules that they name from a proxy, without a replace. A program on each module builds, and that on
// the store in memory runs.
func TestUsersGetEachModuleFromAProxy(t *testing.T) {
	env := packedTree(t)
	for name, program := range map[string]string{
		"memstore":   locks(`"github.com/holdfast-go/holdfast/memstore"`, "memstore.New(), error(nil)"),
		"redisstore": locks(`"github.com/holdfast-go/holdfast/redisstore"`, `redisstore.Open("redis://localhost:6379", nil)`),
		"pgstore":    locks(`"github.com/holdfast-go/holdfast/pgstore"`, `pgstore.Open("postgres://localhost/app", nil)`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, env, "\nrequire "+own+" "+tried+"\n", program)
			if name != "memstore" {
				u.do("go", "get", own+"/"+name+"@"+tried)
			}
			u.do("go", "mod", "tidy")
			u.do("go", "build", "-o", "app", ".")
			if out := u.do("./app"); name == "memstore" && out != "locked a\n" {
				t.Errorf("got %q", out)
			}
			u.do("go", "vet", ".")
		})
	}
}

// The installed command has the requested version, and locks. The go command refuses to install from a module with a
// replace.
func TestTheCommandIsInstalledFromAProxy(t *testing.T) {
	bin, locks := t.TempDir(), t.TempDir()
	u := &user{t, t.TempDir(), append(packedTree(t), "GOBIN="+bin, "HOLDFAST_STORE=file:"+locks)}
	u.do("go", "install", own+"/cmd/holdfast@"+tried)
	holdfast := filepath.Join(bin, "holdfast")
	if out := u.do(holdfast, "version"); !strings.HasPrefix(out, "holdfast "+tried+", ") {
		t.Errorf("got version %q, want %s", out, tried)
	}
	out := u.do(holdfast, "run", "demo", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
	if token, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64); err != nil || token == 0 {
		t.Errorf("got the token %q", out)
	}
}

// A program on redisstore gets at most three more modules than one on redislock.
func TestAProgramOnRedisGetsFewModules(t *testing.T) {
	env := packedTree(t)
	ours := newUser(t, env, "\nrequire (\n\t"+own+" "+tried+"\n\t"+own+"/redisstore "+tried+"\n)\n",
		locks(`"github.com/holdfast-go/holdfast/redisstore"`, `redisstore.Open("redis://localhost:6379", nil)`))
	ours.do("go", "mod", "tidy")
	driver := requiredBy(t, "redisstore")["github.com/redis/go-redis/v9"] // redislock names an older version
	theirs := newUser(t, env, "\nrequire (\n\tgithub.com/bsm/redislock v0.9.4\n\tgithub.com/redis/go-redis/v9 "+driver+"\n)\n", "package main\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/bsm/redislock\"\n\t\"github.com/redis/go-redis/v9\"\n)\n\nfunc main() { fmt.Println(redislock.New(redis.NewClient(nil))) }\n")
	theirs.do("go", "mod", "tidy")
	have, least := ours.requires(), theirs.requires()
	t.Logf("holdfast: %v", have)
	t.Logf("redislock: %v", least)
	if len(have) > len(least)+3 {
		t.Errorf("got %d modules, want at most three more than with redislock, %d", len(have), len(least))
	}
}

// selected is every module in the build of a program with these requirements, with its version.
func selected(t *testing.T, env []string, requires map[string]string) map[string]string {
	t.Helper()
	var lines strings.Builder
	for path, version := range requires {
		fmt.Fprintf(&lines, "require %s %s\n", path, version)
	}
	u := newUser(t, env, "\n"+lines.String(), "package main\n\nfunc main() {}\n")
	all := map[string]string{}
	for line := range strings.Lines(u.do("go", "list", "-m", "all")) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[path] = version
		}
	}
	return all
}

// A user with older versions of modules that other stores or the metrics need keeps them. Modules that the driver needs
// get the versions that they get with the driver alone.
func TestARedisUserKeepsOlderVersionsOfWhatOthersNeed(t *testing.T) {
	env := packedTree(t)
	olds := map[string]string{
		"google.golang.org/grpc":              "v1.70.0",
		"github.com/jackc/pgx/v5":             "v5.7.2",
		"github.com/prometheus/client_golang": "v1.20.5",
		"github.com/spf13/cobra":              "v1.8.1",
		"github.com/stretchr/testify":         "v1.9.0",
		"golang.org/x/sys":                    "v0.28.0",
	}
	var lines strings.Builder
	for path, version := range olds {
		fmt.Fprintf(&lines, "require %s %s\n", path, version)
	}
	with := func(get ...string) map[string]string {
		u := newUser(t, env, "\n"+lines.String(), "package main\n\nfunc main() {}\n")
		u.do(append([]string{"go", "get"}, get...)...)
		return u.requires()
	}
	const driver = "github.com/redis/go-redis/v9"
	have := with(own+"@"+tried, own+"/redisstore@"+tried)
	least := with(driver + "@" + have[driver])
	for path, version := range olds {
		if have[path] != least[path] || path != "golang.org/x/sys" && have[path] != version { // go-redis itself requires this module
			t.Errorf("%s was raised from %s to %s, with the driver alone to %s", path, version, have[path], least[path])
		}
	}
}
