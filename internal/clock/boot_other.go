//go:build !linux && !darwin

package clock

import "time"

// Boot returns the wall clock: this system has no better clock that all processes of the host
// share.
func Boot() time.Duration { return time.Duration(time.Now().UnixNano()) }
