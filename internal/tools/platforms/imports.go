package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/OpenPeeDeeP/depguard/v2"
)

// These rules say which packages a package may import besides the standard library. go.mod already limits the other
// modules. The rules keep the core free of drivers that its module has only for tests. They also keep the layers in
// order: a store knows the contract but not the engine, nothing imports what only some users have, and other modules'
// internal packages are for tests and for bench.

// own is the path of the root module.
const own = "github.com/holdfast-go/holdfast"

// A room is a set of packages with the same rule.
type room struct {
	dirs []string // "": the root package; with /..., everything below too
	may  []string // imports: packages of the repository by directory, others by path; both with /... for everything below
}

const (
	goredis   = "github.com/redis/go-redis/v9/..."
	pgx       = "github.com/jackc/pgx/v5/..."
	mysql     = "github.com/go-sql-driver/mysql"
	gozk      = "github.com/go-zookeeper/zk"
	sys       = "golang.org/x/sys/..."
	prom      = "github.com/prometheus/client_golang/prometheus"
	porcupine = "github.com/anishathalye/porcupine"
)

// etcd is the etcd driver, and the packages that its API cannot be used without: messages,
// errors, a logger.
var etcd = []string{"go.etcd.io/etcd/client/v3/...", "go.etcd.io/etcd/client/pkg/v3/...", "go.etcd.io/etcd/api/v3/...", "google.golang.org/grpc/...", "go.uber.org/zap"}

// contract is what stores are built on.
var contract = []string{"store", "store/queue", "store/session", "store/record", "store/record/row", "store/record/object", "store/scheme", "store/embedded"}

// stores is every store and what opens one.
var stores = []string{"memstore", "filestore", "redisstore", "redisstore/redlock", "pgstore", "pgstore/pgadvisory", "mysqlstore", "mssqlstore", "mongostore", "etcdstore", "zkstore", "natsstore", "s3store", "dynamostore", "k8sstore", "azblobstore"}

