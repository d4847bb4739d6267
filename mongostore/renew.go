package mongostore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/store"
)

const (
	bulk    = 500 // holds renewed by one command
	abreast = 8   // at a time, of those that need commands of their own
)

// Renew implements [store.Store]. Holds of different names are renewed by one
// command, and another reads how they came out; the others one by one.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	times := map[string]int{} // that a name is there
	for i := range holds {
		times[holds[i].Name]++
	}
	single := map[string][]int{} // by name: what is of one name is done in its order
	var many []int
	for i := range holds {
		h := &holds[i]
		out[i].TTL = h.TTL
		if out[i].Err = checkRenewal(h); out[i].Err != nil {
			continue
		}
		if len(holds) > 1 && times[h.Name] == 1 { //mutant:mongo-renewals-go
			many = append(many, i)
		} else {
			single[h.Name] = append(single[h.Name], i)
		}
	}
	for len(many) > 0 {
		n := min(bulk, len(many))
		for _, i := range s.renewAll(ctx, holds, many[:n], out) {
			single[holds[i].Name] = []int{i}
		}
		many = many[n:]
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

// renewAll renews what it can of the holds at once, and returns those of which
// it is not known how they came out.
func (s *Store) renewAll(ctx context.Context, holds []store.Hold, part []int, out []store.Renewal) (others []int) {
	return s.many(ctx, "renew", renewPipeline, holds, part, func(j int, r *row, call call) { out[j] = r.renewal(&holds[j], call) })
}

// many runs a pipeline for each of some holds of different names, all in one
// command. It calls did with the row of each that ran, and returns the others:
// of those it is not known how they came out.
func (s *Store) many(ctx context.Context, what string, pipeline func(*store.Hold, call) bson.A, holds []store.Hold, part []int, did func(j int, r *row, call call)) (others []int) {
	if len(part) == 1 {
		return part
	}
	call := s.newCall()
	models, names, of := make([]mongo.WriteModel, len(part)), make(bson.A, len(part)), map[string]int{}
	for i, j := range part {
		h := &holds[j]
		models[i] = mongo.NewUpdateOneModel().SetFilter(object("_id", h.Name)).SetUpdate(pipeline(h, call))
		names[i], of[h.Name] = h.Name, j
	}
	// Time has to be left for each by itself.
	ctx, cancel := within(mongo.NewSessionContext(ctx, nil), 3)
	defer cancel()
	if _, err := s.locks.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)); err != nil {
		return part
	}
	done := map[int]bool{}
	for r, err := range s.read(ctx, what, object("_id", object("$in", names))) {
		if j, ok := of[r.name]; ok && err == nil && r.call == call.number {
			did(j, &r.row, call)
			done[j] = true
		}
	}
	for _, j := range part {
		if !done[j] {
			others = append(others, j)
		}
	}
	return others
}

// renew renews one hold.
func (s *Store) renew(ctx context.Context, h *store.Hold) store.Renewal {
	call := s.newCall()
	r, _, err := s.run(ctx, fmt.Sprintf("renew %q", h.Name), h.Name, renewPipeline(h, call), false, call)
	if err != nil {
		return store.Renewal{Err: err, TTL: h.TTL}
	}
	return r.renewal(h, call)
}

// renewal is what the row tells of a renewal.
func (r *row) renewal(h *store.Hold, call call) store.Renewal {
	id := cmp.Or(h.NewID, h.ID)
	e := r.find(id)
	if r.call != call.number || !r.ok || e == nil {
		if e == nil {
			id = h.ID
		}
		return store.Renewal{Err: r.lost(id, call), TTL: h.TTL}
	}
	return store.Renewal{TTL: h.TTL, Weight: int64(e.Weight), Want: int64(e.Want), Fence: e.Fence}
}

// within is a context that ends when the nth part of what is left of ctx is
// over.
func within(ctx context.Context, n time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/n)
	}
	return context.WithCancel(ctx)
}
