package filestore

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// clockTick is the unit of the clock.
const clockTick = time.Microsecond

// openClock returns the id of this boot, and the clock since boot that all processes
// of this host share. The clock includes time suspended and cannot be set.
func openClock() (boot string, clock func() time.Duration, err error) {
	boot, err = unix.Sysctl("kern.bootsessionuuid")
	if err != nil || boot == "" {
		return "", nil, fmt.Errorf("%w: kern.bootsessionuuid cannot be read, so holds from before a reboot cannot be recognized: %v", store.ErrUnsupported, err)
	}
	return boot, func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic("holdfast: this kernel has no monotonic clock: " + err.Error())
		}
		return time.Duration(ts.Nano())
	}, nil
}
