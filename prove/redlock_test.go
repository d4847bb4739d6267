//go:build linux || darwin

package prove

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// redlockNodes starts n unused nodes and returns them and their URL.
func redlockNodes(t *testing.T, n int) ([]*testserver.Server, string) {
	t.Helper()
	const maxTTL = 3 * time.Second
	var servers []*testserver.Server
	var urls []string
	var clients []*redis.Client
	for range n {
		s := testserver.Redis(t)
		c := redis.NewClient(&redis.Options{Addr: s.Addr})
		defer c.Close()
		servers, urls, clients = append(servers, s), append(urls, "redis://"+s.Addr), append(clients, c)
	}
	comes(t, "Redlock trusts all nodes", func() bool {
		err := redlock.Trust(t.Context(), clients, &redlock.Options{MaxTTL: maxTTL})
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return servers, "redlock:" + strings.Join(urls, ",") + "?max-ttl=" + maxTTL.String()
}

// onRedlock is the URL of nodes, some of which are dead.
func onRedlock(t *testing.T, nodes, dead int) (url string) {
	t.Helper()
	servers, url := redlockNodes(t, nodes)
	for _, s := range servers[:dead] {
		s.Kill()
	}
	return url
}

// One node of three is frozen, restarts empty after a kill, or is wiped. That voids nothing: the node grants nothing
// until all that it granted has expired.
func TestANodeOfRedlockThatIsFrozenKilledAndWipedVoidsNothing(t *testing.T) {
	t.Parallel()
	servers, url := redlockNodes(t, 3)
	s := servers[0]
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	struckServer(t, url, map[Fault]func() func(){
		frozen:    func() func() { s.Freeze(); return s.Thaw },
		restarted: func() func() { s.Kill(); return s.Restart },
		wiped: func() func() {
			rdb.FlushAll(context.Background()) // it may be down
			return func() {}
		},
	})
}
