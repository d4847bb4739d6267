package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

func slept() time.Duration { return between(unix.CLOCK_MONOTONIC, unix.CLOCK_BOOTTIME) }
