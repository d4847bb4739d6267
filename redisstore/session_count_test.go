package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// callsOf returns how often the server has run each command.
func callsOf(t testing.TB, c redis.UniversalClient) map[string]int {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for line := range strings.Lines(info) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			var n int
			fmt.Sscanf(rest, "%d,", &n)
			all[name] = n
		}
	}
	return all
}

func TestManyHoldsAreRenewedByOneWriteForAll(t *testing.T) {
	t.Parallel()
	for name, start := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			direct := clientOf(t, server.Addr)
			s, whole := storeOn(t, user(t, server, "locks", rights(t)...), nil), storeOn(t, direct, nil)
			defer s.Close()
			did := func(f func()) (scripts, writes int) {
				before := callsOf(t, direct)
				f()
				after := callsOf(t, direct)
				return after["evalsha"] - before["evalsha"], after["set"] - before["set"]
			}
			expect := func(what string, scripts, writes, wantScripts, wantWrites int) {
				t.Helper()
				if scripts != wantScripts || writes != wantWrites {
					t.Errorf("%s: got %d scripts and %d writes, want %d and %d", what, scripts, writes, wantScripts, wantWrites)
				}
			}
			const n = 2*mostTogether + 100                        // so that there are three sessions
			holds := inSessions(t, s, "many", n, longestTogether) // a busy machine takes long for so many
			if keys := sessionKeys(t, whole); len(keys) != 3 {
				t.Errorf("got %d sessions of %d holds, want 3", len(keys), n)
			}
			scripts, writes := did(func() { mustRenew(t, s, holds) })
			expect("all", scripts, writes, 3, 3)
			if err := s.Release(t.Context(), holds[0]); err != nil {
				t.Fatal(err)
			}
			if err := s.ReleaseAll(t.Context(), holds[1:2])[0]; err != nil {
				t.Fatal(err)
			}
			holds = holds[2:]
			scripts, writes = did(func() { mustRenew(t, s, holds) })
			expect("without the released holds", scripts, writes, 3, 3)
			owner := holds[0].Owner
			holds[0].Owner = "{}"
			scripts, writes = did(func() { mustRenew(t, s, holds) })
			expect("with another owner", scripts, writes, 4, 4)
			holds[0].Owner = owner
			scripts, writes = did(func() { mustRenew(t, s, holds) })
			expect("with one renewed alone", scripts, writes, 4, 4)
			few := holds[1:fewestTogether]
			scripts, writes = did(func() { mustRenew(t, s, few) })
			expect("a few", scripts, writes, len(few), len(few))
		})
	}
}

// Issue 17 requires this for ten thousand leases of a process, which the engine renews in calls of a thousand: twenty writes in each third of
// a TTL. That is ten a second at a TTL of 6 s, and two at the default TTL.
func TestTenThousandHoldsAreTwentyWritesInAThirdOfATTL(t *testing.T) {
	t.Parallel()
	const n, call = 10_000, 1000
	open, advance := clockedOn(t, clientOf(t, testserver.Redis(t).Addr), nil)
	s := open()
	var holds []store.Hold
	for i := range n {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("held ", i))))
	}
	renew := func() {
		for i := 0; i < n; i += call {
			mustRenew(t, s, holds[i:i+call])
		}
		advance(holds[0].TTL / 3)
	}
	renew() // the first renewal writes each name
	for range 3 {
		before := callsOf(t, s.client)
		renew()
		after := callsOf(t, s.client)
		for name, calls := range after {
			want := 0
			switch name {
			case "evalsha", "mget", "set":
				want = 2 * n / call
			case "info", "ping", "hello", "client|setinfo": // of the test, and of a connection that is idle or new
				continue
			}
			if did := calls - before[name]; did != want {
				t.Errorf("got %d calls of %s, want %d", did, name, want)
			}
		}
	}
}
