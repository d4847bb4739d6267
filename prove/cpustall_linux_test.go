package prove

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// logStalls logs, until over is closed, each time that the timers of one processor were late by more than a quarter of
// a second. The host of a virtual machine may stop one processor and leave the other running. A kernel timer fires on
// the processor on which it was set, so such a stall delays it while commands on the other processor go on.
func logStalls(t *testing.T, zero time.Duration, over <-chan struct{}) (wait func()) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Log(err)
		return func() {}
	}
	var all sync.WaitGroup
	for cpu := range 64 {
		if !set.IsSet(cpu) {
			continue
		}
		all.Go(func() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Log(err)
				return
			}
			const step = 20 * time.Millisecond
			for {
				select {
				case <-over:
					return
				default:
				}
				due := clock.Boot() + step
				pause := unix.NsecToTimespec(int64(step))
				unix.Nanosleep(&pause, nil)
				if late := clock.Boot() - due; late > 250*time.Millisecond {
					t.Logf("CPU %d: a timer due at %v was %v late", cpu, due-zero, late)
				}
			}
		})
	}
	return all.Wait
}
