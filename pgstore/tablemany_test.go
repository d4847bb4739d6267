package pgstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The full statement works on all entries of a name. To renew a thousand holds of one name by it, one by one, took longer than a TTL.
func TestHoldsOfOneNameAreRenewedByTheShortStatement(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	var holds []store.Hold
	for range 30 {
		c := mutex("n")
		c.Weight = 1
		holds = append(holds, mustHold(t, s, c))
	}
	var short, full atomic.Int32
	meddle(s, func(statement string, _ []any) error {
		switch statement {
		case s.do.renewFast:
			short.Add(1)
		case s.do.renew:
			full.Add(1)
		}
		return nil
	})
	for i := range holds {
		holds[i].TTL = time.Duration(i+1) * time.Hour
		if i == 20 {
			holds[i].Token++ // it is lost, and those behind it are not
		}
	}
	for i, r := range s.Renew(t.Context(), holds) {
		if lost := r.Err != nil; lost != (i == 20) {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
	// From the lost one on, each takes the full statement, so that they are done in order.
	if short.Load() != 21 || full.Load() != 10 {
		t.Errorf("got %d short statements and %d full ones, want 21 and 10", short.Load(), full.Load())
	}
}
