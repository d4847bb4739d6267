//go:build linux || darwin

package clock

import "time"

// Boot is the time since this host was booted, suspends included: the same for
// all its processes, so what each of them notes can be put in order.
func Boot() time.Duration { return read(sinceBoot) }
