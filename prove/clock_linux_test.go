package prove

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A server clock that is set forward expires leases that others still hold: two may hold a name then. A clock that is
// set back expires nothing.
func TestAServerWhoseClockIsSetVoidsOnlyWhatItMust(t *testing.T) {
	testserver.AtNight(t)
	t.Parallel()
	s := testserver.RedisWithClock(t)
	ahead := time.Second
	struckServer(t, "redis://"+s.Addr, map[Fault]func() func(){
		clockStep: func() func() {
			s.SetClock(ahead)
			ahead = -ahead
			return func() { s.SetClock(0) }
		},
	})
}
