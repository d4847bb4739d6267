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

// Own describes a lock of your own that is to be proved, for Options.Own. Set
// exactly one of Store, Locks and Lines: it says how the processes of a run use the
// lock. The value must be the same in the program that calls Prove and in its workers.
type Own struct {
	// Name is the lock's name in the report, such as "our lock on Redis". With
	// Store it may be empty: the store's Description has a name. If a program has
	// several Owns, their names must differ: a worker selects its lock by the name.
	Name string

	// Store opens your implementation of the contract of package store. The run
	// then does, and judges, all that holdfast does with a store.
	Store func(url string, dial Dial) (store.Store, error)

	// Locks opens locks of any other kind in one process. Their leases should last
	// for the TTL unless they are renewed. If the lock is on the network, make all
	// connections by dial: any other connection fails the run.
	Locks func(url string, ttl time.Duration, dial Dial) (*Locks, error)

	// Lines is a command, with its arguments, that reads orders for the lock from
	// its stdin, one a line, and answers on its stdout. It can be written in any
	// language; docs/proof.md describes the lines.
	Lines []string

	// Silent says that the deadline of a Lease of Locks is only an estimate: a
	// hold lasts until it is released or its loss is reported. Then only check 4,
	// which is about reporting losses, uses the deadline.
	Silent bool
}

// Locks are your own locks in one process. Lock is called from several goroutines at
// once.
type Locks struct {
	// Lock takes the lock of the name: it waits until the lock is free or ctx
	// ends; with try it fails at once if the lock is held. An error because the
	// lock is held must match holdfast.ErrHeld, and one because ctx ended must
	// match its Err.
	Lock func(ctx context.Context, name string, try bool) (*Lease, error)
	// Close frees what Own.Locks has opened; nil: there is nothing to free.
	Close func() error
}

// A Lease is a lock of your own that was granted. Its functions are called from several
// goroutines at once.
type Lease struct {
	// Token is the fencing token; 0: the lock has no tokens.
	Token int64
	// Deadline returns the time until which the lock is held unless it is renewed. The
	// time moves with each renewal. nil, or the zero time: unknown; then a hold lasts
	// until it is released or its loss is reported. Deadline is called often and must
	// return at once: it says what the process knows, without asking the server.
	Deadline func() time.Time
	// Lost is closed when the lock reports its loss to its user; nil: losses are not
	// reported.
	Lost <-chan struct{}
	// Release releases the lock, and must not be nil. If the lock was lost before,
	// the error must match holdfast.ErrLost.
	Release func() error
}

// workerVar is the environment variable with the Own's Name, in the workers that Prove
// starts when Options.Command is nil.
const workerVar = "HOLDFAST_PROVE_WORKER"

// Worker makes this process a worker if Prove has started it as a worker of this lock:
// the process then works until it is ordered to end, and exits. Otherwise Worker
// returns at once. Call it first in main, or in TestMain, for each Own.
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

// Child is like the function Child, for a lock of your own. You need it only if
// Options.Command starts the workers.
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
			return fmt.Errorf("%w: prove: this worker is for %q, and the run for %q", store.ErrInvalid, o.Name, c.Run.Store)
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

// is reports whether the run is of this lock. Otherwise the worker would prove the wrong lock.
func (o *Own) is(r *Run) bool {
	return o.check() == "" && len(o.Lines) == 0 && (o.Store == nil) == r.Peer && (o.Name == "" || o.Name == r.Store)
}

// open opens the user's store.
func (o *Own) open(url string, dial Dial) (store.Store, error) {
	s, err := o.Store(url, dial)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: prove: Own.Store has returned no store, and no error", store.ErrInvalid)
	}
	return s, err
}

// itself returns a command that starts the program that calls Prove once more, as a worker.
func (o *Own) itself() *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerVar+"="+o.Name)
	return cmd
}

// check says what is wrong with o; empty: nothing.
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

// way returns how the processes reach the lock. How long its driver goes on after a
// context has ended is unknown: it gets as much as Redis's driver.
func (o *Own) way(rawURL string) way {
	// url.Parse does not accept a list of hosts.
	_, rest, _ := strings.Cut(rawURL, "://")
	w := way{network: rest != "" && rest[0] != '/', driver: 8 * time.Second}
	if o.Store != nil {
		w.open = o.open
	}
	return w
}

// description returns what is known of a lock that is not a store.
func (o *Own) description() *store.Description {
	return &store.Description{Store: o.Name, MinTTL: time.Millisecond}
}

// faults returns the faults that can strike a store that is reached this way.
func (w *way) faults() []Fault {
	switch {
	case w.groups:
		return memoryFaults
	case !w.network:
		return slices.Clip(processFaults)
	}
	return slices.Concat(processFaults, linkFaults)
}

// lockOwn takes a user's own lock.
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

// ownLease makes a lease of a user's Lease.
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
