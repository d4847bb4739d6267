package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// The pauses between the asks of a try that watches: the first, and the longest. Who lives is seen to within a third of its TTL.
const (
	watchFirst = 100 * time.Millisecond
	watchMost  = 2 * time.Second
)

// watch tries on until the store is sure whether those live that hold the name, which it is after what it said at first: so long it has to watch
// them, as it has no clock but ours. Who comes to hold the name meanwhile is not watched for longer. The lease is nil, and the error too, if the
// name is held.
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
