package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An operation ends at its own bound and not sooner, whatever operations begin or
// end meanwhile.
func TestBoundsEndEachOperationAtItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bounds
		defer b.stop()
		start := time.Now()
		quick := b.begin(nil, time.Second, false) // arms the timer, and ends before it fires
		ends := map[time.Duration]*bound{}
		for _, d := range []time.Duration{5 * time.Second, 3 * time.Second, 9 * time.Second, 500 * time.Millisecond} {
			ends[d] = b.begin(nil, d, false)
		}
		quick.end()
		if !errors.Is(quick.Err(), context.Canceled) {
			t.Errorf("after its end: got %v, want context.Canceled", quick.Err())
		}
		<-quick.Done()
		for _, d := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 5 * time.Second, 9 * time.Second} {
			c := ends[d]
			if c.Err() != nil {
				t.Errorf("a bound of %v ended before %v", d, time.Since(start))
			}
			<-c.Done()
			if took := time.Since(start); took != d {
				t.Errorf("a bound of %v ended after %v", d, took)
			}
			if !errors.Is(c.Err(), context.DeadlineExceeded) {
				t.Errorf("a bound in the past: got %v, want context.DeadlineExceeded", c.Err())
			}
			c.end()
		}
		if len(b.open) != 0 {
			t.Errorf("%d operations are kept, want none", len(b.open))
		}
	})
}
