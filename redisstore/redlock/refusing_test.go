package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// A node that takes no writes, as it is full or read-only, is asked now and then
// whether it takes them again, not as fast as it answers; and is used again then.
func TestANodeThatTakesNoWritesIsLeftInPeace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, refusal, on, off string }{
		{"full", "OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		{"read-only", "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, s := nodes(t, 3, Options{})
			s.straggle = patience // with two nodes left each of them is needed, however slow
			admin := clientsOf(t, servers[2].Addr)[0]
			commands := func() int {
				t.Helper()
				info, err := admin.Info(t.Context(), "stats").Result()
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.Atoi(redisinfo.Field(info, "total_commands_processed"))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			holds := []store.Hold{}
			for i := range 20 {
				holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(i))))
			}
			idle(t, s)
			tell(t, admin, c.on)
			for i := range 10 {
				if err := s.Release(t.Context(), holds[i]); err != nil { // two nodes suffice; the third is told later
					t.Fatal(err)
				}
				free(t, s, fmt.Sprint("other ", i))
			}
			n := s.nodes[2]
			var err error
			until(t, "the node is out of use, or for what is new", func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				err = cmp.Or(n.err, n.full)
				return n.state == down || n.full != nil
			})
			if !strings.Contains(err.Error(), c.refusal) || !strings.Contains(err.Error(), servers[2].Addr) {
				t.Errorf("it is out of use for %v", err)
			}
			// The time is measured by, not waited for: a slow machine sends less.
			before := commands()
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				free(t, s, "another")
			}
			if sent := commands() - before; sent > 300 {
				t.Errorf("%d commands in a second went to a node that refuses them", sent)
			}
			tell(t, admin, c.off)
			until(t, "the node is used again, and what was released is released there", func() bool {
				left, err := admin.Get(t.Context(), s.key("0")).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					t.Fatal(err)
				}
				free(t, s, "new")
				return nodesUp(s) == 3 && len(left) <= headSize && s.nodes[2].grants()
			})
		})
	}
}
