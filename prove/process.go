package prove

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A process is one of the processes that use the locks. It has several lives, one
// after the other.
type process struct {
	r *run
	n int // from 1

	works    chan struct{} // closed when its first life has begun its work
	mu       sync.Mutex
	links    []link
	proxies  map[string]string // the address of its own proxy for each address that it has dialed
	busy     bool              // a fault of the process is on
	linkBusy bool              // a fault of its links is on
	onLinks  *stroke           // that fault, if it strikes all links
	life     int               // how many lives have begun
	killed   int               // lives numbered below this were killed, or came before one that was
	cmd      *exec.Cmd         // nil: it is a group of goroutines
	in       io.WriteCloser
	gone     chan struct{} // closed when the life has ended and all its events have been read
	ended    bool          // the end of this life is expected
}

// A link is the connection between a process and the store. It is good until a
// fault strikes it, and again after mend. mend returns how much the fault met.
type link interface {
	strike(f Fault, delay time.Duration)
	mend() int
	close()
}

// begin starts the next life. The caller holds no lock.
func (p *process) begin() error {
	var cmd *exec.Cmd
	var in io.WriteCloser
	var out io.Reader
	var wait func() error
	var boot string
	switch {
	case p.r.way.groups:
		s := p.links[0].(*callLink)
		g := startGroup(func(c *child) error { return c.on(s) })
		in, out, wait = g.in, g.out, func() error { return <-g.err }
	case p.r.run.Lines:
		stderr := &tail{}
		var g *group
		var err error
		if cmd, g, err = p.startLines(stderr); err != nil {
			return err
		}
		in, out = g.in, g.out
		wait = func() error { return waitLines(cmd, g, stderr) }
	default:
		cmd = p.r.o.Command()
		cmd.SysProcAttr = childAttr()
		p.offset(cmd)
		boot = p.contain(cmd)
		stderr := &tail{}
		cmd.Stderr = stderr
		var err error
		if in, err = cmd.StdinPipe(); err != nil {
			return err
		}
		if out, err = cmd.StdoutPipe(); err != nil {
			return err
		}
		if err := p.r.start(cmd); err != nil {
			return err
		}
		wait = func() error {
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("%w %s", err, stderr.String())
			}
			return nil
		}
	}
	p.mu.Lock()
	p.cmd, p.in, p.gone, p.ended = cmd, in, make(chan struct{}), false
	life, gone := p.life, p.gone
	p.life++
	p.mu.Unlock()
	go func() {
		defer close(gone)
		p.read(out, life)
		err := wait()
		p.mu.Lock()
		ordered := p.ended
		p.mu.Unlock()
		if !ordered {
			p.r.add(Event{Do: failed, Proc: p.n, Life: life, Text: fmt.Sprintf("process %d ended by itself: %v", p.n, err)})
		}
	}()
	p.send(&command{Job: &job{URL: p.r.o.URL, Proc: p.n, Life: life, Start: p.r.zero, Run: p.r.run, Boot: boot}})
	return nil
}

// offsetVar is the environment variable with the offset of the wall clock of a
// test's process, in whole seconds.
const offsetVar = "HOLDFAST_TEST_CLOCK"

// offset gives the life that is about to begin a wrong wall clock, in tests.
func (p *process) offset(cmd *exec.Cmd) {
	most := int64(p.r.o.Offset / time.Second)
	if most == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(p.r.o.Seed, uint64(p.n)<<32|uint64(p.life)<<8|0xff))
	ahead := rng.Int64N(2*most+1) - most
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", offsetVar, ahead))
	p.r.add(Event{Do: struck, Proc: p.n, Life: p.life, Fault: offset, Text: fmt.Sprintf("%+ds", ahead)})
	p.r.add(Event{Do: mended, Proc: p.n, Life: p.life, Fault: offset, Hits: 1})
}

