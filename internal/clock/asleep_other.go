//go:build !linux && !darwin

package clock

import "time"

// asleep is zero on Windows because Go's monotonic clock already counts sleep there. On other
// systems we do not know: a suspended machine may use a lease for too long, and only the token
// protects the resource.
func asleep() time.Duration { return 0 }
