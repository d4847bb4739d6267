// Package holdfastgocron runs the jobs of gocron in only one process at a time, of all with the
// same schedule.
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
// gocron does not tell a job that its lock is lost, for example after the process was suspended for
// longer than the TTL. A job that must not run concurrently with another gets its lease from
// [Locker.Lease] or [Elector.Lease]. It works under the lease's context, or passes its token to the
// resource that it writes to.
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

// A Locker takes the lock of a job, by the job's name, for as long as the job runs. It is safe for
// concurrent use.
type Locker struct{ byName *holdfast.ByName }

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker. The name of a job stays taken for splay after its run began, even if
// the run has ended: then a process whose clock is behind by less does not run the same job again.
// Choose splay longer than any two clocks differ, and shorter than the time between two runs. With
// 0 it is the MinHold of locks. If it is negative, or longer than the store allows, each Lock
// returns a [holdfast.ErrInvalid].
//
// Give each job a name with gocron.WithName, the same in all processes. The default is the name of
// its function, which two jobs can share.
func NewLocker(locks *holdfast.Locker, splay time.Duration) *Locker {
	return &Locker{locks.With(&holdfast.Options{MinHold: splay}).ByName()} //mutant:gocron-splay
}

// Lock takes the lock of a job. It never waits: gocron skips the run if it returns an error. The
// error matches [holdfast.ErrHeld] if the job runs elsewhere or began to within the splay, and
// otherwise is that of [holdfast.Lock.TryLock].
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

// Unlock releases the lock of a job.
func (l lock) Unlock(ctx context.Context) error { return l.byName.Unlock(ctx, l.job) } //mutant:gocron-unlock

// An Elector campaigns until it is closed. It is safe for concurrent use.
type Elector struct {
	election *holdfast.Election
	stop     context.CancelFunc
	done     chan struct{}

	mu    sync.Mutex
	lease *holdfast.Lease // of the newest term
	err   error           // why it no longer campaigns
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

// IsLeader returns nil if this process leads, and so runs the jobs. Otherwise it returns
// [ErrNotLeader], with the reason if it no longer campaigns. It does no I/O.
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

// Close gives up the leadership, if this process has it, and the campaign. Stop the scheduler
// before: Close does not end running jobs.
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
