package clock

import (
	"math"
	"testing"
	"time"
)

const (
	firstInstant = Instant(math.MinInt64)
	lastInstant  = Instant(math.MaxInt64)
)

func TestInstants_AddStopsAtTheEnds(t *testing.T) {
	for _, c := range []struct {
		at   Instant
		d    time.Duration
		want Instant
	}{
		{5, 3, 8},
		{5, -8, -3},
		{0, math.MaxInt64, lastInstant},
		{0, math.MinInt64, firstInstant},
		{1, math.MaxInt64, lastInstant},
		{lastInstant - 2, 2, lastInstant},
		{lastInstant - 2, 3, lastInstant},
		{lastInstant, math.MaxInt64, lastInstant},
		{lastInstant, math.MinInt64, -1},
		{-1, math.MinInt64, firstInstant},
		{firstInstant + 2, -2, firstInstant},
		{firstInstant + 2, -3, firstInstant},
		{firstInstant, math.MinInt64, firstInstant},
		{firstInstant, math.MaxInt64, -1},
	} {
		if got := c.at.Add(c.d); got != c.want {
			t.Errorf("%d plus %d: got %d, want %d", c.at, c.d, got, c.want)
		}
	}
}

func TestInstants_SubStopsAtTheLongest(t *testing.T) {
	for _, c := range []struct {
		at, from Instant
		want     time.Duration
	}{
		{8, 5, 3},
		{-3, 5, -8},
		{lastInstant, 0, math.MaxInt64},
		{lastInstant, -1, math.MaxInt64},
		{lastInstant, firstInstant, math.MaxInt64},
		{0, firstInstant, math.MaxInt64},
		{-1, firstInstant, math.MaxInt64},
		{firstInstant, 0, math.MinInt64},
		{firstInstant, 1, math.MinInt64},
		{firstInstant, lastInstant, math.MinInt64},
		{-2, lastInstant, math.MinInt64},
		{-1, lastInstant, math.MinInt64},
		{lastInstant, lastInstant, 0},
		{firstInstant, firstInstant, 0},
	} {
		if got := c.at.Sub(c.from); got != c.want {
			t.Errorf("from %d to %d: got %d, want %d", c.from, c.at, got, c.want)
		}
	}
}

// The kernel is asked after each suspend, however short, and after each step of the wall clock, but not otherwise.
func TestTheKernelIsAskedAfterEachSuspend(t *testing.T) {
	if (*reading)(nil).stands(0) {
		t.Error("a reading that was never made is valid")
	}
	r := &reading{ahead: time.Hour}
	for moved, want := range map[time.Duration]bool{
		0: true, 100 * time.Microsecond: true, -100 * time.Microsecond: true,
		2 * time.Millisecond: false, 50 * time.Millisecond: false, 59 * time.Second: false, 24 * time.Hour: false, -2 * time.Millisecond: false, -time.Hour: false,
	} {
		if got := r.stands(time.Hour + moved); got != want {
			t.Errorf("the wall clock moved by %v: the reading is valid: %v, want %v", moved, got, want)
		}
	}
}
