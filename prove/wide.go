package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// pause returns the longest time between two claims of a worker. It is longer in a
// wide run, whose many workers would overload the machine.
func (w *worker) pause() time.Duration {
	if w.Run.Wide {
		return w.Run.TTL / 50
	}
	return w.moment(2 * time.Millisecond)
}

// usual returns the longest time that most holds last. It is longer in a wide run,
// where a session that ends too early must meet some holds.
func (w *worker) usual() time.Duration {
	if w.Run.Wide {
		return w.Run.TTL / 4
	}
	return w.moment(3 * time.Millisecond)
}

// last holds a name of its own while the process works, and on until every name should
// have been taken after the last fault. What a store keeps for a process, including
// what it has lost track of, may live as long as anything that the process holds.
func (c *child) last() {
	w := &worker{child: c, rng: rand.New(rand.NewPCG(c.Run.Seed, uint64(c.Proc)<<32|uint64(c.Life)<<8|0xfe))}
	name := Name{fmt.Sprintf("%s/last/%d", c.Run.Names[0].Name, c.Proc), "mutex", store.Full}
	take := func(ctx context.Context) (lease, error) { return c.lockOwn(ctx, name.Name, false) }
	if c.users == nil {
		take = byHoldfast(c.locks.Mutex(name.Name).Lock)
	}
	for !w.finishing() {
		h := w.take("lock", name, name.Limit, waitFor(c.Run.TTL), false, take)
		if h == nil {
			w.sleep(w.pause(), c.finish)
			continue
		}
		select {
		case <-h.Lost():
		case <-c.finish:
			over := time.NewTimer(takenBy(c.Run.TTL) + slack)
			defer over.Stop()
			select {
			case <-h.Lost():
			case <-over.C:
			}
		}
		w.giveBack(h)
	}
}