// send sends the process an order. A dead process does not receive it.
func (p *process) send(c *command) {
	line, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	in := p.in
	p.mu.Unlock()
	in.Write(append(line, '\n'))
}

// read reads the events of the process until it has died. It ignores a line that
// the death cut off.
func (p *process) read(out io.Reader, life int) {
	lines := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			p.r.add(Event{Do: failed, Proc: p.n, Life: life, Text: fmt.Sprintf("process %d wrote %q", p.n, bytes.TrimSpace(line))})
			return
		}
		e.Proc, e.Life = p.n, life
		if p.isDead(life) {
			continue
		}
		switch {
		case e.Do == started && life == 0:
			close(p.works)
		case e.Do == finished:
			p.expectEnd()
		}
		if e.Do == dialled {
			via, err := p.via(e.Text)
			if err != nil {
				p.r.add(Event{Do: failed, Proc: p.n, Life: life, Text: err.Error()})
				return
			}
			p.send(&command{Dialled: e.Text, Via: via})
		}
		if e.Do != use {
			p.r.add(e)
			continue
		}
		value := p.r.registers.use(&e, p.r.now)
		p.r.add(e)
		p.send(&command{Op: e.Op, Value: value})
	}
}

// expectEnd records that the end of this life is expected.
func (p *process) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// kill kills the process. It records the death before: a process that may be dead
// holds nothing.
func (p *process) kill() {
	p.expectEnd()
	p.mu.Lock()
	cmd, gone, life := p.cmd, p.gone, p.life-1
	p.killed = p.life
	p.mu.Unlock()
	p.r.add(Event{Do: died, Proc: p.n, Life: life})
	if cmd != nil {
		p.signal(func() error { return endAll(cmd.Process) })
	}
	if cmd == nil || p.r.run.Lines {
		p.in.Close() // goroutines cannot be killed: they end when their orders do
	}
	<-gone
}

// isDead reports whether that life of a worker by lines was killed. Its group then
// reports that the worker does not answer, which must be ignored.
func (p *process) isDead(life int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.r.run.Lines && p.killed > life
}

// end orders the process to end, and reports whether it has ended within patience.
func (p *process) end(probes []string, patience time.Duration) bool {
	p.send(&command{Finish: true, Probe: probes})
	p.mu.Lock()
	gone := p.gone
	p.mu.Unlock()
	select {
	case <-gone:
		return true
	case <-time.After(patience):
		return false
	}
}

// signal calls f, which signals the process. It is not an error if the process has ended.
func (p *process) signal(f func() error) error {
	if err := f(); err != nil && !strings.Contains(err.Error(), "finished") {
		return err
	}
	return nil
}

// tail keeps the end of what a child writes to its stderr.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-2000):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}

// registers are what the locks guard, one for each name. No fault touches them.
type registers struct {
	mu sync.Mutex
	m  map[string]*register
}

// A register stands for two: a number that any process can write, and a number
// guarded by a fence. The fence is the largest token of the holds of the whole name
// that have used the register.
type register struct {
	value, fence int64
	right        int         // how many writes the fence has let through
	read         map[key]int // the value of right when a hold of the whole name last read
}

// use does what the event asks for, records the outcome in it, and returns the
// number. The event happens now. A write does harm if the fence refuses it, or if
// the claim has not read the last write that the fence let through.
func (r *registers) use(e *Event, now func() time.Duration) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.m[e.Name]
	if x == nil {
		x = &register{read: map[key]int{}}
		r.m[e.Name] = x
	}
	e.At = now()
	e.Refused = e.Token < x.fence
	whole := e.Weight > 0
	if whole {
		x.fence = max(x.fence, e.Token)
	}
	if !e.Write {
		if whole {
			x.read[e.key()] = x.right
		}
		e.Value = x.value
		return x.value
	}
	e.Harm = e.Refused || x.read[e.key()] != x.right
	delete(x.read, e.key())
	x.right += count(!e.Refused)
	x.value = e.Value
	return x.value
}
