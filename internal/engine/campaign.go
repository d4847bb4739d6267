package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Campaign claims the target, and retries while the store is unavailable. If ctx
// ends first, the error includes why the store did not answer.
func (w *Target) Campaign(ctx context.Context) (*Lease, error) {
	s := w.l.s
	for away := error(nil); ; {
		lease, err := w.Lock(ctx)
		if away != nil && err != nil && ctx.Err() != nil && !errors.Is(err, store.ErrHeld) {
			return nil, fmt.Errorf("%w; before: %w", err, away)
		}
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil { //mutant:outage-ends
			return lease, err
		}
		away = err
		s.Logger.Warn("holdfast: campaigning, but the store does not answer", "name", w.name, "store", w.l.e.desc.Store, "err", err)
		_ = w.l.e.pause(ctx, jitter(s.PollMax)) // whatever ends this early also ends the next Lock
	}
}

// TermLost logs that the term of the lease was lost, with the term's error, and that
// its candidate campaigns again.
func (l *Lease) TermLost(err error) {
	l.hold.s.Logger.Warn("holdfast: the term was lost, campaigning again", l.hold.attrs("err", err)...)
}
