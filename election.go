package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// An Election is one name that at most one candidate leads at a time, wherever
// the candidates are. It is the [Mutex] of the name: who holds it leads, and
// candidates are served in the order in which they came (those of one process
// one after another, see [Mutex.Lock]). A candidate is known
// to others by Options.Owner and Options.Note. It keeps no state of its own and
// is safe for concurrent use.
type Election struct{ w want }

// Election returns the election of the name: any UTF-8 of 1 to 512 bytes. A bad
// name is an ErrInvalid of the first call.
func (l *Locker) Election(name string) *Election {
	// Others see a leader by what the store says of him: so he has asked himself.
	l = l.With(&Options{HandOver: &HandOver{}}) //mutant:candidate-handed-lead
	return &Election{want{l: l, name: name, limit: store.Full, weight: store.Full, verb: "lead"}}
}

// Campaign waits until we lead, and returns the lease of that term. To release
// it is to resign. See [Mutex.Lock].
func (e *Election) Campaign(ctx context.Context) (*Lease, error) { return e.w.lock(ctx) }

// Lead campaigns and runs fn while we lead. The context of fn ends with ctx or
// with the term, and [LeaseFrom] finds the lease in it.
//
// When fn returns, Lead resigns and returns fn's error; except if the term was
// lost before fn returned: then whatever fn returned comes of that, Lead logs it
// and campaigns again, behind those who wait already. It never returns before
// fn, and a panic in fn resigns.
//
// While the store does not answer, Lead goes on campaigning until ctx ends, and
// says so in the log: an outage must not leave a name without candidates. Any
// other error of a campaign is returned; see [Mutex.Lock]. It matches ErrNotRun
// if fn was never called, in no term; see [Mutex.Do] for what Lead returns else.
// Options.Wait bounds each campaign by itself.
func (e *Election) Lead(ctx context.Context, fn func(context.Context) error) error {
	for ran := false; ; ran = true {
		lease, err := e.campaign(ctx)
		if err != nil && !ran { //mutant:lead-has-run
			return notRun(err)
		}
		if err != nil {
			return err
		}
		var term context.Context
		err = lease.run(ctx, func(ctx context.Context) error {
			term = ctx
			return fn(ctx)
		})
		if !errors.Is(context.Cause(term), ErrLost) { //mutant:term-without-end
			return err
		}
		e.w.l.s.Logger.Warn("holdfast: the term was lost, campaigning again", lease.hold.attrs("err", err)...)
	}
}

// campaign campaigns until the store answers. If ctx ends before, the error says
// both that and why there was no answer.
func (e *Election) campaign(ctx context.Context) (*Lease, error) {
	s := e.w.l.s
	for away := error(nil); ; {
		lease, err := e.w.lock(ctx)
		if away != nil && err != nil && ctx.Err() != nil && !errors.Is(err, ErrHeld) {
			return nil, fmt.Errorf("%w; before: %w", err, away)
		}
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil { //mutant:outage-ends
			return lease, err
		}
		away = err
		s.Logger.Warn("holdfast: campaigning, but the store does not answer", "name", e.w.name, "store", e.w.l.e.desc.Store, "err", err)
		_ = e.w.l.e.pause(ctx, jitter(s.PollMax)) // what ends it, ends the next try
	}
}
