package redisstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// This compares a cluster of three with a single server, and a replica that must confirm with no replica. Both do the same in turn, and only
// the ratio of the times means anything.
//
//	go test -run - -bench Beside ./redisstore
func BenchmarkClusterBesideSingle(b *testing.B) {
	single := storeOn(b, clientOf(b, testserver.Redis(b).Addr), nil)
	cluster := storeOn(b, clusterClient(b, testserver.RedisCluster(b, 3)), nil)
	beside(b, single, cluster)
}

func BenchmarkReplicaBesideNone(b *testing.B) {
	primary := testserver.Redis(b, "--repl-diskless-sync-delay", "0")
	testserver.RedisReplica(b, primary)
	beside(b, storeOn(b, clientOf(b, primary.Addr), nil), confirmed(b, clientOf(b, primary.Addr), 1))
}

func beside(b *testing.B, one, other *Store) {
	b.Cleanup(func() { one.Close(); other.Close() })
	const renewals = 1000
	holds := map[*Store][]store.Hold{}
	for _, s := range []*Store{one, other} {
		for i := range renewals {
			holds[s] = append(holds[s], mustHold(b, s, mutex(fmt.Sprintf("%p %d", s, i))))
		}
	}
	for what, f := range map[string]func(b *testing.B, s *Store, i int){
		"pair": func(b *testing.B, s *Store, i int) {
			h := mustHold(b, s, mutex(fmt.Sprint("name ", i%100)))
			if err := s.Release(b.Context(), h); err != nil {
				b.Fatal(err)
			}
		},
		"renewals": func(b *testing.B, s *Store, _ int) {
			for _, r := range s.Renew(b.Context(), holds[s]) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		},
	} {
		b.Run(what, func(b *testing.B) {
			took := map[*Store]time.Duration{}
			for i := 0; b.Loop(); i++ {
				for _, s := range []*Store{one, other} {
					begin := time.Now()
					f(b, s, i)
					took[s] += time.Since(begin)
				}
			}
			b.ReportMetric(float64(took[other])/float64(took[one]), "ratio")
		})
	}
}

// This compares the cost to the server of a hold that a session keeps with that of one renewed by itself. It measures the server's processor
// time, which other work on the machine does not change.
func BenchmarkSessionsBesideNone(b *testing.B) {
	client := clientOf(b, testserver.Redis(b).Addr, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	none, with := storeOn(b, client, apart()), storeOn(b, client, apart())
	b.Cleanup(func() { none.Close(); with.Close() })
	none.hasSessions = false
	const n = 2000
	used := func() (seconds float64) {
		info, err := client.Info(b.Context(), "cpu").Result()
		if err != nil {
			b.Fatal(err)
		}
		for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
			s, err := strconv.ParseFloat(redisinfo.Field(info, field), 64)
			if err != nil {
				b.Fatal(err)
			}
			seconds += s
		}
		return seconds
	}
	took := map[string]map[*Store]float64{"first": {}, "later": {}, "release": {}}
	for b.Loop() {
		for _, s := range []*Store{none, with} {
			var holds []store.Hold
			for k := range n {
				holds = append(holds, mustHold(b, s, mutex(fmt.Sprint("name ", k))))
			}
			for _, what := range []string{"first", "later"} {
				before := used()
				mustRenew(b, s, holds)
				took[what][s] += used() - before
			}
			before := used()
			for _, err := range s.ReleaseAll(b.Context(), holds) {
				if err != nil {
					b.Fatal(err)
				}
			}
			took["release"][s] += used() - before
		}
	}
	for what, of := range took {
		b.ReportMetric(of[with]/of[none], what+"-ratio")
		b.ReportMetric(1e6*of[none]/float64(b.N)/n, what+"-us-alone")
	}
}
