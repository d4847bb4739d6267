package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// On macOS it is CLOCK_MONOTONIC that counts sleep, and CLOCK_UPTIME_RAW, which
// Go's clock is made from, that does not.
func asleep() time.Duration { return between(unix.CLOCK_UPTIME_RAW, unix.CLOCK_MONOTONIC) }
