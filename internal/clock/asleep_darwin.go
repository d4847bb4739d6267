package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot: on macOS it is CLOCK_MONOTONIC that counts sleep, and CLOCK_UPTIME_RAW, which
// Go's clock is made from, that does not.
const sinceBoot = unix.CLOCK_MONOTONIC

func asleep() time.Duration { return between(unix.CLOCK_UPTIME_RAW, sinceBoot) }
