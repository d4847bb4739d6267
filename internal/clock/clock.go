// Package clock is the engine's clock. It is monotonic and counts the time during which the
// machine was suspended, which Go's own monotonic clock does not count on every system.
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

// early is more than any clock can be behind start: in a testing/synctest bubble it is the year
// 2000.
const early = Instant(1) << 61 // 73 years

// A reading says how long the machine had slept when the wall clock was ahead of the monotonic
// clock by this much.
type reading struct{ ahead, slept time.Duration }

var last atomic.Pointer[reading]

// stands reports whether the reading is still valid: the wall clock is as far ahead as it was
// then, so the machine cannot have slept since for more than a millisecond.
func (r *reading) stands(ahead time.Duration) bool {
	return r != nil && (ahead-r.ahead).Abs() <= time.Millisecond //mutant:clock-sleeps-that-count
}

// slept asks the kernel only when the answer may have changed, because that takes three system
// calls. A suspend moves the wall clock ahead of the monotonic clock by as long as the machine
// slept. So while their distance stays the same, the last reading is valid. If the wall clock
// is set, or drifts, the kernel is asked again.
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

// Slept returns how long this machine has been suspended since it was booted, as far as Go's
// monotonic clock does not count it. It is a variable so that tests can suspend the machine.
var Slept = slept

// Now returns the current Instant.
func Now() Instant { return Awake() + Instant(Slept()) }

// Awake returns the current Instant without the time suspended. It is cheaper, and correct for
// what does not outlive the process.
func Awake() Instant { return early + Instant(time.Since(start)) } //mutant:clock-negative-bubble

// Add returns i plus d, or the last or first Instant if the sum is out of range.
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

// Sub returns the duration from u to i, or the longest duration if it is out of range.
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
