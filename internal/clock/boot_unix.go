//go:build linux || darwin

package clock

import "time"

// Boot returns the time since this host was booted, including suspends. All processes of the
// host read the same clock, so their timestamps can be ordered.
func Boot() time.Duration { return read(sinceBoot) }
