package clock_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Other modules (prove and the command) call these, and a program may have such a module in a version other than that
// of the root. So no name may be removed, and none may change its type. Otherwise this does not compile.
var (
	_ func() clock.Instant                             = clock.Now
	_ func() clock.Instant                             = clock.Awake
	_ func() time.Duration                             = clock.Boot
	_ *func() time.Duration                            = &clock.Slept
	_ func(clock.Instant, time.Duration) clock.Instant = clock.Instant.Add
	_ func(clock.Instant, clock.Instant) time.Duration = clock.Instant.Sub
)
