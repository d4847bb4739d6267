package prove

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A run is a proof in progress.
type run struct {
	o     *Options
	run   Run
	zero  time.Duration // its start on the boot clock
	way   way
	store store.Store // over connections that no fault touches
	own   *holdfast.Locker

	uncontained error // why the container fault was dropped; nil: it was not

	registers registers
	processes []*process
	starts    chan func()
	over      chan struct{}  // closed when no more events are recorded
	beside    sync.WaitGroup // goroutines that run until over is closed

	mu     sync.Mutex
	events []Event
	holds  map[int]int // how many claims each process holds now
	lateBy time.Duration
	file   *os.File
	out    *json.Encoder
	err    error // of writes to the file
}

// Prove runs the processes and the faults and judges the history. A broken promise is not
// an error: it is in the Verdict. An error without a Report means that there was no run; it
// matches [store.ErrInvalid] if the options are wrong. An error with a Report means that
// the history or a report could not be written to Options.Out.
func Prove(ctx context.Context, o *Options) (*Report, error) {
	filled := *o // prepare fills in the defaults
	o = &filled
	r := &run{o: o, zero: clock.Boot(), registers: registers{m: map[string]*register{}}, holds: map[int]int{}}
	r.starter()
	defer close(r.starts)
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.close()
	if o.Out != "" {
		if err := r.record(); err != nil {
			return nil, err
		}
	}
	r.over = make(chan struct{})
	r.beside.Go(func() { measure(r.now, r.over, r.add) })
	if err := r.begin(); err != nil {
		r.endAll()
		return nil, err
	}
	r.gather(ctx)
	if o.Progress != nil {
		began := r.now()
		r.beside.Go(func() { r.progress(began, r.over) })
	}
	if !r.broken() {
		r.strikeAll(ctx)
	}
	r.finish(ctx)
	r.endAll()
	return r.report()
}

func (r *run) now() time.Duration { return clock.Boot() - r.zero }

// add records an event. An event without a time happened now.
func (r *run) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.At == 0 {
		e.At = r.now()
	}
	e.Text = withoutPassword(e.Text, r.o.URL)
	r.events = append(r.events, e)
	switch e.Do {
	case got:
		r.holds[e.Proc]++
	case release:
		r.holds[e.Proc]--
	case started:
		r.holds[e.Proc] = 0
	}
	if r.out != nil {
		r.err = errors.Join(r.err, r.out.Encode(&e))
	}
}

// withoutPassword replaces the URL's password in the text: errors of drivers, and of a
// user's worker, can contain it.
func withoutPassword(text, rawURL string) string {
	if _, rest, ok := strings.Cut(rawURL, "://"); ok {
		rawURL = rest
	}
	if i := strings.IndexAny(rawURL, "/?#"); i >= 0 {
		rawURL = rawURL[:i]
	}
	i := strings.LastIndex(rawURL, "@")
	_, password, _ := strings.Cut(rawURL[:max(i, 0)], ":")
	if password == "" {
		return text
	}
	text = strings.ReplaceAll(text, password, "…")
	if plain, err := url.PathUnescape(password); err == nil {
		text = strings.ReplaceAll(text, plain, "…")
	}
	return text
}

// broken reports whether the run cannot go on. More faults would then prove nothing.
func (r *run) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.events, func(e Event) bool { return e.Do == failed })
}

func (r *run) history() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Run: r.run, Events: slices.Clone(r.events)}
	h.sort()
	return h
}

// starter starts all processes from one thread that lives as long as the run: a
// child dies with the thread that started it.
func (r *run) starter() {
	r.starts = make(chan func())
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // otherwise the thread would end, and with it any children that other goroutines started on it
		for f := range r.starts {
			f()
		}
	}()
}

func (r *run) start(cmd *exec.Cmd) (err error) {
	done := make(chan struct{})
	r.starts <- func() { err = cmd.Start(); close(done) }
	<-done
	return err
}

// begin starts the processes.
func (r *run) begin() error {
	for n := 1; n <= r.o.Processes; n++ {
		p := &process{r: r, n: n, proxies: map[string]string{}, works: make(chan struct{})}
		if r.way.groups {
			p.links = append(p.links, newCallLink(r.store.(*memstore.Store), r.o.Seed+uint64(n)))
		}
		r.processes = append(r.processes, p)
		if err := p.begin(); err != nil {
			return err
		}
	}
	return nil
}

