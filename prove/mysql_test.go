//go:build linux || darwin

package prove

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A MariaDB that is killed keeps everything that it has answered.
func TestAMariaDBServerThatIsFrozenAndKilledVoidsNothing(t *testing.T) {
	testserver.AtNight(t)
	t.Parallel()
	s := testserver.MariaDB(t)
	struckServer(t, "mysql://root@"+s.Addr+"/locks", map[Fault]func() func(){
		frozen:    func() func() { s.Freeze(); return s.Thaw },
		restarted: func() func() { s.Kill(); return s.Restart },
	})
}
