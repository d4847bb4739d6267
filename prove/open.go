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
	// network says that there are such connections, whose links can be bad.
	network bool
	// driver is how much longer than its context an operation can take.
	driver time.Duration
	// groups says that the store lives in this process: goroutines work with
	// it, each group of them over a link of its own.
	groups bool
}

// ways has the stores that can be proved, by the schemes of their URLs: a line
// each. The comment of the package says what it takes.
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
}

func schemeOf(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	return strings.ToLower(scheme)
}

// asItIs opens a store that makes no connections.
func asItIs(rawURL string, _ Dial) (store.Store, error) { return open.URL(rawURL) }
