package prove

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A server's clock that is put forward ends what others hold still: two may
// hold a name then. One that is put back ends nothing.
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
