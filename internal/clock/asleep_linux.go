package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

func asleep() time.Duration { return between(unix.CLOCK_MONOTONIC, unix.CLOCK_BOOTTIME) }
