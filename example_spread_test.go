package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A replica leads some of the tenants: as many as each other replica, or one more.
type replica struct {
	name    string
	locks   *holdfast.Locker
	tenants []string
	changed chan struct{} // the balance may have changed

	mu      sync.Mutex
	leads   map[string]*holdfast.Lease
	waiting map[string]context.CancelFunc // campaigns
}

func newReplica(name string, tenants []string, store *memstore.Store) *replica {
	locks, err := holdfast.New(store, nil)
	if err != nil {
		panic(err)
	}
	locks = locks.With(&holdfast.Options{Note: name, AskToGiveUp: "a replica with fewer tenants waits"})
	return &replica{
		name: name, locks: locks, tenants: tenants, changed: make(chan struct{}, 1),
		leads: map[string]*holdfast.Lease{}, waiting: map[string]context.CancelFunc{},
	}
}

// run leads tenants until ctx ends, and then gives them up.
func (r *replica) run(ctx context.Context) {
	defer r.locks.Close()
	for ctx.Err() == nil {
		if all, err := r.locks.List(ctx, "tenant/"); err == nil {
			r.balance(ctx, all)
		}
		select {
		case <-r.changed:
		case <-time.After(50 * time.Millisecond): // other replicas come and go; a real program waits for seconds, as List reads all names
		case <-ctx.Done():
		}
	}
}

// balance gives up one tenant if a replica that leads at least two fewer waits for it.
// It waits for tenants without a leader, and for those of replicas that lead at least two more.
func (r *replica) balance(ctx context.Context, all []holdfast.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[string]holdfast.Status{}
	led := map[string]int{} // by each replica
	for _, s := range all {
		now[s.Name] = s
		for _, h := range s.Holders {
			led[h.Note]++
		}
	}
	for _, tenant := range r.tenants {
		lease, stop := r.leads[tenant], r.waiting[tenant]
		if lease != nil && lease.Valid() {
			for _, w := range now[tenant].Waiters {
				if led[w.Note] <= led[r.name]-2 {
					delete(r.leads, tenant)
					_ = lease.Release()
					r.poke() // perhaps one more
					return
				}
			}
			continue
		}
		delete(r.leads, tenant)
		wanted := len(now[tenant].Holders) == 0
		for _, h := range now[tenant].Holders {
			wanted = led[h.Note] >= led[r.name]+2
		}
		switch {
		case wanted && stop == nil:
			campaign, cancel := context.WithCancel(ctx)
			r.waiting[tenant] = cancel
			go r.campaign(campaign, tenant)
		case !wanted && stop != nil:
			stop()
		}
	}
}

func (r *replica) campaign(ctx context.Context, tenant string) {
	lease, err := r.locks.Election(tenant).Campaign(ctx)
	r.mu.Lock()
	r.waiting[tenant]()
	delete(r.waiting, tenant)
	if err == nil {
		r.leads[tenant] = lease // work for the tenant under lease.Context
	}
	r.mu.Unlock()
	r.poke()
	if err == nil {
		select {
		case <-lease.AskedToGiveUp():
		case <-lease.Context(context.Background()).Done():
		}
		r.poke()
	}
}

func (r *replica) poke() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Ten tenants are spread evenly over the replicas that live. One that comes later
// asks those that lead more to give some up, and each of them decides by who leads
// how many.
func ExampleLease_AskedToGiveUp() {
	store := memstore.New()
	var tenants []string
	for i := range 10 {
		tenants = append(tenants, fmt.Sprint("tenant/", i))
	}
	watch, err := holdfast.New(store, nil)
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	stops := map[string]context.CancelFunc{}
	start := func(name string) {
		ctx, stop := context.WithCancel(context.Background())
		stops[name] = stop
		all.Go(func() { newReplica(name, tenants, store).run(ctx) })
	}
	spread := func() {
		for ; ; time.Sleep(10 * time.Millisecond) {
			led, least, most, sum := map[string]int{}, len(tenants), 0, 0
			names, _ := watch.List(context.Background(), "tenant/")
			for _, s := range names {
				for _, h := range s.Holders {
					led[h.Note]++
				}
			}
			for name := range stops {
				n := led[name]
				least, most, sum = min(least, n), max(most, n), sum+n
			}
			if sum == len(tenants) && most-least <= 1 {
				fmt.Printf("%d replicas lead %d to %d each\n", len(stops), least, most)
				return
			}
		}
	}

	start("a")
	spread()
	start("b")
	spread()
	start("c")
	spread()
	stops["a"]()
	delete(stops, "a")
	spread()
	for _, stop := range stops {
		stop()
	}
	all.Wait()
	// Output:
	// 1 replicas lead 10 to 10 each
	// 2 replicas lead 5 to 5 each
	// 3 replicas lead 3 to 4 each
	// 2 replicas lead 5 to 5 each
}
