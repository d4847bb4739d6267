package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Campaign campaigns until the store answers. If ctx ends before, the error says
// both that and why there was no answer.
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
		_ = w.l.e.pause(ctx, jitter(s.PollMax)) // what ends it, ends the next try
	}
}

// TermLost says in the log that the term of the lease was lost, and that its
// candidate goes on. err is what came of the term.
func (l *Lease) TermLost(err error) {
	l.hold.s.Logger.Warn("holdfast: the term was lost, campaigning again", l.hold.attrs("err", err)...)
}
