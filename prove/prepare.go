package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Options say what to prove, and how hard to try.
type Options struct {
	URL       string        // URL of the store
	For       time.Duration // how long the processes work; above 0
	TTL       time.Duration // 0: 500 ms, or the shortest that the store and its server grant if that is longer
	Processes int           // how many run at a time, at least 2; 0: 6
	Names     int           // how many names they compete for; 0: 3
	Mode      string        // mutex, rw, slots, upgrade or mixed; empty: mixed
	Faults    []Fault       // nil: all that are possible with this store; empty: none
	Seed      uint64        // seed of all random choices
	// Dense is for many grants: each process has nine workers, three for each of
	// three names, and holds are shorter. The faults are the same.
	Dense bool
	// Wide is for many claims at once: each process has twenty workers, most of
	// whose claims soon give up, and one more hold that lasts as long as the
	// process. Use about sixty names with it.
	Wide bool
	Out  string // directory for the history and the reports; empty: none

	// Own is a lock of your own, to be proved instead of a store of holdfast. URL
	// is passed to its functions. If URL has a host, the faults include those of
	// the links between the processes and the host.
	Own *Own

	// Command returns the command of a process that calls Child, or Own.Child,
	// with its stdin and stdout. With Own it may be nil: Prove then starts the
	// present program again, which must call Own.Worker.
	Command func() *exec.Cmd

	// Progress is called about every second of the run, and must return soon; nil:
	// not called.
	Progress func(Progress)

	// Offset is the largest error of the processes' wall clocks. It is for tests,
	// whose processes apply offsetVar.
	Offset time.Duration

	// Server has functions that begin a fault of the server; each returns a
	// function that ends it. It is for tests, which may stop their server.
	Server map[Fault]func() (mend func())
	// Survives has the faults of the server after which this store, as it is set
	// up, has forgotten no grant, although its Description says that it may.
	Survives []Fault
	// Stop ends the run soon after its first violation.
	Stop bool
}

// Faults returns the faults that Prove can inject into a run on a store with this URL.
func Faults(rawURL string) []Fault {
	w, ok := ways[schemeOf(rawURL)]
	switch all := w.faults(); {
	case !ok:
		return nil
	case !w.groups && !w.network:
		return append(all, contained)
	default:
		return all
	}
}

// prepare checks the options and the store.
func (r *run) prepare(ctx context.Context) error {
	o := r.o
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: prove: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if name, is := os.LookupEnv(workerVar); is { // it would start workers, which would start workers
		return bad("this process was started as a worker of %q, but has not called its Own.Worker first", name)
	}
	scheme := schemeOf(o.URL)
	o.Processes, o.Names, o.Mode = cmp.Or(o.Processes, 6), cmp.Or(o.Names, 3), cmp.Or(o.Mode, "mixed")
	var possible []Fault
	if own := o.Own; own != nil {
		if wrong := own.check(); wrong != "" {
			return bad("%s", wrong)
		}
		r.way = own.way(o.URL)
		possible = r.way.faults()
		switch {
		case own.Store == nil && o.Mode != "mixed" && o.Mode != "mutex":
			return bad("mode %.20q: a lock of your own that is not a Store can only be a mutex", o.Mode)
		case len(own.Lines) > 0 && (o.Dense || o.Wide):
			return bad("a worker by lines does one thing at a time: it cannot be dense or wide")
		case own.Store == nil:
			o.Mode = "mutex"
		}
		if o.Command == nil {
			o.Command = own.itself
		}
	} else {
		var ok bool
		if r.way, ok = ways[scheme]; !ok {
			return bad("stores with URLs that begin with %.20q cannot be proved; set Own, or a worker, for a lock of your own", scheme+":")
		}
		possible = Faults(o.URL)
	}
	named := o.Faults != nil
	if !named {
		o.Faults = possible
	}
	for _, f := range o.Faults {
		if !slices.Contains(possible, f) {
			return bad("there is no fault %.20q for this store; there are: %s", f, join(possible))
		}
	}
	switch {
	case o.For <= 0:
		return bad("a run needs some time")
	case o.Processes < 2:
		return bad("%d processes: at least 2, or no claim blocks another", o.Processes)
	case o.Names < 1:
		return bad("%d names: at least 1", o.Names)
	}
	if err := r.containers(named); err != nil {
		return err
	}
	peer, began := r.way.open == nil, time.Now()
	var d *store.Description
	if peer {
		d = o.Own.description()
	} else {
		var err error
		if r.store, err = r.way.open(o.URL, dialDirect); err != nil {
			return err
		}
		its := r.store.Describe()
		d = &its
	}
	free := o.TTL == 0
	if free {
		o.TTL = max(500*time.Millisecond, d.MinTTL)
	}
	if peer && o.TTL < d.MinTTL {
		return bad("a TTL of %v: at least %v", o.TTL, d.MinTTL)
	}
	r.run = Run{
		Format: format, Store: d.Store, Scheme: scheme, Tokens: d.Tokens, Forgets: forgets(d), Survives: o.Survives, Lacks: d.Lacks, Unchecked: r.unchecked(d),
		Seed: o.Seed, For: o.For, Processes: o.Processes, Mode: o.Mode, Peer: peer, Silent: peer && o.Own.Silent, Lines: peer && len(o.Own.Lines) > 0, Dense: o.Dense, Wide: o.Wide,
		Faults: o.Faults, Floor: floor(o, peer), Driver: r.way.driver,
	}
	if o.Own != nil && o.Own.Name != "" {
		r.run.Store = o.Own.Name
	}
	r.lasts(o.TTL)
	err := r.name(bad)
	if err == nil && r.store != nil {
		err = r.reach(ctx, d, free, began.Add(reachWithin))
	}
	if err != nil {
		r.closeSoon()
	}
	return err
}

