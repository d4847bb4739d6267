package prove

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest/contain"
)

// A command is an order of the parent to a child, as a line of JSON. The first
// has the job. It carries the URL, which no other process may see.
type command struct {
	Job *job `json:"job,omitempty"`
	// Try is a boot id, sent instead of a job. The child only tries to enter a
	// container with it.
	Try    string `json:"try,omitempty"`
	Op     int    `json:"op,omitempty"` // the claim whose use of the registers this answers
	Value  int64  `json:"value,omitempty"`
	Finish bool   `json:"finish,omitempty"` // make no more claims
	// Probe has the names to take once more, after the last fault.
	Probe []string `json:"probe,omitempty"`
	// Dialled is an address that the child wants to dial, as reported by it, and
	// Via the address of the child's proxy for it.
	Dialled string `json:"dialled,omitempty"`
	Via     string `json:"via,omitempty"`
}

// A job is all that a child is given.
type job struct {
	URL   string        `json:"url"`
	Proc  int           `json:"proc"`
	Life  int           `json:"life"`
	Start time.Duration `json:"start"` // start of the run, on the boot clock
	Run   Run           `json:"run"`
	Boot  string        `json:"boot,omitempty"` // boot id of the container that the child was started in
}

// A child is one process that uses the locks, or a group of goroutines that stands
// for one.
type child struct {
	job
	inside   bool       // it is a group of goroutines in its parent
	out      sync.Mutex // guards w: one line at a time
	w        io.Writer
	locks    *holdfast.Locker // nil: the lock is the user's own
	users    *Locks           // the user's own locks, or nil
	ids      atomic.Int64     // the last id given to a lease of users
	lines    *lineWorker      // the worker by lines, or nil
	seen     *recorder
	routes   routes
	ops      atomic.Int64
	begun    chan struct{} // closed when the locks are open
	finish   chan struct{} // closed when no more claims are to be made
	begins   sync.Once     // closes finish
	gone     chan struct{} // closed when its events are no longer read
	mu       sync.Mutex
	answers  map[int]chan command // to uses of the registers, by claim
	watchers sync.WaitGroup
}

// Child runs the work of one process: it reads the parent's orders from in, and
// writes events to w. It returns when it has finished as ordered, or when in ends,
// which means that the parent has died.
func Child(in io.Reader, w io.Writer) error {
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 1<<20)
	c, err := readJob(orders, w)
	if err != nil || c == nil {
		return err
	}
	way, ok := ways[schemeOf(c.URL)]
	if !ok {
		return fmt.Errorf("%w: prove cannot open this store", store.ErrInvalid)
	}
	return c.run(func() error {
		s, err := way.open(c.URL, c.dial)
		if err != nil {
			return err
		}
		return c.on(s)
	}, orders)
}

// readJob reads the first order, and enters the container that the child was
// started in. If it returns neither a child nor an error, the order was a Try, and
// there is nothing more to do.
func readJob(orders *bufio.Scanner, w io.Writer) (*child, error) {
	var first command
	if !orders.Scan() || json.Unmarshal(orders.Bytes(), &first) != nil || first.Job == nil && first.Try == "" {
		return nil, fmt.Errorf("%w: prove starts this command itself; do not start it by hand", store.ErrInvalid)
	}
	if first.Try != "" {
		return nil, contain.Enter(first.Try)
	}
	if first.Job.Boot != "" {
		if err := contain.Enter(first.Job.Boot); err != nil {
			return nil, err
		}
	}
	return &child{
		job: *first.Job, w: w, begun: make(chan struct{}), finish: make(chan struct{}), gone: make(chan struct{}), answers: map[int]chan command{}, routes: routes{all: map[string]*route{}},
	}, nil
}

