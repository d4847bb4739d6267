package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// What a cluster of three costs beside a single server, and a replica that must
// confirm beside none: the same is done on both in turn, and only the ratio of
// the times means anything.
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
