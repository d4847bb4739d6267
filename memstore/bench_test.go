package memstore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func claim(name string) store.Claim {
	return store.Claim{
		Name: name, ID: store.Process{1}.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: 30e9, PositionTTL: 10e9, Owner: "host\t1\tprogram\t\t",
	}
}

// BenchmarkPair is an uncontended ask and release.
func BenchmarkPair(b *testing.B) {
	s, ctx := New(), b.Context()
	c := claim("invoice/42")
	b.ReportAllocs()
	for b.Loop() {
		a, err := s.Ask(ctx, c)
		if err != nil || !a.Granted {
			b.Fatal(a, err)
		}
		if err := s.Release(ctx, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPairParallel is the same with many goroutines, each with its own name.
func BenchmarkPairParallel(b *testing.B) {
	s, ctx := New(), b.Context()
	b.RunParallel(func(pb *testing.PB) {
		c := claim(fmt.Sprint("invoice/", store.Process{2}.NewID()))
		for pb.Next() {
			a, err := s.Ask(ctx, c)
			if err != nil || !a.Granted {
				b.Error(a, err)
				return
			}
			if err := s.Release(ctx, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkHeldNames reports how many bytes a held name costs, without its own
// text.
func BenchmarkHeldNames(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 700_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(bytesAName(b, n), "B/name")
			}
		})
	}
}

func bytesAName(t testing.TB, n int) float64 {
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = claim(fmt.Sprint("invoice/", i))
	}
	s := New()
	before := heap()
	for _, c := range claims {
		if a, err := s.Ask(t.Context(), c); err != nil || !a.Granted {
			t.Fatal(a, err)
		}
	}
	used := heap() - before
	runtime.KeepAlive(s)
	runtime.KeepAlive(claims)
	return float64(used) / float64(n)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