var rooms = []room{
	// The core: what every user links.
	{[]string{""}, []string{"store", "internal/engine"}},
	{[]string{"internal/engine"}, []string{"store", "internal/clock", "internal/crew"}},
	{[]string{"internal/crew"}, nil},
	{[]string{"internal/clock"}, []string{sys}},
	{[]string{"store"}, []string{"internal/clock"}},
	{[]string{"store/queue", "store/session", "store/scheme"}, []string{"store"}},
	{[]string{"store/record"}, []string{"store", "store/queue", "store/session", "internal/crew"}},
	{[]string{"store/record/row", "store/record/object"}, []string{"store", "store/session", "store/record"}},

	// Stores, each with its own driver.
	{[]string{"memstore"}, contract},
	{[]string{"filestore"}, append([]string{sys}, contract...)},
	{[]string{"redisstore/..."}, append([]string{goredis, "redisstore/internal/..."}, contract...)},
	{[]string{"pgstore/..."}, append([]string{pgx, "pgstore/internal/connect"}, contract...)},
	{[]string{"mysqlstore"}, append([]string{mysql}, contract...)},
	{[]string{"mssqlstore"}, append([]string{"github.com/microsoft/go-mssqldb/..."}, contract...)},
	{[]string{"mongostore"}, append([]string{"go.mongodb.org/mongo-driver/v2/..."}, contract...)},
	{[]string{"etcdstore"}, append(etcd, contract...)},
	{[]string{"zkstore"}, append([]string{gozk}, contract...)},
	{[]string{"natsstore"}, append([]string{"github.com/nats-io/nats.go/..."}, contract...)},
	{[]string{"s3store", "dynamostore"}, append([]string{"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...", "internal/awsconn"}, contract...)},
	{[]string{"azblobstore"}, append([]string{"github.com/Azure/azure-sdk-for-go/..."}, contract...)},
	{[]string{"k8sstore"}, append([]string{"k8s.io/client-go/..."}, contract...)},
	{[]string{"internal/awsconn"}, []string{"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...", "store"}},

	// In addition to the core, for users who want it, with any store.
	{[]string{"guard"}, []string{"", "store"}},
	{[]string{"redisstore/redisguard"}, []string{"", "guard", "store/embedded", goredis}},
	{[]string{"pgstore/pgxguard"}, []string{"", "guard", pgx}},
	{[]string{"holdfastprom"}, []string{"", prom}},
	{[]string{"adapters/holdfastcertmagic"}, []string{"", "github.com/caddyserver/certmagic"}},
	{[]string{"adapters/holdfastgocron"}, []string{"", "github.com/go-co-op/gocron/v2"}},
	{[]string{"adapters/holdfastgoose"}, []string{"", "github.com/pressly/goose/v3/lock"}},
	{[]string{"adapters/holdfastmigrate"}, []string{"", "github.com/golang-migrate/migrate/v4/database"}},
	{[]string{"adapters/holdfasttusd"}, []string{"", "store", "github.com/tus/tusd/v2/pkg/handler"}},
	{[]string{"adapters/holdfastcron"}, []string{"", "github.com/robfig/cron/v3"}},
	{[]string{"adapters/holdfastotel"}, []string{"", "store", "go.opentelemetry.io/otel/..."}},
	{[]string{"adapters/holdfasthttp"}, []string{""}},
	{[]string{"adapters/holdfastterraform"}, []string{""}},
	{[]string{"adapters/holdfastonce"}, []string{""}},
	{[]string{"adapters/holdfastkube"}, []string{"", "k8s.io/client-go/tools/leaderelection/resourcelock", "k8s.io/apimachinery/pkg/api/errors", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime/schema"}},

	// Packages that bring stores together.
	{[]string{"open"}, []string{"store", "store/scheme", "memstore", "filestore"}},
	{[]string{"open/all"}, append([]string{"open", "store", "store/scheme"}, stores...)},
	{[]string{"prove"}, append(append([]string{"", "open", "open/all", "store", "store/storetest/contain", "internal/clock", porcupine, goredis, pgx, mysql, gozk, sys}, etcd...), stores...)},
	{[]string{"cmd/holdfast"}, append([]string{"", "open", "open/all", "store", "store/scheme", "prove", "internal/clock", "cmd/holdfast/internal/front",
		"github.com/spf13/cobra", "github.com/spf13/pflag", "charm.land/bubbletea/v2", "github.com/charmbracelet/x/term", "cmd/holdfast/internal/report", sys, goredis}, stores...)}, // goredis: to silence its own log
	{[]string{"cmd/holdfast/holdfast-trace"}, []string{"cmd/holdfast/internal/report", "go.opentelemetry.io/otel/..."}}, // it imports no store
	{[]string{"cmd/holdfast/internal/front"}, []string{"internal/clock", sys}},                                          // it imports no store

	// Packages that only tests and the bench use.
	{[]string{"store/storetest"}, []string{"", "store", "store/queue", "internal/testwait"}},
	{[]string{"store/storetest/contain"}, []string{"store", sys}},
	{[]string{"store/record/recordtest"}, []string{"", "store", "store/queue", "store/session", "store/record", "store/storetest", "internal/testwait"}},
	{[]string{"internal/crowdtest"}, []string{"", "store", "internal/clock", "internal/testwait"}},
	{[]string{"internal/objecttest"}, []string{"", "store", "store/session", "store/record", "store/record/object", "store/record/recordtest", "store/storetest", "internal/testwait"}},
	{[]string{"internal/mongosim"}, []string{"go.mongodb.org/mongo-driver/v2/bson"}},
	{[]string{"internal/testserver"}, []string{sys}},
	{[]string{"internal/runtests", "internal/tested"}, []string{"internal/testserver"}},
	{[]string{"internal/otherprocess", "internal/testwait"}, nil},
	{[]string{"internal/mutant"}, []string{"internal/testserver"}},
	{[]string{"pgstore/internal/pgtest"}, []string{pgx, "store", "internal/testserver"}},
}

// free are directories whose packages may import anything: no other package imports them.
var free = []string{"bench", "internal/tools"}

// imports returns the rules for the linter, for the repository in a directory. A package
// without a room may import only the standard library.
func imports(root string) *depguard.LinterSettings {
	root = filepath.ToSlash(root)
	files := func(dir string) string {
		dir, below := strings.CutSuffix(dir, "/...")
		at := root
		if dir != "" {
			at += "/" + dir
		}
		if below {
			return at + "/{**/,}*.go"
		}
		return at + "/*.go"
	}
	taken := []string{"!$test"} // files that are already in a room
	for _, dir := range free {
		taken = append(taken, "!"+files(dir+"/..."))
	}
	all := depguard.LinterSettings{}
	// From last to first: a room with /... does not get packages that a later room has.
	for i := len(rooms) - 1; i >= 0; i-- {
		r := rooms[i]
		list := &depguard.List{ListMode: "Strict", Allow: []string{"$gostd"}, Files: append([]string(nil), taken...)}
		for _, dir := range r.dirs {
			list.Files = append(list.Files, files(dir))
			taken = append(taken, "!"+files(dir))
		}
		for _, path := range r.may {
			path, below := strings.CutSuffix(path, "/...")
			if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
				path = strings.TrimSuffix(own+"/"+path, "/")
			}
			list.Allow = append(list.Allow, path+"$")
			if below {
				list.Allow = append(list.Allow, path+"/")
			}
		}
		name := strings.Join(r.dirs, ", ")
		if name == "" {
			name = "the root"
		}
		all[name] = list
	}
	all["without a rule in "+rulesFile] = &depguard.List{ListMode: "Strict", Allow: []string{"$gostd"}, Files: append(taken, root+"/**/*.go")}
	return &all
}

const rulesFile = "internal/tools/platforms/imports.go"

// guardImports adds the rules to the analyses, if run in this repository.
func guardImports() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(rulesFile); err != nil {
		return nil // the modules in this package's tests
	}
	a, err := depguard.NewAnalyzer(imports(root))
	if err == nil {
		vet = append(vet, a)
	}
	return err
}
