//go:build linux || darwin

package prove

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// A rightStore is a store that must be proved.
type rightStore struct {
	name string
	url  func(*testing.T) string
	// oneClock says that claims are ordered by the clocks of their owners. The clocks of the nodes correct a wrong one,
	// but only to within a round trip, and on a busy machine check 6 sees that.
	oneClock bool
}

// provable are the stores that are proved: here from one seed, and by make prove-all from many.
var provable = []rightStore{
	{"memory", func(*testing.T) string { return "mem:" }, false},
	{"file", func(t *testing.T) string { return "file:" + t.TempDir() }, false},
	{"Redis", func(t *testing.T) string { return "redis://" + testserver.SharedRedis(t) }, false},
	{"Redis Cluster of 3", onCluster, false},
	{"Redis behind Sentinel, a replica confirms", behindSentinel, false},
	{"Redlock on 3 nodes", func(t *testing.T) string { return onRedlock(t, 3, 0) }, true},
	{"Redlock on 3 nodes, one dead", func(t *testing.T) string { return onRedlock(t, 3, 1) }, true},
	{"Redlock on 5 nodes", func(t *testing.T) string { return onRedlock(t, 5, 0) }, true},
	{"PostgreSQL", func(t *testing.T) string { return testserver.PostgresURL(testserver.SharedPostgres(t)) }, false},
	// A session can only notice its losses. So two checks are not judged: that a holder is alone, and that each loss
	// is reported in time.
	{"PostgreSQL, sessions", func(t *testing.T) string { return sessions(testserver.SharedPostgres(t)) }, false},
	{"MariaDB", func(t *testing.T) string { return "mariadb://root@" + testserver.SharedMariaDB(t) + "/locks" }, false},
	{"SQL Server", func(t *testing.T) string {
		return testserver.SQLServer(t, "table", "prove_"+store.NewProcess().String())
	}, false},
	{"etcd", func(t *testing.T) string { return "etcd://" + testserver.SharedEtcd(t) }, false},
	{"ZooKeeper", func(t *testing.T) string { return "zk://" + testserver.SharedZooKeeper(t) }, false},
	{"NATS", func(t *testing.T) string { return "nats://" + testserver.SharedNATS(t) }, false},
	// This proves the store, not the server, which is a stand-in.
	{"MongoDB, a stand-in", func(t *testing.T) string { return mongosim.Start(t, mongosim.Options{}).URI() }, false},
}

// tags are the build tags without which a program lacks some of these stores.
var tags string

// options are those of a run with processes of the build whose clocks can be off.
func (s *rightStore) options(url, bin string, seed uint64) *Options {
	o := options(url, seed)
	o.Command = commandOf(bin, "")
	if s.name != "memory" && !s.oneClock { // memory has no processes
		o.Offset = time.Hour
	}
	return o
}

func TestEachStoreIsProvedAtAnyClocksOfItsProcesses(t *testing.T) {
	t.Parallel()
	bin := buildBroken(t)
	for _, s := range provable {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := s.options(s.url(t), bin, 1)
			r := proved(t, o)
			if o.Offset > 0 && r.Verdict.Figures.Faults[string(offset)] < o.Processes {
				t.Errorf("got faults %v", r.Verdict.Figures.Faults)
			}
		})
	}
}