// run opens the locks and uses them until it is ordered to finish, or the orders end.
func (c *child) run(open func() error, orders *bufio.Scanner) error {
	defer close(c.gone)
	var work sync.WaitGroup
	read := make(chan struct{})
	go func() {
		defer close(read)
		for orders.Scan() {
			var o command
			if json.Unmarshal(orders.Bytes(), &o) != nil {
				continue
			}
			c.obey(&o, &work)
		}
	}()
	born := peers()
	if err := open(); err != nil {
		c.send(Event{Do: failed, Text: err.Error()})
		return err
	}
	close(c.begun)
	c.send(Event{Do: started})
	stop := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { measure(c.now, stop, c.send) })
	if !c.inside {
		beside.Go(func() { c.patrol(born, stop) })
	}
	for i := range c.Run.workers() {
		rng := rand.New(rand.NewPCG(c.Run.Seed, uint64(c.Proc)<<32|uint64(c.Life)<<8|uint64(i)))
		names := c.Run.namesOf(c.Proc, i)
		w := &worker{child: c, rng: rng, names: names}
		if c.lines != nil {
			work.Go(w.workByLines)
		} else {
			work.Go(w.work)
		}
	}
	if c.Run.Wide {
		work.Go(c.last)
	}
	ended := make(chan struct{})
	go func() {
		<-c.finish
		work.Wait()
		c.watchers.Wait()
		c.close()
		close(stop)
		beside.Wait()
		c.send(Event{Do: finished})
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-read:
		return fmt.Errorf("%w: the parent of this process has ended", store.ErrUnavailable)
	}
}

// on opens a locker on the store.
func (c *child) on(s store.Store) (err error) {
	c.seen = newRecorder(s, c.job.Run.PositionTTL, c.now, c.send)
	c.locks, err = holdfast.New(c.seen.store(), &holdfast.Options{
		TTL: c.Run.lease(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.Close()
	}
	return err
}

func (c *child) close() {
	switch {
	case c.lines != nil:
		c.lines.end()
	case c.users == nil:
		c.locks.Close()
	case c.users.Close != nil:
		c.users.Close()
	}
}

// obey carries out an order of the parent.
func (c *child) obey(o *command, work *sync.WaitGroup) {
	if o.Op > 0 {
		c.mu.Lock()
		answer := c.answers[o.Op]
		c.mu.Unlock()
		if answer != nil {
			answer <- *o
		}
	}
	if o.Dialled != "" {
		c.know(o.Dialled, o.Via)
	}
	for _, name := range o.Probe {
		work.Go(func() {
			select {
			case <-c.begun:
				(&worker{child: c}).probe(name)
			case <-c.gone:
			}
		})
	}
	if o.Finish {
		c.begins.Do(func() { close(c.finish) })
	}
}

// now is the time since the start of the run, which is the same for all
// processes of this host.
func (c *child) now() time.Duration { return clock.Boot() - c.Start }

// send sends an event. An event without a time happened now. When send returns,
// the event has left this process. A delay by the parent is reported as a stall:
// it is not the lock's fault.
func (c *child) send(e Event) {
	began := c.now()
	if e.At == 0 {
		e.At = began
	}
	c.out.Lock()
	defer c.out.Unlock()
	c.write(&e)
	if now := c.now(); now-began >= leastStall { //mutant:judge-parent-slow-stall
		c.write(&Event{Do: stall, At: now, By: now - began})
	}
}

// write writes a line. The caller holds c.out.
func (c *child) write(e *Event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	c.w.Write(append(line, '\n')) // no error check: if the parent is dead, its orders end
}

// leastStall is the shortest reported stall.
const leastStall = 10 * time.Millisecond

// use uses the registers: it reads, or writes a value, under the claim's token.
// whole says that the claim holds the whole name.
func (c *child) use(op int, name string, token, value int64, whole, write bool) (command, bool) {
	answer := make(chan command, 1)
	c.mu.Lock()
	c.answers[op] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.answers, op)
	}()
	c.send(Event{Do: use, Op: op, Name: name, Token: token, Weight: int64(count(whole)), Write: write, Value: value})
	select {
	case a := <-answer:
		return a, true
	case <-c.gone:
		return command{}, false
	case <-time.After(10 * time.Second):
		return command{}, false // the parent is about to end this process
	}
}

// measure reports how late timers were: delays that are not the lock's fault. A
// call or the report of a loss may be late by as much. The parent carries all
// traffic of the links, so its stalls count for all processes.
func measure(now func() time.Duration, stop <-chan struct{}, tell func(Event)) {
	const every = 5 * time.Millisecond
	for due := now() + every; ; due = now() + every {
		select {
		case <-stop:
			return
		case <-time.After(due - now()):
		}
		if at := now(); at-due >= leastStall {
			tell(Event{Do: stall, At: at, By: at - due})
		}
	}
}
