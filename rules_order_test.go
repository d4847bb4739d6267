package holdfast

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

// A turn is a claim that came and was served. Both count from 0.
type turn struct{ process, came, served int }

// turns lets each process wait with the same number of claims, one process after
// the other, and returns them as they came. held takes the name before, and returns
// the function that frees it. The claims of a process are numbered from 0. Each
// granted lease is passed to use.
func turns(t *testing.T, processes, claims int, o *Options, held func(*testing.T, *memstore.Store) func(),
	lock func(ctx context.Context, l *Locker, i int) (*Lease, error), use func(*testing.T, *Lease)) (all []turn) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		free := held(t, mem)
		var mu sync.Mutex
		var done sync.WaitGroup
		served := 0
		all = make([]turn, 0, processes*claims)
		for p := range processes {
			l := linkTo(t, mem)
			slow(l, 2*time.Millisecond)
			locks := locker(t, withNotifications{l}, o)
			for i := range claims {
				n := len(all)
				all = append(all, turn{process: p, came: n})
				done.Go(func() {
					lease, err := lock(context.WithoutCancel(t.Context()), locks, i)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					all[n].served = served
					served++
					mu.Unlock()
					use(t, lease)
				})
				time.Sleep(10 * time.Millisecond) // a few round trips
			}
		}
		free()
		done.Wait()
	})
	return all
}

// passed is how many later claims, of the same process and of others, were
// served before this one.
func passed(all []turn, one turn) (own, others int) {
	for _, o := range all {
		switch {
		case o.came < one.came || o.served > one.served:
		case o.process == one.process && o.came > one.came:
			own++
		case o.process != one.process:
			others++
		}
	}
	return own, others
}

// Inside a process claims are served in order of arrival; between processes the
// first claim of each counts. A claim with k of its own process before it is passed by
// at most one turn of each other process for each of these, and one more with hand-over.
func TestAWaiterIsOvertakenByABoundedNumber(t *testing.T) { // rule 6
	const processes, claims = 3, 100
	elsewhere := func(t *testing.T, mem *memstore.Store) func() { return other(t, mem, "a", time.Hour).release }
	write := func(ctx context.Context, l *Locker, _ int) (*Lease, error) { return l.Mutex("a").Lock(ctx) }
	for name, c := range map[string]struct {
		o       *Options
		hold    time.Duration
		inATurn int // the most leases that a process has in a turn
		more    int // turns besides one for each claim before it
	}{
		"hand-over off":      {&Options{HandOver: &HandOver{}}, time.Millisecond, 1, 0},
		"hand-over":          {nil, 0, 64, 1},
		"hand-over, by time": {nil, 10 * time.Millisecond, 64, 1},
	} {
		t.Run(name, func(t *testing.T) {
			all := turns(t, processes, claims, c.o, elsewhere, write, func(_ *testing.T, l *Lease) {
				time.Sleep(c.hold)
				_ = l.Release()
			})
			mostOwn, mostOthers := 0, 0
			for i, one := range all {
				own, others := passed(all, one)
				mostOwn, mostOthers = max(mostOwn, own), max(mostOthers, others)
				k := i % claims
				if bound := (k + c.more) * (processes - 1) * c.inATurn; others > bound {
					t.Errorf("one with %d of its process before it was overtaken by %d of others, want at most %d", k, others, bound)
				}
			}
			t.Logf("of %d claims of %d processes, the one overtaken most was overtaken by %d of its own process and %d of others", len(all), processes, mostOwn, mostOthers)
			if mostOwn > 0 {
				t.Errorf("a claim was overtaken by %d of its own process, want none", mostOwn)
			}
		})
	}
}

// Readers and writers: each process has four readers and then a writer, again and
// again. Consecutive readers are one turn of their process, and so is a writer. A claim
// with g turns of its own process before it is passed by at most g+1 turns of each
// other process.
func TestAWaiterIsOvertakenByABoundedNumberOfReaders(t *testing.T) { // rule 6
	const processes, readers, claims = 3, 4, 100
	elsewhere := func(t *testing.T, mem *memstore.Store) func() { return other(t, mem, "a", time.Hour).release }
	writes := func(i int) bool { return i%(readers+1) == readers }
	lock := func(ctx context.Context, l *Locker, i int) (*Lease, error) {
		if writes(i) {
			return l.RWMutex("a").Write().Lock(ctx)
		}
		return l.RWMutex("a").Read().Lock(ctx)
	}
	for name, o := range map[string]*Options{"hand-over off": {HandOver: &HandOver{}}, "hand-over": nil} {
		t.Run(name, func(t *testing.T) {
			all := turns(t, processes, claims, o, elsewhere, lock, func(_ *testing.T, l *Lease) {
				time.Sleep(10 * time.Millisecond)
				_ = l.Release()
			})
			most := map[bool]int{}
			for i, one := range all {
				i %= claims
				own, others := passed(all, one)
				most[writes(i)] = max(most[writes(i)], others)
				before := i/(readers+1)*2 + i%(readers+1)/readers // turns of its process
				inTurns := (before+2)/2*readers + (before+1)/2    // claims of one more turn, beginning with readers
				if bound := (processes - 1) * inTurns; others > bound {
					t.Errorf("one with %d turns of its process before it was overtaken by %d of others, want at most %d", before, others, bound)
				}
				if beside := readers - 1; own > beside || own > 0 && writes(i) {
					t.Errorf("a claim was overtaken by %d of its own process; it is a writer: %v", own, writes(i))
				}
			}
			t.Logf("of %d claims of %d processes, the most overtaken reader was overtaken by %d of others, the writer by %d", len(all), processes, most[false], most[true])
		})
	}
}

// Claims that fit together have their own positions in the store, up to 64 for each
// process. They are served in order of arrival, across processes.
func TestSlotsHaveTheirOwnPositionsAcrossProcesses(t *testing.T) { // rule 6
	acquire := func(ctx context.Context, l *Locker, _ int) (*Lease, error) {
		return l.Semaphore("a", 64).Acquire(ctx, 1)
	}
	full := func(t *testing.T, mem *memstore.Store) func() {
		before := locker(t, withNotifications{linkTo(t, mem)}, nil)
		var held []*Lease
		for range 64 {
			l, err := acquire(t.Context(), before, 0)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
		}
		return func() { // one slot at a time
			for _, l := range held {
				release(t, l)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	all := turns(t, 3, 20, nil, full, acquire, func(t *testing.T, l *Lease) { t.Cleanup(func() { _ = l.Release() }) })
	order := slices.Clone(all)
	slices.SortFunc(order, func(a, b turn) int { return a.served - b.served })
	for i, o := range order {
		if o.came != i {
			t.Fatalf("the claim that came as number %[2]d was served as number %[1]d", i, o.came)
		}
	}
}
