package natsstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

const (
	sweepEvery = time.Minute
	sweepOdds  = 8   // of a process that has just come one in so many sweeps; it may not live for a minute
	sweepSteps = 100 // records at a time
	sweepLimit = 10 * time.Second
	sweepAge   = 24 * time.Hour // of the newest write to a record
)

func firstSweep() store.Instant {
	if rand.N(sweepOdds) == 0 {
		return store.Now()
	}
	return store.Now().Add(sweepEvery)
}

// sweep takes out what crashed processes have left in names that nobody has asked for
// since. The records are met in the order in which they were last written, so
// with the first that is young enough it is done: one request, mostly.
func (s *Store) sweep() {
	ctx, cancel := context.WithTimeout(s.ctx, sweepLimit)
	defer cancel()
	for range sweepSteps {
		if more, err := s.sweepNext(ctx, sweepAge); err != nil || !more {
			return // it is tried again in a while, or by another process
		}
	}
}

// sweepNext sweeps the next record, if it was not written for so long, and reports
// whether there may be more.
func (s *Store) sweepNext(ctx context.Context, age time.Duration) (more bool, err error) {
	b, err := s.prepared(ctx, false)
	if b == nil {
		return false, err
	}
	m, err := b.stream.GetMsg(ctx, s.swept+1, jetstream.WithGetMsgSubject(s.subject("n.>")))
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && b.now().Clock-m.Time.UnixMicro() < age.Microseconds() { //mutant:nats-young-swept
		s.swept = 0
		return false, nil
	}
	if err != nil {
		return false, s.noStream(err)
	}
	s.swept = m.Sequence
	name, ok := nameOf(strings.TrimPrefix(m.Subject, s.subject("")))
	if !ok {
		return true, nil
	}
	err = s.change(ctx, name, how{evict: true, fresh: true}, func(r *record) (queue.Change, error) { //mutant:nats-dead-swept
		return r.q.Release(r.now, &store.Hold{Name: name})
	})
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrUnsupported) { //mutant:nats-sweep-stops-ours
		err = nil // it is not ours
	}
	return err == nil, err
}
