//go:build !linux && !darwin

package clock

import "time"

// Boot is the wall clock: here there is no better one that all processes of
// this host share.
func Boot() time.Duration { return time.Duration(time.Now().UnixNano()) }
