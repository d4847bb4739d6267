package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// The pauses between the asks of a try that watches: the first and the longest. A live holder shows that it is alive
// within a third of its TTL.
const (
	watchFirst = 100 * time.Millisecond
	watchMost  = 2 * time.Second
)

// watch repeats a try until the store knows whether the holders of the name are alive. A store without a clock must watch
// them, for as long as its first answer says (store.Answer.Unsure). If the name is granted to another claim meanwhile,
// watch does not take longer. The lease and the error are nil if the name is held.
func (r *request) watch(ctx context.Context) (l *Lease, err error) {
	ends, pause := clock.Instant(0), watchFirst
	for last := false; r.refused.answer.Unsure > 0 && !last; { //mutant:try-that-is-not-sure
		now := r.e.now()
		sure := now.Add(r.refused.answer.Unsure)
		if ends == 0 {
			ends = sure
		}
		next := min(now.Add(pause), sure, max(ends, now.Add(watchFirst)))
		if _, err := r.sleep(ctx, next); err != nil {
			return nil, r.gaveUp(err)
		}
		last = r.e.now() >= ends //mutant:try-watches-without-end
		if l, err = r.ask(ctx); l != nil || err != nil {
			return l, err
		}
		pause = min(pause*3/2, watchMost)
	}
	return nil, nil
}
