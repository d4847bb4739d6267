package crew

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Operations that follow each other run on one goroutine.
func TestACrewsGoroutineRunsTheNextOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Crew
		defer c.Stop()
		for i := range 3 {
			ran := false
			c.Run(func() {
				if len(c.idle) > 0 {
					t.Errorf("run %d did not use the waiting goroutine", i)
				}
				ran = true
			})
			synctest.Wait()
			if !ran || len(c.idle) != 1 {
				t.Fatalf("run %d: ran: %v, %d goroutines wait", i, ran, len(c.idle))
			}
		}
	})
}

// No operation waits for another: one that hangs must delay nothing. Only so many goroutines are kept.
func TestACrewRunsAllAtOnceAndKeepsFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Crew
		var mu sync.Mutex
		release, running := make(chan struct{}), 0
		const n = 3 * mostIdle
		for range n {
			c.Run(func() {
				mu.Lock()
				running++
				mu.Unlock()
				<-release
			})
		}
		synctest.Wait()
		if running != n {
			t.Fatalf("%d of %d operations run", running, n)
		}
		close(release)
		synctest.Wait()
		if len(c.idle) != mostIdle {
			t.Fatalf("%d goroutines wait, want %d", len(c.idle), mostIdle)
		}
		c.Stop()
		if len(c.idle) != 0 {
			t.Fatalf("%d goroutines wait after stop, want none", len(c.idle))
		}
	})
}

// What still runs as the crew is stopped ends, and waits for nothing.
func TestAStoppedCrewKeepsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Crew
		release, stopped := make(chan struct{}), make(chan struct{})
		c.Run(func() { <-release })
		go func() { c.Stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Fatal("stop does not wait for the running operations")
		default:
		}
		close(release)
		synctest.Wait()
		select {
		case <-stopped:
		default:
			for _, next := range c.idle {
				close(next)
			}
			t.Fatal("a goroutine waits forever")
		}
	})
}
