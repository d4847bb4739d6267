package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

const sinceBoot = unix.CLOCK_BOOTTIME

func asleep() time.Duration { return between(unix.CLOCK_MONOTONIC, sinceBoot) }
