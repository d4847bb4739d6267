//go:build linux || darwin

package prove

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// Many claims at once, most of them soon given up, beside a hold that lasts as long
// as its process; connections fall silent and are reset, and what was asked for on
// them is answered by nobody, or arrives late.
func TestManyClaimsBesideALastingHoldAreProved(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"Redis":     func(t *testing.T) string { return "redis://" + testserver.SharedRedis(t) },
		"etcd":      func(t *testing.T) string { return "etcd://" + testserver.SharedEtcd(t) },
		"ZooKeeper": func(t *testing.T) string { return "zk://" + testserver.SharedZooKeeper(t) },
		"NATS":      func(t *testing.T) string { return "nats://" + testserver.SharedNATS(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(url(t), 1)
			o.Wide, o.Names, o.Faults, o.For, o.TTL = true, 60, []Fault{silence, late}, 8*time.Second, 2*time.Second
			r := proved(t, o)
			lasting := 0
			for _, e := range r.history.Events {
				if e.Do == ask && strings.Contains(e.Name, "/last/") {
					lasting++
				}
			}
			if lasting < o.Processes {
				t.Errorf("%d holds were to last, want one for each of %d processes", lasting, o.Processes)
			}
		})
	}
}
