// Package crew runs functions on reused goroutines.
package crew

import "sync"

// A Crew runs functions off the goroutines of their callers. A goroutine that has finished one function waits for the
// next: the stack of a new goroutine would have to grow each time, which costs more than the switch. The zero Crew is
// ready to use. Its methods are safe for concurrent use.
type Crew struct {
	mu      sync.Mutex
	idle    []chan func() // one for each waiting goroutine, the newest last; each has a buffer for one function
	stopped bool
	all     sync.WaitGroup
}

// mostIdle is the maximum number of goroutines of a crew that wait for work.
const mostIdle = 16

// Run starts f on a goroutine of the crew. It does not wait for other functions.
func (c *Crew) Run(f func()) {
	c.mu.Lock()
	var waits chan func()
	if last := len(c.idle) - 1; last >= 0 { //mutant:crew-waiting-is-used
		waits, c.idle = c.idle[last], c.idle[:last]
	}
	c.mu.Unlock()
	if waits != nil {
		waits <- f
		return
	}
	c.all.Go(func() { c.serve(f) })
}

// serve runs f, and then the functions that follow.
func (c *Crew) serve(f func()) {
	for next := make(chan func(), 1); f != nil; f = <-next {
		f()
		if !c.waits(next) {
			return
		}
	}
}

// waits reports whether an idle goroutine should wait for the next function.
func (c *Crew) waits(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || len(c.idle) >= mostIdle { //mutant:crew-waits
		return false
	}
	c.idle = append(c.idle, next)
	return true
}

// Stop waits for the running functions, and ends the goroutines. Run must not be called during or after Stop.
func (c *Crew) Stop() {
	c.mu.Lock()
	c.stopped = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
	c.mu.Unlock()
	c.all.Wait()
}
