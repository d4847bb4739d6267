package prove

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Own is a lock of your own that is to be proved, with Options.Own. Exactly one
// of Store, Locks and Lines says how the processes of a run come to it. The
// value must be the same in the program that calls Prove and in its workers.
type Own struct {
	// Name is the lock's name in the report, such as "our lock on Redis". For a
	// Store it may be empty: its Description has a name. Several in one program
	// need different names: a worker selects its lock by the name.
	Name string

	// Store opens your implementation of the contract of package store. All that
	// holdfast does with a store is then done and judged.
	Store func(url string, dial Dial) (store.Store, error)

	// Locks opens locks of any other kind in one process, whose leases should last
	// for the TTL unless they are renewed. Where the lock is on the network, all
	// connections must be made by dial: a connection past it fails the run.
	Locks func(url string, ttl time.Duration, dial Dial) (*Locks, error)

	// Lines is a command, with its arguments, that uses the lock as lines on its
	// stdin say, and answers on its stdout. It can be written in any language;
	// docs/proof.md describes the lines.
	Lines []string

	// Silent says that the deadline of a Lease of Locks is only an estimate: a
	// hold lasts until it is released or its loss is reported. Then only check 4,
	// which is about reporting losses, uses the deadline.
	Silent bool
}

// Locks are a user's own locks in one process. Lock is called from several goroutines
// at once.
type Locks struct {
	// Lock takes the lock of the name: it waits until the lock is free or ctx
	// ends; with try it fails at once if the lock is held. An error because the
	// lock is held must match holdfast.ErrHeld, and one because ctx ended must
	// match its Err.
	Lock func(ctx context.Context, name string, try bool) (*Lease, error)
	// Close frees what Locks has opened; nil: nothing.
	Close func() error
}

// A Lease is a lock of a user's own that was obtained. Its functions are called from
// several goroutines at once.
type Lease struct {
	// Token is the fencing token; 0: the lock has no tokens.
	Token int64
	// Deadline is until when the lock is held unless it is renewed; it moves with each
	// renewal. nil, or the zero time: unknown, and a hold lasts until it is released
	// or its loss is reported. It is called often, and must return at once: it is the
	// process's own knowledge, without asking the server.
	Deadline func() time.Time
	// Lost is closed when the lock's user learns that it was lost; nil: losses are
	// not reported.
	Lost <-chan struct{}
	// Release gives the lock back, and may not be nil. An error because it was lost
	// before must match holdfast.ErrLost.
	Release func() error
}

// workerVar is the Own's Name in the environment of the workers that Prove starts where
// no Options.Command says how.
const workerVar = "HOLDFAST_PROVE_WORKER"

// Worker makes this process a worker of a run of this lock if Prove has started it
// as one: then it works until it is ordered to end, and exits. Otherwise it returns
// at once. Call it first in main, or in TestMain, for each Own.
func (o *Own) Worker() {
	if name, is := os.LookupEnv(workerVar); !is || name != o.Name {
		return
	}
	if err := o.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child is like the function Child, for a lock of the user's own. It is needed only
// where Options.Command starts the workers in a way of its own.
func (o *Own) Child(in io.Reader, w io.Writer) error {
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 1<<20)
	c, err := readJob(orders, w)
	if err != nil || c == nil {
		return err
	}
	return c.run(func() error {
		switch is := o.is(&c.Run); {
		case !is:
			return fmt.Errorf("%w: prove: this worker is of %q, and the run of %q", store.ErrInvalid, o.Name, c.Run.Store)
		case o.Store != nil:
			s, err := o.open(c.URL, c.dial)
			if err != nil {
				return err
			}
			return c.on(s)
		}
		l, err := o.Locks(c.URL, c.Run.TTL, c.dial)
		switch {
		case err != nil:
			return err
		case l == nil || l.Lock == nil:
			return fmt.Errorf("%w: prove: Own.Locks has returned no Lock, and no error", store.ErrInvalid)
		}
		c.users = l
		return nil
	}, orders)
}

// is reports whether the run is of it. A worker of another lock would prove that one.
func (o *Own) is(r *Run) bool {
	return o.check() == "" && len(o.Lines) == 0 && (o.Store == nil) == r.Peer && (o.Name == "" || o.Name == r.Store)
}

// open opens the store of the user's.
func (o *Own) open(url string, dial Dial) (store.Store, error) {
	s, err := o.Store(url, dial)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: prove: Own.Store has returned no store, and no error", store.ErrInvalid)
	}
	return s, err
}

// itself starts the program that calls Prove once more, as a worker.
func (o *Own) itself() *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerVar+"="+o.Name)
	return cmd
}

// check says what is wrong with it; empty: nothing.
func (o *Own) check() string {
	switch n := count(o.Store != nil) + count(o.Locks != nil) + count(len(o.Lines) > 0); {
	case n != 1:
		return fmt.Sprintf("Own has %d of Store, Locks and Lines: it needs one", n)
	case o.Name == "" && o.Store == nil:
		return "Own has no Name for the report"
	case o.Silent && o.Locks == nil:
		return "Own is Silent, which only Locks can be"
	}
	return ""
}

// way is how the processes reach it. It is unknown how long its driver goes on
// after a context has ended: as much as holdfast's drivers need is allowed.
func (o *Own) way(rawURL string) way {
	// Not by url.Parse, which knows no list of hosts.
	_, rest, _ := strings.Cut(rawURL, "://")
	w := way{network: rest != "" && rest[0] != '/', driver: 8 * time.Second}
	if o.Store != nil {
		w.open = o.open
	}
	return w
}

// description is what is known of a lock that is no store.
func (o *Own) description() *store.Description {
	return &store.Description{Store: o.Name, MinTTL: time.Millisecond}
}

// faults are those that can strike a store of this way.
func (w *way) faults() []Fault {
	switch {
	case w.groups:
		return memoryFaults
	case !w.network:
		return slices.Clip(processFaults)
	}
	return slices.Concat(processFaults, linkFaults)
}

// lockOwn takes a lock of the user's own.
func (c *child) lockOwn(ctx context.Context, name string, try bool) (lease, error) {
	x, err := c.users.Lock(ctx, name, try)
	if err == nil && (x == nil || x.Release == nil) {
		err = errors.New("prove: Locks.Lock has returned no Lease with a Release, and no error")
		c.send(Event{Do: failed, Text: err.Error()})
	}
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%d-%d", c.Proc, c.Life, c.ids.Add(1))
	return &ownLease{Lease: x, id: id, silent: c.Run.Silent}, nil
}

// ownLease makes a lease of one of the user's.
type ownLease struct {
	*Lease
	id       string
	silent   bool
	released atomic.Bool
}

func (l *ownLease) ID() string            { return l.id }
func (l *ownLease) Token() int64          { return l.Lease.Token }
func (l *ownLease) Lost() <-chan struct{} { return l.Lease.Lost }

func (l *ownLease) Deadline() time.Time {
	if l.Lease.Deadline == nil {
		return time.Time{}
	}
	return l.Lease.Deadline()
}

func (l *ownLease) Valid() bool {
	select {
	case <-l.Lease.Lost:
		return false
	default:
	}
	at := l.Deadline()
	return !l.released.Load() && (at.IsZero() || l.silent || time.Now().Before(at))
}

func (l *ownLease) Release() error {
	l.released.Store(true)
	return l.Lease.Release()
}
