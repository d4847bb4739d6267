package holdfast_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// BenchmarkPair is an uncontended Lock and Release on the memory store: it
// measures only the engine and the rule.
func BenchmarkPair(b *testing.B) {
	locks, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	m := locks.Mutex("a")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := m.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(); err != nil {
			b.Fatal(err)
		}
	}
}
