package filestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// clockTick is the unit of the clock.
const clockTick = time.Microsecond

// openClock returns the id of this boot, and the clock since boot that all processes
// of this host share. The clock includes time suspended and cannot be set.
func openClock() (boot string, clock func() time.Duration, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", nil, fmt.Errorf("%w: the boot id of this host cannot be read, so holds from before a reboot cannot be recognized: %w", store.ErrUnsupported, err)
	}
	offset, err := timeNamespace()
	if err != nil {
		return "", nil, err
	}
	return strings.TrimSpace(string(id)), func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic("holdfast: this kernel has no boot clock: " + err.Error()) // Linux has had one since 2011
		}
		return time.Duration(ts.Nano()) - offset
	}, nil
}

// timeNamespace returns how far the boot clock of this process's time namespace is
// ahead of the host's. The kernel shows only the offset for children.
func timeNamespace() (time.Duration, error) {
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // a kernel without time namespaces
	}
	if err != nil {
		return 0, fmt.Errorf("%w: the offsets of the time namespace cannot be read: %w", store.ErrUnsupported, err)
	}
	ours, err1 := os.Readlink("/proc/self/ns/time")
	children, err2 := os.Readlink("/proc/self/ns/time_for_children")
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("%w: the time namespace cannot be read: %w", store.ErrUnsupported, err)
	}
	if ours != children {
		return 0, fmt.Errorf("%w: this process is in another time namespace than its children will be, so the host's clock cannot be read: start it again inside the namespace", store.ErrUnsupported)
	}
	return bootOffset(b)
}

// bootOffset parses the line of the boot clock: name, seconds, nanoseconds.
func bootOffset(b []byte) (time.Duration, error) {
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		var clock string
		var sec, nsec int64
		if n, _ := fmt.Sscan(sc.Text(), &clock, &sec, &nsec); n == 3 && (clock == "boottime" || clock == "7") {
			return time.Duration(sec)*time.Second + time.Duration(nsec), nil
		}
	}
	return 0, fmt.Errorf("%w: the offsets of the time namespace are in no known form: %q", store.ErrUnsupported, b)
}
