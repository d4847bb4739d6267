// Package clock is the engine's clock: monotonic, and counting the time that
// the machine was suspended, which Go's own monotonic clock does not count
// everywhere.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// An Instant is a moment on this process's clock, in nanoseconds from an
// arbitrary start. Only differences mean anything. The zero Instant is before
// every other.
type Instant int64

var start = time.Now()

// early is further back than any clock that we meet: in a testing/synctest
// bubble it is the year 2000.
const early = Instant(1) << 61 // 73 years

// A reading is how long the machine had slept when the wall clock was so far
// ahead of the monotonic one.
type reading struct{ ahead, slept time.Duration }

var last atomic.Pointer[reading]

// stands reports whether the machine cannot have slept since the reading, for longer than a
// millisecond, with the wall clock so far ahead now.
func (r *reading) stands(ahead time.Duration) bool {
	return r != nil && (ahead-r.ahead).Abs() <= time.Millisecond //mutant:clock-sleeps-that-count
}

// slept asks the kernel only when it may have something new to say, as that
// takes three system calls. A suspend puts the wall clock forward against the
// monotonic one, by as much as the machine has slept; so as long as the two
// keep their distance the last reading is still good. If the wall clock is set,
// or drifts, the kernel is asked once more.
func slept() time.Duration {
	now := time.Now()
	ahead := time.Duration(now.UnixNano()) - now.Sub(start)
	r := last.Load()
	if !r.stands(ahead) {
		r = &reading{ahead, asleep()}
		last.Store(r)
	}
	return r.slept
}

// Slept is how long this machine has been suspended since it was booted, as
// far as Go's monotonic clock does not count it. It is a variable so that tests
// can suspend the machine.
var Slept = slept

// Now is the present Instant.
func Now() Instant { return Awake() + Instant(Slept()) }

// Awake is the present Instant without the time suspended: cheaper, and right
// for what lives and dies within the process.
func Awake() Instant { return early + Instant(time.Since(start)) } //mutant:clock-negative-bubble

// Add returns i moved by d, or the last or first Instant if that is beyond it.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	switch {
	case d > 0 && sum < i: //mutant:add-past-last
		return math.MaxInt64
	case d < 0 && sum > i: //mutant:add-past-first
		return math.MinInt64
	}
	return sum
}

// Sub returns the duration from u to i, or the longest there is.
func (i Instant) Sub(u Instant) time.Duration {
	d := i - u
	switch {
	case i > u && d < 0: //mutant:sub-past-longest
		return math.MaxInt64
	case i < u && d > 0: //mutant:sub-past-least
		return math.MinInt64
	}
	return time.Duration(d)
}
