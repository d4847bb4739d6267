package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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

// Options say what to prove, and how hard to try.
type Options struct {
	URL       string
	For       time.Duration
	TTL       time.Duration // 0: the larger of 500 ms and the store's least
	Processes int
	Names     int
	Mode      string  // mutex, rw, slots or mixed
	Faults    []Fault // nil: all that this store can be met with; empty: none
	Seed      uint64
	Out       string // directory for the history and the reports; empty: none

	// Command is a process that calls Child with its stdin and stdout.
	Command func() *exec.Cmd

	// Server does a fault to the store, and what it returns ends it. It is for
	// tests, whose store is theirs to stop.
	Server map[Fault]func() (mend func())
	// Stop ends the run at its first violation, in tests.
	Stop bool
}

// A run is a proof under way.
type run struct {
	o         *Options
	run       Run
	zero      time.Duration // its start on the boot clock
	way       way
	store     store.Store // by a way that no fault touches
	registers registers
	processes []*process
	starts    chan func()

	mu     sync.Mutex
	events []Event
	holds  map[int]int // of each process, now
	file   *os.File
	out    *json.Encoder
	err    error // of the file
}

// Faults are the faults that a store with this URL can be met with.
func Faults(rawURL string) []Fault {
	w, ok := ways[schemeOf(rawURL)]
	switch {
	case !ok:
		return nil
	case w.groups:
		return memoryFaults
	case w.addrs == nil:
		return processFaults
	}
	return slices.Concat(processFaults, linkFaults)
}

// Prove runs the processes and the faults and judges what came of it. An error
// says that there was no run.
func Prove(ctx context.Context, o *Options) (*Report, error) {
	r := &run{o: o, zero: clock.Boot(), registers: registers{m: map[string]*register{}}, holds: map[int]int{}}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.store.Close()
	if o.Out != "" {
		if err := r.record(); err != nil {
			return nil, err
		}
	}
	r.starter()
	defer close(r.starts)
	if err := r.begin(); err != nil {
		r.endAll()
		return nil, err
	}
	r.strikeAll(ctx)
	r.finish(ctx)
	r.endAll()
	return r.report()
}

// prepare checks the options and the store.
func (r *run) prepare(ctx context.Context) error {
	o := r.o
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: prove: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	scheme := schemeOf(o.URL)
	var ok bool
	if r.way, ok = ways[scheme]; !ok {
		return bad("stores with URLs that begin with %.20q cannot be proved", scheme+":")
	}
	possible := Faults(o.URL)
	if o.Faults == nil {
		o.Faults = possible
	}
	for _, f := range o.Faults {
		if !slices.Contains(possible, f) {
			return bad("there is no fault %.20q for this store; there are: %s", f, join(possible))
		}
	}
	switch {
	case o.For <= 0:
		return bad("it needs some time")
	case o.Processes < 2:
		return bad("%d processes: at least 2, or nobody is in anybody's way", o.Processes)
	case o.Names < 1:
		return bad("%d names: at least 1", o.Names)
	}
	var err error
	if r.store, err = r.way.open(o.URL, dialDirect); err != nil {
		return err
	}
	d := r.store.Describe()
	if o.TTL == 0 {
		o.TTL = max(500*time.Millisecond, d.MinTTL)
	}
	r.run = Run{
		Format: format, Store: d.Store, Scheme: scheme, Tokens: d.Tokens, Forgets: forgets(&d), Unchecked: unchecked(scheme, &d),
		Seed: o.Seed, For: o.For, TTL: o.TTL, Place: min(o.TTL, store.MaxPlace), Processes: o.Processes, Mode: o.Mode,
		Faults: o.Faults, Floor: max(20, 5*int(o.For/time.Second)), Driver: r.way.driver,
	}
	if err := r.name(bad); err != nil {
		r.store.Close()
		return err
	}
	if err := r.reach(ctx); err != nil {
		r.store.Close()
		return err
	}
	return nil
}

// name makes up the names, which nobody else uses.
func (r *run) name(bad func(string, ...any) error) error {
	modes := map[string][]string{"mutex": {"mutex"}, "rw": {"rw"}, "slots": {"slots"}, "mixed": {"rw", "mutex", "slots"}}[r.o.Mode]
	if modes == nil {
		return bad("mode %.20q: mutex, rw, slots or mixed", r.o.Mode)
	}
	id := store.NewProcess()
	for i := range r.o.Names {
		n := Name{fmt.Sprintf("holdfast-prove/%s/%d", id, i), modes[i%len(modes)], store.Full}
		if n.Mode == "slots" {
			n.Limit = 3
		}
		r.run.Names = append(r.run.Names, n)
	}
	return nil
}

// reach takes and releases a name: a store that does not work at all is not
// proved wrong by that.
func (r *run) reach(ctx context.Context) error {
	locks, err := holdfast.New(shared{r.store}, &holdfast.Options{TTL: r.o.TTL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l, err := locks.Mutex(r.run.Names[0].Name + "/first").Lock(ctx)
	if err != nil {
		return err
	}
	return l.Release()
}

// shared is a store that is not closed with a locker.
type shared struct{ store.Store }

func (shared) Close() error { return nil }

// record writes the history to a file as it comes in.
func (r *run) record() error {
	err := os.MkdirAll(r.o.Out, 0o777)
	if err == nil {
		r.file, err = os.Create(filepath.Join(r.o.Out, "history.jsonl"))
	}
	if err != nil {
		return fmt.Errorf("%w: --out: %w", store.ErrInvalid, err)
	}
	r.out = json.NewEncoder(r.file)
	return r.out.Encode(r.run)
}

func (r *run) now() time.Duration { return clock.Boot() - r.zero }

// add takes in an event, which has happened now unless it says otherwise.
func (r *run) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.At == 0 {
		e.At = r.now()
	}
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

func (r *run) history() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Run: r.run, Events: slices.Clone(r.events)}
	h.sort()
	return h
}

