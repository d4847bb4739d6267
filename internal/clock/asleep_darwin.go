package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the clock that counts sleep: on macOS that is CLOCK_MONOTONIC. Go's clock uses
// CLOCK_UPTIME_RAW, which does not count it.
const sinceBoot = unix.CLOCK_MONOTONIC

func asleep() time.Duration { return between(unix.CLOCK_UPTIME_RAW, sinceBoot) }
