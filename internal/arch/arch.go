// Package arch holds the rules of which package may import which. They keep
// the module ready to be split: the core drags in no driver, a store only its own,
// and no package an internal one of what will be another module. The test in this
// package applies them to what go list says.
package arch

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A kind of package.
type kind int

const (
	core    kind = iota // what every user links: no driver, no store
	part                // of the packages above its internal directory only: core except the root package, and their driver
	store               // keeps locks: core except the root package, and its own driver
	beside              // used together with the core by those who want it: no store, and nothing else here knows it
	top                 // brings stores together: commands, and what opens a URL
	support             // used by tests and by other packages of this kind only
)

// A rule is what a package may import besides the standard library. The
// prefixes cover whole modules.
type rule struct {
	kind kind
	deps []string // from outside this module
}

const (
	sys     = "golang.org/x/sys"
	tools   = "golang.org/x/tools"
	goredis = "github.com/redis/go-redis/v9"
	pgx     = "github.com/jackc/pgx/v5"
	mysql   = "github.com/go-sql-driver/mysql"
	mssql   = "github.com/microsoft/go-mssqldb"
	mongo   = "go.mongodb.org/mongo-driver/v2"
	nats    = "github.com/nats-io/nats.go"
	prom    = "github.com/prometheus/client_golang/prometheus"
	cobra   = "github.com/spf13/cobra"

	porcupine = "github.com/anishathalye/porcupine"
	gozk      = "github.com/go-zookeeper/zk"
)

// etcd is its driver, and what of its interfaces cannot be used without the
// driver's own dependencies: messages, errors, a logger.
var etcd = []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/pkg/v3", "go.etcd.io/etcd/api/v3", "google.golang.org/grpc", "go.uber.org/zap"}

// rules has every package of the module, by its path below the module's. A
// package that is not here fails the test: add a line, and with it the
// decision what the package may drag in.
var rules = map[string]rule{
	".":                {core, []string{sys}},
	"store":            {core, []string{sys}},
	"store/queue":      {core, []string{sys}},
	"store/session":    {core, nil},
	"store/record":     {core, nil},
	"store/record/row": {core, nil}, // below the stores that have all of a name in one row
	"store/scheme":     {core, nil}, // where stores register their URLs
	"store/embedded":   {core, nil}, // reads scripts and statements
	"internal/clock":   {core, []string{sys}},

	"internal/engine": {core, nil}, // below the root package, which alone uses it

	"store/storetest/contain": {core, []string{sys}}, // for prove and tests

	"memstore":           {store, nil},
	"filestore":          {store, []string{sys}},
	"redisstore":         {store, []string{goredis}},
	"redisstore/redlock": {store, []string{goredis}},
	"mysqlstore":         {store, []string{mysql}},
	"mssqlstore":         {store, []string{mssql}},
	"mongostore":         {store, []string{mongo}},
	"etcdstore":          {store, etcd},
	"zkstore":            {store, []string{gozk}},
	"natsstore":          {store, []string{nats}},
	"pgstore":            {store, []string{pgx}},
	"pgstore/pgadvisory": {store, []string{pgx}},

	"pgstore/internal/connect":      {part, []string{pgx}},
	"redisstore/internal/redislua":  {part, nil}, // of the scripts of redisstore and redlock
	"redisstore/internal/redisinfo": {part, nil}, // of the checks of the same two

	"guard":                 {beside, nil},
	"redisstore/redisguard": {beside, []string{goredis}},
	"pgstore/pgxguard":      {beside, []string{pgx}},
	"holdfastprom":          {beside, []string{prom}},

	"open":         {top, nil},
	"open/all":     {top, nil},
	"prove":        {top, append([]string{porcupine, goredis, pgx, mysql, sys, gozk, nats}, etcd...)},
	"cmd/holdfast": {top, []string{cobra, "github.com/spf13/pflag", sys, goredis}}, // goredis: to silence its own log

	"cmd/holdfast/internal/front": {top, []string{sys}}, // of the command; it knows no store

	"store/record/model":      {support, nil}, // a command that no other package needs
	"store/storetest":         {support, nil},
	"store/record/recordtest": {support, nil},
	"internal/arch":           {support, nil},
	"internal/mongosim":       {support, []string{mongo}},
	"internal/mutant":         {support, nil},
	"internal/platforms":      {support, []string{tools}},
	"internal/runtests":       {support, nil},
	"internal/testserver":     {support, []string{sys}},
	"pgstore/internal/pgtest": {support, []string{pgx}},
}

