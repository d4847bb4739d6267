package prove

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/open"
	_ "github.com/holdfast-go/holdfast/open/all"
	"github.com/holdfast-go/holdfast/store"
)

// A way is how the processes of a run come to a kind of store.
type way struct {
	// open opens the store with all its connections made by dial.
	open func(rawURL string, dial Dial) (store.Store, error)
	// network says that there are such connections, whose links can have faults.
	network bool
	// driver is how much longer than its context an operation can take.
	driver time.Duration
	// groups says that the store lives in this process: goroutines work with
	// it, each group of them over a link of its own.
	groups bool
}

// ways has the stores that can be proved, by the schemes of their URLs: a line
// each, and another in the table of what is proved, in right_test.go:
//
//	"etcd": {open: openEtcd, network: true, driver: 5 * time.Second},
//
//	{"etcd", func(t *testing.T) string { return "etcd://" + testserver.SharedEtcd(t) }},
//
// open makes the store from the URL so that the driver makes all its connections by the
// [Dial] that it is given: pgx has Config.DialFunc, the MySQL driver
// RegisterDialContext, gRPC WithContextDialer, ZooKeeper's client WithDialer, NATS
// CustomDialer, MongoDB's SetDialer. The connection is not secured yet: a driver that
// does that itself is given it as it is. The addresses need not be listed. Each dialed
// address, from the URL or from the server (a member of a cluster, a new primary), has
// a proxy of its own in each process, made by the parent when it is first dialed; of
// several, a fault strikes one or all. Each process checks its connections, and one
// that does not go to such a proxy fails the run. Closing the store frees the client
// too.
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
	// The same, and a redirect, or some questions to Sentinels.
	"redis+cluster":   {open: openRedis, network: true, driver: 16 * time.Second},
	"rediss+cluster":  {open: openRedis, network: true, driver: 16 * time.Second},
	"redis+sentinel":  {open: openRedis, network: true, driver: 16 * time.Second},
	"rediss+sentinel": {open: openRedis, network: true, driver: 16 * time.Second},

	"redlock": {open: openRedlock, network: true, driver: 4 * time.Second}, // to connect, and a node's timeout twice

	"postgres":         {open: openPostgres, network: true},
	"postgresql":       {open: openPostgres, network: true},
	"postgres+session": {open: openPostgresSession, network: true},

	// Whatever a call still waits for ends with its context.
	"mongodb":     {open: openMongoDB, network: true},
	"mongodb+srv": {open: openMongoDB, network: true},

	"mysql":   {open: openMySQL, network: true},
	"mariadb": {open: openMySQL, network: true},

	"sqlserver": {open: openSQLServer, network: true},

	"s3": {open: openS3, network: true},
}

func schemeOf(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	return strings.ToLower(scheme)
}

// asItIs opens a store that makes no connections.
func asItIs(rawURL string, _ Dial) (store.Store, error) { return open.URL(rawURL) }
