//go:build linux || darwin

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// between returns how far the clock awake is behind the clock always. They cannot be read at
// the same instant. A reading that took long is repeated, so the result is off by at most a few
// microseconds, and never too small by more.
func between(awake, always int32) time.Duration {
	best, width := time.Duration(0), time.Duration(-1)
	for range 4 {
		a, m, b := read(awake), read(always), read(awake)
		if w := b - a; width < 0 || w < width {
			best, width = m-a, w
		}
		if width < 20*time.Microsecond {
			break
		}
	}
	return best
}

func read(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("holdfast: this kernel has no usable clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
