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

// memory measures on one core: the engine and the rule, and nothing else. A sync.Mutex shows
// what the same machine does in the same round.
func memory(ctx context.Context, s setup) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	m := l.Mutex("bench")
	alone := memoryLease{names: map[string]*memoryName{}}
	var mu sync.Mutex
	slot := make(chan struct{}, 1)
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
		{leaseAlone, func(context.Context) (measure, error) {
			return tightly(s.slice, func() error {
				l, err := alone.lock("bench")
				if err != nil {
					return err
				}
				return alone.unlock("bench", l)
			})
		}},
		{"sync.Mutex", func(context.Context) (measure, error) {
			return tightly(s.slice, func() error {
				mu.Lock()
				defer mu.Unlock()
				return nil
			})
		}},
		{oneSlot, func(context.Context) (measure, error) {
			return tightly(s.slice, func() error {
				slot <- struct{}{}
				<-slot
				return nil
			})
		}},
	}
	if err := rounds(ctx, s, "Memory: uncontended lock and unlock on one core", oneSlot,
		pairColumns, runners); err != nil {
		return err
	}
	if err := memoryCrowd(ctx, s); err != nil {
		return err
	}
	return bytesPerName(ctx, s)
}

// inProcess is a lock for goroutines of one process.
type inProcess struct{ take, give func() }

func (p inProcess) lock(context.Context, string) (func() error, error) {
	p.take()
	return func() error { p.give(); return nil }, nil
}

func (inProcess) close() error { return nil }

// memoryCrowd has 64 goroutines compete for one lock, on all processors.
func memoryCrowd(ctx context.Context, s setup) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	l, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	var mu sync.Mutex
	slot := make(chan struct{}, 1)
	var runners []runner
	for _, c := range []struct {
		name string
		locks
	}{
		{"holdfast", ours{Locker: l}},
		{"sync.Mutex", inProcess{mu.Lock, mu.Unlock}},
		{oneSlot, inProcess{func() { slot <- struct{}{} }, func() { <-slot }}},
	} {
		runners = append(runners, runner{c.name, func(context.Context) (measure, error) {
			came, err := crowd(c.locks, "bench", 64, s.slice)
			return came.measure(s.slice), err
		}})
	}
	return rounds(ctx, s, "Memory: one name, 64 goroutines", oneSlot, crowdColumns, runners)
}

const oneSlot = "channel of one slot"

// tightly runs pair for d and reads the clock only every 1000 pairs. Then it times 10,000
// single pairs for the median.
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

// bytesPerName measures what the memory store itself keeps for a held name.
func bytesPerName(ctx context.Context, s setup) error {
	names := 10 * s.held
	st := memstore.New()
	p := store.NewProcess()
	before := heap()
	for i := range names {
		if _, err := st.Ask(ctx, store.Claim{
			Name: fmt.Sprintf("bench/%08d", i), ID: p.NewID(), Limit: store.Full, Weight: store.Full,
			TTL: ttl, PositionTTL: store.MaxPositionTTL,
		}); err != nil {
			return err
		}
	}
	bytes := float64(heap()-before) / float64(names)
	runtime.KeepAlive(st)
	fmt.Fprintf(s.out, "\nMemory: %.0f bytes a held name in the store, the name's own 14 bytes included, %d names\n", bytes, names)
	return s.writeFigure(fmt.Sprintf("Memory: a held name in the store, of %d", names), "holdfast", cost("size", "B"), bytes)
}

// heap returns the bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
