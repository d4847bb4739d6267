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
	URL       string        // of the store
	For       time.Duration // how long the processes work; above 0
	TTL       time.Duration // 0: the larger of 500 ms and the least that the store and its server grant
	Processes int           // how many there are at a time, at least 2; 0: 6
	Names     int           // how many names they fight for; 0: 3
	Mode      string        // mutex, rw, slots, upgrade or mixed; empty: mixed
	Faults    []Fault       // nil: all that are possible with this store; empty: none
	Seed      uint64        // of all that is drawn at random
	// Dense is for many grants: each process has nine workers, three for each of
	// three names, and holds are shorter. The faults are the same.
	Dense bool
	// Wide is for many claims at once: each process has twenty workers, most of
	// which soon give up, during a hold that lasts as long as the process. It is
	// meant for some sixty names.
	Wide bool
	Out  string // directory for the history and the reports; empty: none

	// Own is a lock of your own, which is proved instead of a store of holdfast;
	// URL is passed to its functions. If URL has a host, the faults include the
	// links of the processes to it.
	Own *Own

	// Command is a process that calls Child, or that of Own, with its stdin and
	// stdout. With Own it may be nil: then the program is started again, and has
	// to call Own.Worker.
	Command func() *exec.Cmd

	// Progress is called about every second of the run, and must return soon; nil:
	// not called.
	Progress func(Progress)

	// Offset is the largest error of the processes' wall clocks. It is for tests,
	// whose processes use offsetVar.
	Offset time.Duration

	// Server does a fault to the store, and what it returns ends it. It is for
	// tests, whose store is theirs to stop.
	Server map[Fault]func() (mend func())
	// Survives has the faults of the server after which this store, as it is set
	// up, has forgotten no grant, though its Description says that others do.
	Survives []Fault
	// Stop ends the run soon after its first violation.
	Stop bool
}

// Faults are the faults that a store with this URL can be met with.
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
	if name, is := os.LookupEnv(workerVar); is { // it would start workers, and those workers
		return bad("this process was started as a worker of %q, and has not called its Own.Worker first", name)
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
			return bad("mode %.20q: a lock of your own that is no Store is a mutex", o.Mode)
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
			return bad("stores with URLs that begin with %.20q cannot be proved; a lock of your own is named by Own, or by a worker", scheme+":")
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
		return bad("it needs some time")
	case o.Processes < 2:
		return bad("%d processes: at least 2, or nobody is in anybody's way", o.Processes)
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

// floor is the least number of grants for a proof. A longer run must have more:
// so a run whose locks are stuck is no proof.
func floor(o *Options, peer bool) int {
	rate := 5 // a second
	if o.Mode == "upgrade" || peer || len(o.Server) > 0 {
		rate = 1 // leases to be upgraded are held for long, a lock of the user's own may be slow, and a server be away
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

// closeSoon closes the store, and does not wait for a server that is silent.
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

// name makes up unused names.
func (r *run) name(bad func(string, ...any) error) error {
	modes := map[string][]string{"mutex": {"mutex"}, "rw": {"rw"}, "slots": {"slots"}, "upgrade": {"upgrade"}, "mixed": {"rw", "mutex", "slots"}}[r.o.Mode]
	if modes == nil {
		return bad("mode %.20q: mutex, rw, slots, upgrade or mixed", r.o.Mode)
	}
	modes = slices.DeleteFunc(modes, func(m string) bool { return !r.run.hasMode(m) })
	if len(modes) == 0 {
		return bad("mode %.20q: %s lacks that", r.o.Mode, r.run.Store)
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

// reachWithin is how long a store that is there may take to be opened and to answer first. It is a variable for the tests: to them a
// machine that stands still is no silent store.
var reachWithin = 3500 * time.Millisecond

// longestOwn is the longest TTL that is tried if none is asked for.
const longestOwn = 10 * time.Second

// reach takes and releases a name: a store that does not work at all is not judged. It must first answer
// within by. If no TTL is asked for (free) and the server grants none so short, as an etcd with slow
// elections, a longer one is used.
func (r *run) reach(ctx context.Context, d *store.Description, free bool, by time.Time) (err error) {
	o := holdfast.Options{Logger: slog.New(slog.DiscardHandler)}
	if r.run.lease() > 0 { // to connect may take longer than that, and an ask gives up then
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
			return nil // it works, as we know, if not in that time now
		case !free || !errors.Is(err, store.ErrInvalid) || r.run.TTL >= longestOwn:
			return err
		}
		r.lasts(2 * r.run.TTL)
	}
}

// answers returns an error if the store's port is closed, or it sends nothing within by.
func (r *run) answers(ctx context.Context, by time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, by) //mutant:prove-silence-ends-it
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.ask(ctx) }() // some drivers wait for longer than a context allows
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // it says more
		return err
	case <-time.After(100 * time.Millisecond):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
}

// ask calls the store until it answers or refuses the connection. It releases a hold that does
// not exist, which leaves nothing behind. A store of sessions answers that without its server:
// it is asked for a name.
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
			return nil // whatever is wrong, it has answered
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

// ownName is one that no process wants.
func (r *run) ownName() *holdfast.Lock { return r.own.Mutex(r.run.Names[0].Name + "/first") }

// shared is a store that is not closed with a locker.
type shared struct{ store.Store }

func (shared) Close() error { return nil }

// TellLosses implements [store.LossTeller] for those that are.
func (s shared) TellLosses(report func(store.ID, error)) {
	s.Store.(store.LossTeller).TellLosses(report)
}

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
