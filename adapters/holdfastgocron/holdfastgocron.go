// Package holdfastgocron runs the jobs of gocron in one process at a time, of all with
// the same schedule.
//
// With a [Locker] each run of a job goes to the first process that starts it:
//
//	locker := holdfastgocron.NewLocker(locks, 10*time.Second)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// With an [Elector] all jobs run in the one process that leads:
//
//	elector := holdfastgocron.NewElector(locks.Election("scheduler"))
//	defer elector.Close()
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// gocron gives a job no sign that its lock is lost, as when the process was suspended for
// longer than the TTL. A job that must not run concurrently with another gets its lease,
// by [Locker.Lease] or [Elector.Lease], and works under its context, or passes its token
// to the resource that it writes to.
package holdfastgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// A Locker takes the lock of a job, by the job's name, for as long as it runs. It is safe
// for concurrent use.
type Locker struct{ byName *holdfast.ByName }

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker. The name of a job stays taken for splay after its run began, even
// if that has ended: so a process whose clock is behind by less does not run the same job
// again. Choose it longer than any two clocks differ, and shorter than the time between two
// runs. With 0 it is the MinHold of locks; one that is negative, or longer than the store
// allows, is a [holdfast.ErrInvalid] of each Lock.
//
// Give each job a name with gocron.WithName, the same in all processes. Without one its
// name is that of its function, which two jobs can share.
func NewLocker(locks *holdfast.Locker, splay time.Duration) *Locker {
	return &Locker{locks.With(&holdfast.Options{MinHold: splay}).ByName()} //mutant:gocron-splay
}

// Lock takes the lock of a job. It never waits: gocron skips the run if it returns an
// error, which matches [holdfast.ErrHeld] if the job runs elsewhere or began to within the splay, and is that of
// [holdfast.Lock.TryLock] otherwise.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	ok, err := l.byName.TryLock(ctx, job)
	switch {
	case err != nil:
		return nil, err
	case !ok: //mutant:gocron-refused
		return nil, fmt.Errorf("job %q: %w: it runs elsewhere, or began to a moment ago", job, holdfast.ErrHeld)
	}
	return lock{l.byName, job}, nil
}

// Lease returns the lease of a job that runs in this process, or nil if it does not.
func (l *Locker) Lease(job string) *holdfast.Lease { return l.byName.Lease(job) }

type lock struct {
	byName *holdfast.ByName
	job    string
}

// Unlock gives the lock of a job back.
func (l lock) Unlock(ctx context.Context) error { return l.byName.Unlock(ctx, l.job) } //mutant:gocron-unlock

// An Elector campaigns until it is closed. It is safe for concurrent use.
type Elector struct {
	election *holdfast.Election
	stop     context.CancelFunc
	done     chan struct{}

	mu    sync.Mutex
	lease *holdfast.Lease // of the newest term
	err   error           // why it does not campaign any more
}

var _ gocron.Elector = (*Elector)(nil)

// ErrNotLeader is the error of [Elector.IsLeader] while this process does not lead.
var ErrNotLeader = errors.New("holdfastgocron: this process does not lead")

// NewElector returns an Elector that campaigns from now on. A leader leads until its
// Elector is closed or loses its lease.
func NewElector(e *holdfast.Election) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	el := &Elector{election: e, stop: stop, done: make(chan struct{})}
	go el.campaign(ctx)
	return el
}

func (el *Elector) campaign(ctx context.Context) {
	defer close(el.done)
	err := el.election.Lead(ctx, func(ctx context.Context) error {
		el.mu.Lock()
		el.lease = holdfast.LeaseFrom(ctx)
		el.mu.Unlock()
		<-ctx.Done()
		return nil
	})
	el.mu.Lock()
	defer el.mu.Unlock()
	el.err = err
}

// IsLeader returns nil if this process leads, and so runs the jobs; else [ErrNotLeader], or why
// it does not campaign. It does no I/O.
func (el *Elector) IsLeader(context.Context) error {
	if el.election.IsLeader() { //mutant:gocron-leads
		return nil
	}
	el.mu.Lock()
	defer el.mu.Unlock()
	if el.err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, el.err)
	}
	return ErrNotLeader
}

// Lease returns the lease of the present term, or nil if this process does not lead.
func (el *Elector) Lease() *holdfast.Lease {
	el.mu.Lock()
	defer el.mu.Unlock()
	if el.lease == nil || !el.lease.Valid() {
		return nil
	}
	return el.lease
}

// Close gives up the lead, if this process has it, and the campaign. Stop the scheduler before: it does not
// end the jobs that run.
func (el *Elector) Close() error {
	el.stop()
	<-el.done
	el.mu.Lock()
	defer el.mu.Unlock()
	if errors.Is(el.err, context.Canceled) {
		return nil
	}
	return el.err
}
