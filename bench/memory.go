package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// memory measures on one core: the engine and the rule, and nothing else. A
// sync.Mutex beside it tells what the same machine does in the same round.
func memory(ctx context.Context, s setup) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	m := l.Mutex("bench")
	var mu sync.Mutex
	runners := []runner{
		{"holdfast", func(ctx context.Context) (measure, error) {
			return tightly(s.slice, func() error {
				lease, err := m.Lock(ctx)
				if err != nil {
					return err
				}
				return lease.Release()
			})
		}},
		{"sync.Mutex", func(context.Context) (measure, error) {
			return tightly(s.slice, func() error {
				mu.Lock()
				defer mu.Unlock()
				return nil
			})
		}},
	}
	if err := rounds(ctx, s, "Memory: uncontended lock and unlock on one core", "sync.Mutex",
		[]column{{name: "pairs/s", print: count}, {name: "p50", print: duration}}, runners); err != nil {
		return err
	}
	return bytesPerName(ctx, s)
}

// tightly runs pair without looking at the clock but each thousandth time, and
// then for the middle one each time.
func tightly(d time.Duration, pair func() error) (measure, error) {
	n, start := 0, time.Now()
	for time.Since(start) < d {
		for range 1000 {
			if err := pair(); err != nil {
				return nil, err
			}
		}
		n += 1000
	}
	rate := float64(n) / time.Since(start).Seconds()
	took := make([]time.Duration, 10_000)
	for i := range took {
		start := time.Now()
		if err := pair(); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	return measure{"pairs/s": rate, "p50": float64(median(took))}, nil
}

// bytesPerName is what the memory store itself keeps for a name that is held.
func bytesPerName(ctx context.Context, s setup) error {
	const names = 100_000
	st := memstore.New()
	p := store.NewProcess()
	before := heap()
	for i := range names {
		if _, err := st.Ask(ctx, store.Claim{
			Name: fmt.Sprintf("bench/%08d", i), ID: p.NewID(), Limit: store.Full, Weight: store.Full,
			TTL: ttl, Place: store.MaxPlace,
		}); err != nil {
			return err
		}
	}
	bytes := float64(heap()-before) / names
	runtime.KeepAlive(st)
	fmt.Fprintf(s.out, "\nMemory: %.0f bytes a held name in the store, the name's own 14 bytes included, %d names\n", bytes, names)
	return nil
}

// heap is the size of what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