// modules are the directories that will be modules of their own, with all that is
// below them. What is below none is the root module's.
var modules = []string{"redisstore", "pgstore", "mysqlstore", "mssqlstore", "mongostore", "etcdstore", "zkstore", "natsstore", "holdfastprom",
	"open/all", "prove", "cmd/holdfast", "internal/mongosim"}

// moduleOf returns the directory of the package's module; "": the root module.
func moduleOf(path string) string {
	for _, m := range modules {
		if within(path, m) {
			return m
		}
	}
	return ""
}

// across says why a package must not import another of this repository if they
// will be of two modules, or "". What only tests use may do so.
func across(from, to string, kind kind) string {
	switch m := moduleOf(from); {
	case m == moduleOf(to) || kind == support || to == "internal/clock": // whose exported names never change
		return ""
	case m == "":
		return "that will be another module, and the root module needs none of those"
	case slices.Contains(strings.Split(to, "/"), "internal"):
		return "that is internal, and will be of another module"
	}
	return ""
}

// engine is what the root package is the API of.
const engine = "internal/engine"

// vague are names that say nothing of what a package is for.
var vague = []string{"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util", "utils"}

// A pkg is a package with what its files import, tests left out, on any of the
// operating systems.
type pkg struct {
	path    string // as in rules
	name    string
	imports []string // full paths, except that those in this module are as in rules
	own     []bool   // of each import: is it in this module
}

// check returns what is wrong with the packages under the rules, in order.
func check(pkgs []pkg, rules map[string]rule) (wrong []string) {
	seen := map[string]bool{}
	for _, p := range pkgs {
		seen[p.path] = true
		if slices.Contains(vague, p.name) || slices.Contains(vague, path.Base(p.path)) {
			wrong = append(wrong, fmt.Sprintf("%s: the name %s says nothing: name it for what it holds", p.path, p.name))
		}
		r, ok := rules[p.path]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s has no rule: add it to internal/arch/arch.go", p.path))
			continue
		}
		for i, imp := range p.imports {
			if err := r.forbids(p, imp, p.own[i], rules); err != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", p.path, imp, err))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(rules)) {
		if !seen[path] && len(pkgs) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s has a rule but is not there: remove the rule", path))
		}
	}
	return wrong
}

// forbids says why p, which has the rule r, must not import imp, or "".
func (r rule) forbids(p pkg, imp string, own bool, rules map[string]rule) string {
	if !own {
		if standard(imp) || slices.ContainsFunc(r.deps, func(dep string) bool { return within(imp, dep) }) {
			return ""
		}
		return "its rule does not list that module"
	}
	to, ok := rules[imp]
	switch {
	case !ok:
		return "that package has no rule"
	case to.kind == support && r.kind != support:
		return "that is for tests"
	case to.kind == top && r.kind < top:
		return "that brings all stores in"
	case to.kind == beside && r.kind != support && !within(p.path, imp) && (r.kind != beside || imp != "guard"):
		return "nobody has to have that"
	case to.kind == store && r.kind == beside:
		return "it is used with any store"
	case to.kind == store && r.kind <= part:
		return "the core knows no store"
	case to.kind == store && r.kind == store && !within(imp, p.path) && !within(p.path, imp):
		return "a store knows no other store"
	case imp == "." && (r.kind == store || r.kind == part):
		return "a store knows the contract, not the engine"
	case imp == "." && p.path == "store":
		return "the contract does not know the engine"
	case imp == "." && p.path == engine:
		return "the engine does not know what callers see of it"
	case imp == engine && p.path != ".":
		return "the engine is used by way of the root package"
	case p.path == engine && imp != "store" && imp != "internal/clock":
		return "the engine knows the contract and the clocks, and nothing else"
	}
	return across(p.path, imp, r.kind)
}

// standard reports whether the import path is of the standard library, whose
// first element has no dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// within reports whether the import path is prefix or below it.
func within(imp, prefix string) bool {
	return imp == prefix || strings.HasPrefix(imp, prefix+"/")
}
