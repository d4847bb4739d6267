package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// asksFor is what each published module may require in a version of its own: its driver, and what a driver requires in
// a version with a known hole, such as gRPC for etcd and golang.org/x/net for certmagic.
var asksFor = map[string][]string{
	".":                          {"golang.org/x/sys"},
	"redisstore":                 {"github.com/redis/go-redis/v9"},
	"pgstore":                    {"github.com/jackc/pgx/v5"},
	"mysqlstore":                 {"github.com/go-sql-driver/mysql"},
	"mssqlstore":                 {"github.com/microsoft/go-mssqldb"},
	"mongostore":                 {"go.mongodb.org/mongo-driver/v2"},
	"internal/mongosim":          {"go.mongodb.org/mongo-driver/v2"},
	"etcdstore":                  {"go.etcd.io/etcd/client/v3", "google.golang.org/grpc"},
	"zkstore":                    {"github.com/go-zookeeper/zk"},
	"natsstore":                  {"github.com/nats-io/nats.go"},
	"s3store":                    {"github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-sdk-go-v2/config", "github.com/aws/aws-sdk-go-v2/service/s3"},
	"dynamostore":                {"github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-sdk-go-v2/service/dynamodb"},
	"azblobstore":                {"github.com/Azure/azure-sdk-for-go/sdk/azcore", "github.com/Azure/azure-sdk-for-go/sdk/azidentity", "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"},
	"k8sstore":                   {"k8s.io/apimachinery", "k8s.io/client-go"},
	"internal/awsconn":           {"github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-sdk-go-v2/config"},
	"holdfastprom":               {"github.com/prometheus/client_golang"},
	"open/all":                   nil,
	"adapters/holdfastcertmagic": {"github.com/caddyserver/certmagic", "golang.org/x/net"},
	"adapters/holdfastgoose":     {"github.com/pressly/goose/v3", "github.com/kr/text"}, // kr/text: for the tests of goose's test dependencies, in no program
	"adapters/holdfastmigrate":   {"github.com/golang-migrate/migrate/v4"},
	"adapters/holdfasttusd":      {"github.com/tus/tusd/v2"},
	"adapters/holdfastgocron":    {"github.com/go-co-op/gocron/v2"},
	"adapters/holdfastcron":      {"github.com/robfig/cron/v3"},
	"adapters/holdfastotel":      {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric"},
	"adapters/holdfasthttp":      nil,
	"adapters/holdfastterraform": nil,
	"adapters/holdfastonce":      nil,
	"adapters/holdfastkube":      {"k8s.io/client-go", "k8s.io/apimachinery"},
	"prove":                      {"github.com/anishathalye/porcupine"},
}

// ofDrivers is what modules import as well, in the version that a driver requires.
var ofDrivers = map[string][]string{
	"adapters/holdfastgoose": {"modernc.org/sqlite"},
	"etcdstore":              {"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/pkg/v3", "go.uber.org/zap"},
	"s3store":                {"github.com/aws/smithy-go"},
	"dynamostore":            {"github.com/aws/smithy-go"},
	"internal/awsconn":       {"github.com/aws/smithy-go"},
	"prove":                  {"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "google.golang.org/grpc", "golang.org/x/sys"},
}

// forTests is what tests import. Users get a line in go.sum for it, and its version if they have an older one: decision 51.
var forTests = []string{"go.uber.org/goleak", "pgregory.net/rapid"}

// No module, least of all the root, requires what is on no list.
func TestNoModuleRequiresMoreThanIsListed(t *testing.T) {
	t.Chdir("../../..")
	all, err := find(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if slices.Contains(unpublished, m.dir) || slices.Contains(newest, m.dir) {
			continue
		}
		if _, ok := asksFor[m.dir]; !ok {
			t.Errorf("%s: asksFor has no list for it", m.dir)
		}
		for path := range requiredBy(t, m.dir) {
			if !isOwn(path) && !slices.Contains(slices.Concat(asksFor[m.dir], ofDrivers[m.dir], forTests), path) {
				t.Errorf("%s requires %s, which is not on a list", m.dir, path)
			}
		}
	}
}

// requiredBy is what a go.mod requires directly, with the version of each module.
func requiredBy(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range file.Require {
		if !r.Indirect {
			all[r.Mod.Path] = r.Mod.Version
		}
	}
	return all
}

// A program on one of our modules gets no newer version of a module than a program on just that module's driver and our
// test libraries.
func TestEachModuleAsksForNoMoreThanItsDriverDoes(t *testing.T) {
	env := append(packedTree(t), "GOFLAGS=-modcacherw -mod=mod")
	all, err := find(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if slices.Contains(unpublished, m.dir) || slices.Contains(newest, m.dir) {
			continue
		}
		t.Run(m.dir, func(t *testing.T) {
			least := leastOf(t, env, all, m)
			for path, version := range selected(t, env, map[string]string{m.path: tried}) {
				if !isOwn(path) && semver.Compare(version, least[path]) > 0 {
					t.Errorf("it requires %s %s, but its driver requires %q", path, version, least[path])
				}
			}
		})
	}
}

// leastOf is what a program gets that requires what the module may require itself. What else the module names is added
// in the resulting version, as go mod tidy does: so its own requirements count.
func leastOf(t *testing.T, env []string, all []*module, m *module) map[string]string {
	t.Helper()
	requires := map[string]string{} // "": indirect
	imports(t, all, m, requires)
	for {
		named := maps.Clone(requires)
		maps.DeleteFunc(named, func(_, version string) bool { return version == "" })
		least, grown := selected(t, env, named), false
		for path, version := range requires {
			if version == "" && least[path] != "" {
				requires[path], grown = least[path], true
			}
		}
		if !grown {
			return least
		}
	}
}

// imports adds what the module, and the modules of the repository that it needs, may require themselves, and "" for the
// rest.
func imports(t *testing.T, all []*module, m *module, requires map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Require {
		path := r.Mod.Path
		switch i := slices.IndexFunc(all, func(m *module) bool { return m.path == path }); {
		case i >= 0:
			imports(t, all, all[i], requires)
		case !slices.Contains(asksFor[m.dir], path) && !slices.Contains(forTests, path):
			if _, ok := requires[path]; !ok {
				requires[path] = ""
			}
		case semver.Compare(r.Mod.Version, requires[path]) > 0:
			requires[path] = r.Mod.Version
		}
	}
}