// floor returns the least number of grants for a proof. A longer run needs more,
// so that a run whose locks are stuck proves nothing.
func floor(o *Options, peer bool) int {
	rate := 5 // a second
	if o.Mode == "upgrade" || peer || len(o.Server) > 0 {
		rate = 1 // leases to be upgraded are held for long, a user's own lock may be slow, and a server may be down
	}
	return max(20, rate*int(o.For/time.Second))
}

// close closes the store, if there is one.
func (r *run) close() {
	if r.own != nil {
		r.own.Close()
	}
	if r.store != nil {
		r.store.Close()
	}
}

// closeSoon closes the store, but does not wait for a silent server.
func (r *run) closeSoon() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.close()
	}()
	select {
	case <-closed:
	case <-time.After(200 * time.Millisecond):
	}
}

// name chooses unused names.
func (r *run) name(bad func(string, ...any) error) error {
	modes := map[string][]string{"mutex": {"mutex"}, "rw": {"rw"}, "slots": {"slots"}, "upgrade": {"upgrade"}, "mixed": {"rw", "mutex", "slots"}}[r.o.Mode]
	if modes == nil {
		return bad("mode %.20q: mutex, rw, slots, upgrade or mixed", r.o.Mode)
	}
	modes = slices.DeleteFunc(modes, func(m string) bool { return !r.run.hasMode(m) })
	if len(modes) == 0 {
		return bad("mode %.20q: %s does not support it", r.o.Mode, r.run.Store)
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

// reachWithin is how long opening a store and its first answer may take. Tests raise it, so that they do not take
// a stalled machine for a silent store.
var reachWithin = 3500 * time.Millisecond

// longestOwn is the longest TTL that is tried if none was asked for.
const longestOwn = 10 * time.Second

// reach takes and releases a name: a store that does not work at all is not judged. The store must first
// answer before by. If no TTL was asked for (free) and the server does not grant one so short, like an etcd
// with slow elections, a longer one is used.
func (r *run) reach(ctx context.Context, d *store.Description, free bool, by time.Time) (err error) {
	o := holdfast.Options{Logger: slog.New(slog.DiscardHandler)}
	if r.run.lease() > 0 { // connecting may take longer than a short TTL, after which an Ask gives up
		o.TTL = max(r.run.TTL, min(reachWithin, d.MaxTTL))
	}
	if r.own, err = holdfast.New(shared{r.store}, &o); err != nil {
		return err
	}
	if err := r.answers(ctx, by); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := takeOnce(ctx, r.ownName()); err != nil || r.run.lease() == 0 {
		return err
	}
	for {
		err := takeOnce(ctx, r.own.With(&holdfast.Options{TTL: r.run.TTL}).Mutex(r.run.Names[0].Name+"/first"))
		switch {
		case errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrLost):
			return nil // the first takeOnce showed that the store works; it was only too slow this time
		case !free || !errors.Is(err, store.ErrInvalid) || r.run.TTL >= longestOwn:
			return err
		}
		r.lasts(min(2*r.run.TTL, longestOwn)) //mutant:prove-longest-own
	}
}

// answers returns an error if the store's port is closed, or if it sends nothing before by.
func (r *run) answers(ctx context.Context, by time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, by) //mutant:prove-silence-ends-it
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.ask(ctx) }() // some drivers wait longer than their context
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // this error says more
		return err
	case <-time.After(100 * time.Millisecond):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
}

// ask calls the store until it answers or refuses the connection. It releases a hold that does
// not exist, which leaves nothing behind. A store of sessions answers that without its server,
// so there ask takes a name.
func (r *run) ask(ctx context.Context) error {
	for {
		var err error
		if r.run.lease() > 0 {
			err = r.store.Release(ctx, store.Hold{Name: r.run.Names[0].Name, ID: store.NewProcess().NewID()})
		} else {
			err = takeOnce(ctx, r.ownName())
		}
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return err
		case !errors.Is(err, store.ErrUnavailable):
			return nil // any other error is an answer
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func takeOnce(ctx context.Context, m *holdfast.Lock) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.Release()
}

// lasts sets the TTL.
func (r *run) lasts(ttl time.Duration) {
	r.o.TTL, r.run.TTL, r.run.PositionTTL = ttl, ttl, min(ttl, store.MaxPositionTTL)
}

// ownName returns a lock that no process claims.
func (r *run) ownName() *holdfast.Lock { return r.own.Mutex(r.run.Names[0].Name + "/first") }

// shared is a store that stays open when its locker is closed.
type shared struct{ store.Store }

func (shared) Close() error { return nil }

// TellLosses implements [store.LossTeller] for a store that is one.
func (s shared) TellLosses(report func(store.ID, error)) {
	s.Store.(store.LossTeller).TellLosses(report)
}

// record creates the file of the history and writes its first line. add writes the others.
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
