package engine

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// The pause grows with the number of claims ahead, but never beyond its bound. A bound below zero is no bound.
func TestAPauseIsNeverNegative(t *testing.T) { // rule 5
	if d := times(MaxDuration, 1<<30); d != math.MaxInt64 {
		t.Errorf("the longest duration, a billion times: got %v", d)
	}
	for _, poll := range []time.Duration{time.Millisecond, time.Hour, MaxDuration} {
		for _, ahead := range []int{0, 1, 29, 30, 1 << 20, 1 << 30} {
			now := clock.Instant(1)
			s := &settings{Options: Options{PollMin: poll, PollMax: MaxDuration}, positionTTL: store.MaxPositionTTL}
			p := &pace{e: &engine{now: func() clock.Instant { return now }}, s: s}
			p.moved(&store.Answer{Waiting: ahead + 1})
			if most := p.mostPause(ahead + 1); p.poll < poll || p.poll > most {
				t.Errorf("PollMin %v, %d ahead: got a pause of %v, want %v to %v", poll, ahead+1, p.poll, poll, most)
			}
			now = now.Add(MaxDuration)
			p.moved(&store.Answer{Waiting: ahead})
			if most := p.mostPause(ahead); p.poll < poll || p.poll > most {
				t.Errorf("PollMin %v, one of %d left: got a pause of %v, want %v to %v", poll, ahead+1, p.poll, poll, most)
			}
		}
	}
}

// A waiter behind others pauses for three quarters of the time that they will take, estimated by those served before. Per claim ahead the
// pause grows by a quarter at most, as some may have been slow. It is at least PollMin.
func TestPausesGoByThePaceOfTheQueue(t *testing.T) { // rule 5
	const ms = time.Millisecond
	now := clock.Instant(1)
	s := &settings{Options: Options{PollMin: 10 * ms, PollMax: 800 * ms}, positionTTL: store.MaxPositionTTL}
	p := &pace{e: &engine{now: func() clock.Instant { return now }}, s: s}
	for _, c := range []struct {
		after  time.Duration
		ahead  int
		pauses time.Duration
	}{
		{0, 99, 1000 * ms},
		{500 * ms, 49, 367500 * time.Microsecond}, // of 10 ms each
		{200 * ms, 29, 217500 * time.Microsecond},
		{4 * time.Second, 19, 181250 * time.Microsecond}, // a turn took 400 ms; two thirds of 217.5 ms, and a quarter more
		{40 * ms, 9, 27 * ms},
		{10 * ms, 0, 10 * ms},
	} {
		now = now.Add(c.after)
		p.moved(&store.Answer{Waiting: c.ahead})
		if p.poll != c.pauses {
			t.Errorf("%d ahead %v later: got a pause of %v, want %v", c.ahead, c.after, p.poll, c.pauses)
		}
		if pause := p.pause(); (pause-c.pauses).Abs() > c.pauses*21/100 || c.ahead > 0 && (pause-c.pauses).Abs() > c.pauses*51/1000 {
			t.Errorf("%d ahead: got a pause of %v with jitter, want about %v", c.ahead, pause, c.pauses)
		}
	}
}

// A new waiter assumes that a turn lasts as long as its ask took, within bounds.
func TestTheFirstPauseGoesByTheAsk(t *testing.T) { // rule 5
	const ms = time.Millisecond
	for took, pauses := range map[time.Duration]time.Duration{0: 20 * ms, 3 * ms: 30 * ms, time.Second: 50 * ms} {
		p := &pace{e: &engine{now: func() clock.Instant { return 1 }}, s: &settings{Options: Options{PollMin: 2 * ms, PollMax: 800 * ms}, positionTTL: store.MaxPositionTTL}, took: took}
		if p.moved(&store.Answer{Waiting: 9}); p.poll != pauses {
			t.Errorf("9 ahead, and the ask took %v: got a pause of %v, want %v", took, p.poll, pauses)
		}
	}
}

// The next waiter polls shortly before the holder's turn should end, going by the turn that it has seen, and then often.
func TestTheNextWaiterPollsAsTheTurnEnds(t *testing.T) { // rule 5
	const ms = time.Millisecond
	now := clock.Instant(1)
	p := &pace{e: &engine{now: func() clock.Instant { return now }}, s: &settings{Options: Options{PollMin: 2 * ms, PollMax: 800 * ms}, positionTTL: store.MaxPositionTTL}}
	p.moved(&store.Answer{Waiting: 1})
	p.poll = 200 * ms // after some pauses
	now = now.Add(80 * ms)
	p.moved(&store.Answer{Holders: []store.Entry{{Age: 20 * ms}}})
	for _, want := range []time.Duration{45 * ms, 10 * ms, 12500 * time.Microsecond} { // three quarters of the 60 ms that are left, and an eighth of the turn
		if p.poll != want {
			t.Errorf("got a pause of %v, want %v", p.poll, want)
		}
		p.pause()
	}
	p.ahead, now = 1, now.Add(80*ms)
	if p.moved(&store.Answer{Holders: []store.Entry{{Age: time.Second}}}); p.poll != 2*ms {
		t.Errorf("got a pause of %v behind a holder whose turn should have ended", p.poll)
	}
}
