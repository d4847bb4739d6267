package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// The pause grows with how many are ahead, and goes past no bound by that: one
// that is under zero is none.
func TestRule5_APauseIsNeverNegative(t *testing.T) {
	for _, poll := range []time.Duration{time.Millisecond, time.Hour, MaxDuration} {
		for _, ahead := range []int{0, 1, 29, 30, 1 << 20, 1 << 30} {
			now := clock.Instant(1)
			s := &settings{Options: Options{PollMin: poll, PollMax: MaxDuration}, positionTTL: store.MaxPositionTTL}
			p := &pace{e: &engine{now: func() clock.Instant { return now }}, s: s}
			p.moved(&store.Answer{Waiting: ahead + 1})
			if most := p.mostPause(ahead + 1); p.poll < poll || p.poll > most {
				t.Errorf("PollMin %v, %d ahead: a pause of %v, want %v to %v", poll, ahead+1, p.poll, poll, most)
			}
			now = now.Add(MaxDuration)
			p.moved(&store.Answer{Waiting: ahead})
			if most := p.mostPause(ahead); p.poll < poll || p.poll > most {
				t.Errorf("PollMin %v, one of %d has gone: a pause of %v, want %v to %v", poll, ahead+1, p.poll, poll, most)
			}
		}
	}
}