// startBy is how long a busy machine may take to start the processes.
const startBy = time.Minute

// gather waits until all processes have begun their work, so that a slow start
// does not count as run time. A process that never begins is reported by finish,
// because it does not end.
func (r *run) gather(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startBy+endBy) // by then a late worker has reported its failure
	defer cancel()
	for _, p := range r.processes {
		select {
		case <-p.works:
		case <-p.gone:
		case <-ctx.Done():
		}
	}
}

// endAll ends the remaining processes, their links, and all goroutines of the run.
func (r *run) endAll() {
	defer r.beside.Wait()
	defer close(r.over)
	for _, p := range r.processes {
		if p.gone != nil {
			select {
			case <-p.gone:
			default:
				p.kill()
			}
		}
		for _, x := range p.links {
			x.close()
		}
	}
}

// strikeAll injects faults for Options.For, and returns when all have ended. The
// seed decides which fault strikes which process, when, and for how long.
func (r *run) strikeAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.o.For)
	defer cancel()
	if r.o.Stop {
		go r.stopAtFirst(ctx, cancel)
	}
	rng := rand.New(rand.NewPCG(r.o.Seed, 0))
	strokes := slices.DeleteFunc(slices.Clone(r.o.Faults), func(f Fault) bool { return f == contained })
	var on sync.WaitGroup
	server, turn := slices.Sorted(maps.Keys(r.o.Server)), 0
	// at is the sum of the gaps so far. No fault of the server begins before at reaches calm: what
	// happens near a fault that voids checks is not judged.
	var at, calm time.Duration
	for {
		gap := between(rng, r.o.TTL/8, r.o.TTL/2)
		at += gap
		select {
		case <-ctx.Done():
			on.Wait()
			r.arrived()
			return
		case <-time.After(gap):
		}
		if len(server) > 0 && at >= calm && (len(strokes) == 0 || rng.IntN(3) == 0) {
			f, d := server[turn%len(server)], between(rng, r.o.TTL/10, 2*r.o.TTL)
			if f == failover { // the other server is running already
				d /= 4
			}
			r.strikeServer(f, d)
			if turn++; r.run.voided(f, linear) { // checks are void until a TTL after the fault; then leave time to judge
				calm = at + 4*r.o.TTL
			}
			continue
		}
		if len(strokes) == 0 {
			continue
		}
		f, p := strokes[rng.IntN(len(strokes))], r.victim(rng)
		if s := p.draw(f, rng); s != nil {
			on.Go(func() { p.strike(s) })
		}
	}
}

// victim picks any process, but half of the time one that holds something now,
// if there is one: there a fault hurts most.
func (r *run) victim(rng *rand.Rand) *process {
	n, picky := rng.IntN(len(r.processes)), rng.IntN(2) == 0
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.processes {
		if p := r.processes[(n+i)%len(r.processes)]; picky && r.holds[p.n] > 0 {
			return p
		}
	}
	return r.processes[n]
}

// stopAtFirst ends the run when the history so far has a violation and still has
// it a while later: a stopped process reports its events late.
func (r *run) stopAtFirst(ctx context.Context, cancel func()) {
	type what struct {
		check int
		name  string
		from  time.Duration
	}
	since := map[what]time.Duration{}
	for pause := r.o.TTL; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		now := r.now()
		for _, w := range Check(r.history()).Violations {
			if c := check(w.Check); c == live || c == bounded {
				continue
			}
			k := what{w.Check, w.Name, w.From}
			if first, ok := since[k]; !ok {
				since[k] = now
			} else if now-first >= 3*r.o.TTL {
				cancel()
			}
		}
		pause = max(r.o.TTL, 4*(r.now()-now)) // judging a long history must not slow the processes
	}
}

func (r *run) strikeServer(f Fault, d time.Duration) {
	r.add(Event{Do: struck, Fault: f})
	mend := r.o.Server[f]()
	time.Sleep(d)
	mend()
	r.add(Event{Do: mended, Fault: f, Hits: 1})
}
