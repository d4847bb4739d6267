package prove

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/open"
	_ "github.com/holdfast-go/holdfast/open/all"
	"github.com/holdfast-go/holdfast/store"
)

// A way is how the processes of a run connect to a kind of store.
type way struct {
	// open opens the store with all its connections made by dial.
	open func(rawURL string, dial Dial) (store.Store, error)
	// network says that the store makes connections, whose links can have faults.
	network bool
	// driver is how much longer than its context an operation can take.
	driver time.Duration
	// groups says that the store lives in this process: groups of goroutines use
	// it, each over its own link.
	groups bool
}

// ways has the stores that can be proved, by the schemes of their URLs. A new store
// needs a line here, and one in the table of proved stores in right_test.go:
//
//	"etcd": {open: openEtcd, network: true, driver: 5 * time.Second},
//
//	{"etcd", func(t *testing.T) string { return "etcd://" + testserver.SharedEtcd(t) }},
//
// open makes the store from the URL. The driver must make all its connections by the
// given [Dial]: pgx has Config.DialFunc, the MySQL driver RegisterDialContext, gRPC
// WithContextDialer, ZooKeeper's client WithDialer, NATS CustomDialer, MongoDB's
// SetDialer. Dial returns a connection without TLS: a driver that adds TLS itself can
// use it as it is. The addresses need not be listed. For each dialed address, from the
// URL or from the server (a member of a cluster, a new primary), the parent makes a
// proxy for each process that dials it. If a process has several, a fault strikes one
// or all. Each process checks its connections, and one that bypasses the proxies fails
// the run. Closing the store must also close the client.
//
// driver is how much longer than its context an operation may take, because the driver
// ignores contexts while it dials or reads; 0 if it does not.
var ways = map[string]way{
	"mem":    {open: asItIs, groups: true},
	"file":   {open: asItIs},
	"etcd":   {open: openEtcd, network: true, driver: 5 * time.Second},
	"zk":     {open: openZooKeeper, network: true, driver: 5 * time.Second},
	"nats":   {open: openNATS, network: true, driver: 3 * time.Second},  // to connect
	"redis":  {open: openRedis, network: true, driver: 8 * time.Second}, // go-redis: 5 s to dial, 3 s to read
	"rediss": {open: openRedis, network: true, driver: 8 * time.Second},
	// As redis, plus a redirect, or some queries to Sentinels.
	"redis+cluster":   {open: openRedis, network: true, driver: 16 * time.Second},
	"rediss+cluster":  {open: openRedis, network: true, driver: 16 * time.Second},
	"redis+sentinel":  {open: openRedis, network: true, driver: 16 * time.Second},
	"rediss+sentinel": {open: openRedis, network: true, driver: 16 * time.Second},

	"redlock": {open: openRedlock, network: true, driver: 4 * time.Second}, // to connect, plus twice a node's timeout

	"postgres":         {open: openPostgres, network: true},
	"postgresql":       {open: openPostgres, network: true},
	"postgres+session": {open: openPostgresSession, network: true},

	// All that a call waits for ends with its context.
	"mongodb":     {open: openMongoDB, network: true},
	"mongodb+srv": {open: openMongoDB, network: true},

	"mysql":   {open: openMySQL, network: true},
	"mariadb": {open: openMySQL, network: true},

	"sqlserver": {open: openSQLServer, network: true},

	"s3": {open: openS3, network: true}, "dynamodb": {open: openDynamoDB, network: true}, "azblob": {open: openAzure, network: true}, "k8s": {open: openKubernetes, network: true},
}

func schemeOf(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	return strings.ToLower(scheme)
}

// asItIs opens a store that makes no connections.
func asItIs(rawURL string, _ Dial) (store.Store, error) { return open.URL(rawURL) }
