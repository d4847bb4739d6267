package mysqlstore

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

const (
	bulk    = 500 // holds renewed by one statement
	abreast = 8   // at a time, of those that need statements of their own
)

// Renew implements [store.Store]. Holds that nobody waits for are renewed by one
// statement, and another tells which they were; the others one by one.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	times := map[string]int{} // that a name is there
	for i := range holds {
		times[holds[i].Name]++
	}
	single := map[string][]int{} // by name: what is of one name is done in its order
	plain := map[int64][]int{}   // by TTL
	for i := range holds {
		h := &holds[i]
		out[i].TTL = h.TTL
		if out[i].Err = bounds.CheckRenewal(h); out[i].Err != nil {
			continue
		}
		if len(holds) > 1 && times[h.Name] == 1 && h.Owner == "" && h.NewID == (store.ID{}) && h.Used <= h.Token {
			plain[micros(h.TTL)] = append(plain[micros(h.TTL)], i)
		} else {
			single[h.Name] = append(single[h.Name], i)
		}
	}
	for ttl, all := range plain {
		for part := range slices.Chunk(all, bulk) {
			for _, i := range s.renewAll(ctx, ttl, holds, part, out) {
				single[holds[i].Name] = []int{i}
			}
		}
	}
	var wg sync.WaitGroup
	next := make(chan []int)
	for range min(abreast, len(single)) {
		wg.Go(func() {
			for of := range next {
				for _, i := range of {
					out[i] = s.renew(ctx, &holds[i])
				}
			}
		})
	}
	for _, of := range single {
		next <- of
	}
	close(next)
	wg.Wait()
	return out
}

// renewAll renews what it can of the holds at once, and returns the others.
func (s *Store) renewAll(ctx context.Context, ttl int64, holds []store.Hold, part []int, out []store.Renewal) (others []int) {
	if len(part) == 1 || s.prepare(ctx, "renew") != nil {
		return part
	}
	asked, names := make([]store.Hold, len(part)), make([]string, len(part))
	for i, j := range part {
		asked[i], names[i] = holds[j], holds[j].Name
	}
	// Time has to be left for each by itself.
	ctx, cancel := within(ctx, 3)
	defer cancel()
	rev := newRev()
	if _, err := s.db.ExecContext(ctx, s.sql.pushAll(asked, ttl, rev)); err != nil {
		return part
	}
	type key struct {
		name  string
		id    store.ID
		token int64
	}
	renewed := map[key]store.Renewal{}
	if err := s.rows(ctx, s.db, s.sql.read(names...), func(r row, err error) error {
		if err == nil && r.rev == rev && len(r.q.Entries) == 1 {
			e := &r.q.Entries[0]
			renewed[key{r.name, e.ID, e.Token}] = store.Renewal{Weight: int64(e.Weight), Want: int64(e.Want), Fence: e.Fence}
		}
		return nil
	}); err != nil {
		return part
	}
	for _, i := range part {
		h := &holds[i]
		if r, ok := renewed[key{h.Name, h.ID, h.Token}]; ok {
			r.TTL = h.TTL
			out[i] = r
		} else {
			others = append(others, i)
		}
	}
	return others
}

// renew renews one hold.
func (s *Store) renew(ctx context.Context, h *store.Hold) (out store.Renewal) {
	alone := h.NewID == (store.ID{})
	out.Err = s.repeat(ctx, "renew", h.Name, func(on querier) (bool, error) {
		if alone {
			alone = false
			weight, err := tell(ctx, on, s.sql.push(h, s.may(on, h.Name)))
			if weight != 0 || err != nil {
				out = store.Renewal{Weight: weight, Want: weight}
				return true, err
			}
		}
		return s.change(ctx, on, h.Name, func(r *row) (change queue.Change, err error) {
			out, change = r.q.Renew(r.now, h)
			return change, out.Err
		})
	})
	out.TTL = h.TTL
	return out
}
