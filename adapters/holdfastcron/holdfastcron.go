// Package holdfastcron runs each tick of a job of robfig/cron in only one of the processes with the
// same schedule.
//
//	once := holdfastcron.OneProcess(ctx, locks, "report", &holdfastcron.Options{
//		AtLeast: 10 * time.Second, // clocks differ by less
//		AtMost:  30 * time.Minute, // a run that hangs blocks no later one
//	})
//	c := cron.New()
//	job := holdfastcron.Func(func(ctx context.Context) error { return report(ctx) })
//	_, err := c.AddJob("0 * * * *", cron.NewChain(cron.Recover(cron.DefaultLogger), once).Then(job))
//
// A wrapper has one name. With [cron.WithChain] all jobs of a scheduler would share that name, and
// each would block the others: make one for each job, as above.
//
// # The context and the lease
//
// cron gives a job no context. A job that is a [Func] gets one from the wrapper: it ends when the
// lease is lost, and [holdfast.LeaseFrom] finds the lease in it, with its token. Any other
// [cron.Job] runs under the lock too, but cannot be stopped: after a loss it continues,
// concurrently with the run of another process. The wrapper logs the loss when that job has
// returned. The lease is lost if the store has not answered for the TTL, if the process was
// suspended for longer, if an operator broke it, and at the end of AtMost.
//
// # Panics
//
// A panic in the job releases the lock and propagates. cron does not recover it, so the process
// ends, unless [cron.Recover] comes before the wrapper, as above. OneProcess must be the last of a
// chain: another wrapper after it hides that the job is a Func.
package holdfastcron

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
)

// A Func is a job that runs under a context. Its error is logged.
type Func func(ctx context.Context) error

// Run panics: a Func runs only inside [OneProcess], with no wrapper between the two.
func (f Func) Run() {
	panic("holdfastcron: a Func was run without its lock: OneProcess must be the last wrapper of its chain")
}

// Options configure a wrapper; nil is the same as an empty one.
type Options struct {
	// AtLeast is how long the name stays taken after a run began, even if the run has ended: then a
	// process whose clock is behind by less does not run the same tick again. Choose it longer than
	// any two clocks differ, and shorter than the time between two ticks by as much. It is the
	// MinHold of the lease, see [holdfast.Options].
	AtLeast time.Duration
	// AtMost is how long a run may take. Then its lease is lost, its context ends, and the next
	// tick can run. It must be at least AtLeast. It is the MaxHold of the lease.
	AtMost time.Duration
	// Logger receives, at level info, each tick that is skipped because the job runs elsewhere. As
	// errors it receives ticks that are skipped because the store cannot be asked, the errors of a
	// Func, and leases that were lost during a run. Default: [cron.DefaultLogger].
	Logger cron.Logger
}

// OneProcess returns a wrapper that runs the job if the lock of the name is free, and otherwise
// skips the tick. It never waits for another run. Give the same job the same name in all processes.
// Two runs of one process exclude each other too, so you do not need cron.SkipIfStillRunning.
//
// A zero duration keeps that of locks. If a duration is negative, or longer than the store allows,
// each tick is skipped and logs a [holdfast.ErrInvalid].
//
// ctx is for shutdown: when it ends, no new tick runs, and the contexts of running ticks end.
// [cron.Cron.Stop] ends no job.
func OneProcess(ctx context.Context, locks *holdfast.Locker, name string, o *Options) cron.JobWrapper {
	if o == nil {
		o = &Options{}
	}
	w := &wrapper{
		ctx:  ctx,
		lock: locks.With(&holdfast.Options{MinHold: o.AtLeast, MaxHold: o.AtMost}).Mutex(name), //mutant:cron-times
		name: name,
		log:  o.Logger,
	}
	if w.log == nil {
		w.log = cron.DefaultLogger
	}
	return func(j cron.Job) cron.Job { return cron.FuncJob(func() { w.run(j) }) }
}

type wrapper struct {
	ctx  context.Context
	lock *holdfast.Lock
	name string
	log  cron.Logger
}

func (w *wrapper) run(j cron.Job) {
	if w.ctx.Err() != nil {
		return
	}
	ran, err := w.lock.TryDo(w.ctx, func(ctx context.Context) error { //mutant:cron-try
		if f, ok := j.(Func); ok {
			return f(ctx) //mutant:cron-context
		}
		j.Run()
		return nil
	})
	switch {
	case errors.Is(err, holdfast.ErrLost): //mutant:cron-loss
		w.log.Error(err, "the lock was lost during the run", "job", w.name)
	case ran && err != nil:
		w.log.Error(err, "the run failed", "job", w.name)
	case err != nil && w.ctx.Err() == nil:
		w.log.Error(err, "skip: the lock cannot be asked for", "job", w.name)
	case !ran && err == nil:
		w.log.Info("skip: it runs elsewhere, or began to a moment ago", "job", w.name)
	}
}