// starter starts processes from one thread, which lives as long as the run: a
// child dies with the thread that started it.
func (r *run) starter() {
	r.starts = make(chan func())
	go func() {
		runtime.LockOSThread()
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

// begin starts the processes, each with proxies of its own.
func (r *run) begin() error {
	var addrs []string
	if r.way.addrs != nil {
		u, err := url.Parse(r.o.URL)
		if err != nil {
			return fmt.Errorf("%w: the URL cannot be read", store.ErrInvalid)
		}
		addrs = r.way.addrs(u)
	}
	for n := 1; n <= r.o.Processes; n++ {
		p := &process{r: r, n: n, via: map[string]string{}}
		if r.way.groups {
			p.links = append(p.links, newCallLink(r.store.(*memstore.Store), r.o.Seed+uint64(n)))
		}
		for i, addr := range addrs {
			x, err := newProxy(addr, r.o.Seed+uint64(n<<8+i))
			if err != nil {
				return err
			}
			p.links, p.via[addr] = append(p.links, x), x.addr()
		}
		r.processes = append(r.processes, p)
		if err := p.begin(); err != nil {
			return err
		}
	}
	return nil
}

// endAll ends what is left of the processes and their links.
func (r *run) endAll() {
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

// finish lets everything come right: after the last fault the processes end
// their work, take each name once more, and leave nothing behind.
func (r *run) finish(ctx context.Context) {
	r.add(Event{Do: calm})
	bound := takenBy(r.o.TTL)
	var all sync.WaitGroup
	for i, p := range r.processes {
		var probes []string
		for j, n := range r.run.Names {
			if j%len(r.processes) == i {
				probes = append(probes, n.Name)
			}
		}
		all.Go(func() {
			if !p.end(probes, bound+30*time.Second) {
				r.add(Event{Do: failed, Proc: p.n, Text: fmt.Sprintf("process %d does not end", p.n)})
			}
		})
	}
	all.Wait()
	in, ok := r.store.(store.Inspector)
	if !ok {
		return
	}
	for {
		e := r.leftBehind(ctx, in)
		if over := r.now() > r.lastCalm()+bound; e.Entries == 0 || over || e.Do == failed {
			r.add(e)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *run) lastCalm() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Do == calm {
			return e.At
		}
	}
	return 0
}

// leftBehind looks what the store has of the names.
func (r *run) leftBehind(ctx context.Context, in store.Inspector) Event {
	e := Event{Do: left}
	var text []string
	for _, n := range r.run.Names {
		for s, err := range in.List(ctx, n.Name) {
			if err != nil {
				return Event{Do: failed, Text: fmt.Sprintf("the store cannot be looked into: %v", err)}
			}
			for _, x := range s.Entries {
				e.Entries++
				text = append(text, fmt.Sprintf("%s of %s, token %d, expires in %v", x.ID, n.Name, x.Token, x.Expires))
			}
		}
	}
	e.Text = strings.Join(text, "; ")
	return e
}

// report judges the history and writes the reports.
func (r *run) report() (*Report, error) {
	h := r.history()
	report := &Report{Run: r.run, Verdict: Check(h)}
	if r.o.Out == "" {
		return report, nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	err = errors.Join(r.err, r.file.Close(), err, os.WriteFile(filepath.Join(r.o.Out, "report.json"), append(text, '\n'), 0o666))
	f, pageErr := os.Create(filepath.Join(r.o.Out, "report.html"))
	if pageErr == nil {
		pageErr = errors.Join(report.HTML(f, h), f.Close())
	}
	return report, errors.Join(err, pageErr)
}

// strikeAll does faults until the time is over, and returns when all have
// ended. The seed says which, to whom, when and for how long.
func (r *run) strikeAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.o.For)
	defer cancel()
	if r.o.Stop {
		go r.stopAtFirst(ctx, cancel)
	}
	rng := rand.New(rand.NewPCG(r.o.Seed, 0))
	var on sync.WaitGroup
	server := slices.Sorted(maps.Keys(r.o.Server))
	for {
		gap := between(rng, r.o.TTL/8, r.o.TTL/2)
		select {
		case <-ctx.Done():
			on.Wait()
			return
		case <-time.After(gap):
		}
		if len(server) > 0 && rng.IntN(12) == 0 {
			r.strikeServer(server[rng.IntN(len(server))], between(rng, r.o.TTL/10, 2*r.o.TTL))
			continue
		}
		if len(r.o.Faults) == 0 {
			continue
		}
		f, p := r.o.Faults[rng.IntN(len(r.o.Faults))], r.victim(rng)
		if s := p.draw(f, rng); s != nil {
			on.Go(func() { p.strike(s) })
		}
	}
}

// victim is any process, and half of the time one that holds something now:
// that is where it hurts.
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

// stopAtFirst ends the run when the history so far has a violation.
func (r *run) stopAtFirst(ctx context.Context, cancel func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
		for _, w := range Check(r.history()).Violations {
			if c := check(w.Check); c != live && c != bounded {
				cancel()
			}
		}
	}
}

func (r *run) strikeServer(f Fault, d time.Duration) {
	r.add(Event{Do: struck, Fault: f})
	mend := r.o.Server[f]()
	time.Sleep(d)
	mend()
	r.add(Event{Do: mended, Fault: f, Hits: 1})
}
