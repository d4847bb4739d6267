package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A batch has the holds that are renewed in one call.
type batch struct {
	lane  lane
	cut   clock.Instant // when the holds were found to be due
	holds []*hold
	done  chan struct{} // closed when the answers have been read
}

// A lane is what the holds of a batch have in common, so that no hold delays the
// others: how long their calls may take, and whether their newest renewals were
// answered. If one was not, the next is likely not to be answered either, for example
// if one of several servers is frozen.
type lane struct {
	bound  time.Duration
	silent bool
}

func (h *hold) lane() lane {
	return lane{h.s.callTime(), h.retries > 0} //mutant:unanswered-goes-with-rest
}

// values returns the values of the only hold if that is asked for again while its claim
// waits for other names. A batch of renewals has no values.
func (b *batch) values() *values {
	if h := b.holds[0]; h.unshown != nil {
		return h.values
	}
	return nil //mutant:values-of-batch
}

// serving returns ctx with the contexts of the claims that a call for the holds serves.
func (s *scheduler) serving(ctx context.Context, holds []*hold) context.Context {
	if s.e.desc.InProcess { // there is no driver //mutant:batch-in-no-trace
		return ctx
	}
	return store.ForClaims(ctx, func() []context.Context {
		s.mu.Lock() // a hold may be handed on meanwhile
		defer s.mu.Unlock()
		all := make([]context.Context, len(holds))
		for i, h := range holds {
			all[i] = h.values //mutant:batch-of-nobody
		}
		return all
	})
}

// callTime bounds the renewals of a hold, and the changes that delay them, so that
// there is time for another renewal before the hold is lost. It is rounded down to
// one of a few values, as holds with different values do not share a call.
func (s *settings) callTime() time.Duration {
	d := min(longestCall, s.RenewEvery)
	if s.TTL > 0 {
		d = min(d, (s.TTL-s.RenewEvery)/2) //mutant:bound-leaves-no-time
	}
	if few := bits.Len64(uint64(d)) - 3; few > 0 && d < longestCall {
		d = d >> few << few
	}
	return d
}

// slot waits until the batch may be sent. The caller calls free when the batch has been
// answered. A batch that hangs gives its slot to others.
func (s *scheduler) slot(b *batch) (free func()) {
	if s.e.desc.InProcess {
		return func() {}
	}
	slots := s.slots[0]
	if b.lane.silent {
		slots = s.slots[1]
	}
	slots <- struct{}{}
	once := sync.OnceFunc(func() { <-slots })
	hangs := time.AfterFunc(min(grace, b.lane.bound/8), once) //mutant:call-hangs-keeps-slot
	return func() {
		hangs.Stop()
		once()
	}
}

// renew sends one batch and reads the answers.
func (s *scheduler) renew(b batch) {
	defer s.slot(&b)()
	s.mu.Lock()                                                                     // a hold that ended while the batch waited for its slot is not renewed
	b.holds = slices.DeleteFunc(b.holds, func(h *hold) bool { return h.index < 0 }) //mutant:ended-renewed
	asked := make([]store.Hold, len(b.holds))
	for i, h := range b.holds {
		asked[i] = h.Hold
		asked[i].TTL = h.renewFor()
		asked[i].ByHand = h.s.NoRenew //mutant:renewed-as-by-hand
	}
	s.mu.Unlock()
	if len(b.holds) == 0 {
		close(b.done)
		return
	}
	var sent clock.Instant
	var answers []store.Renewal
	s.e.within(b.values(), b.lane.bound, true, func(ctx context.Context) { //mutant:close-renewal-hangs-takes
		sent = s.e.now()
		if again := b.holds[0].unshown; again != nil { //mutant:hold-waits-renewed
			answers = []store.Renewal{s.e.askAgain(ctx, *again, asked[0].Token)}
			return
		}
		answers = s.e.store.Renew(s.serving(ctx, b.holds), asked) //mutant:deadline-renewal-counts-reply
	})
	now := s.e.now() //mutant:deadline-counts-reply

	var tell []func() // called without the lock, as a logger may be slow
	s.mu.Lock()
	var seen []renewalReport
	for i, h := range b.holds {
		err := answers[i].Err   //mutant:name-failure-fails-batch
		if h.flight == b.done { // otherwise a multiAcquire has borrowed it and waits for done
			h.flight = nil
		}
		if err == nil && h.changer.forgotten(&answers[i]) {
			err = errUpgradeForgotten
			answers[i].Err = err
		}
		if errors.Is(err, store.ErrLost) {
			err = indeterminate(err) //mutant:context-loss-renewal
			answers[i].Err, h.reported = err, err
		}
		if h.index < 0 {
			continue // the hold ended meanwhile: the answer does not revive it
		}
		if why := h.renewed(answers[i], b.cut, sent, now); why != nil {
			s.out(h)
			tell = append(tell, func() { h.lose(why) })
			continue
		}
		if h.s.Observer != nil {
			seen = append(seen, h.renewalReport(now.Sub(h.due), err)) //mutant:renewal-answered-never-late
		}
		if reason := answers[i].GiveUp; err == nil && h.hearsAsk(reason) {
			if h.s.Observer != nil {
				asked := h.event(EventAskedToGiveUp, h.age(), nil)
				asked.Reason = reason
				seen = append(seen, renewalReport{h.s, asked})
			}
			tell = append(tell, func() { h.debug("holdfast: a waiter asks to give the lock up", "reason", reason) })
		}
		if log := h.s.Logger; err == nil {
			clear(s.away) //mutant:warning-ever
		} else if h.retries == 1 { // once per hold, not per try
			level := slog.LevelDebug
			if !s.away[log] { // in an outage, only the first hold warns
				s.away[log], level = true, slog.LevelWarn //mutant:each-lease-warns-outage
			}
			if log.Enabled(context.Background(), level) {
				msg, attrs := "holdfast: renewal failed, trying again until the lease runs out", h.attrs("err", indeterminate(err), "held", len(s.holds))
				if s.e.endless { //mutant:warning-end-come
					msg = "holdfast: no answer whether the lease is held still, asking again"
				} else {
					attrs = append(attrs, "left", h.deadline.Sub(now))
				}
				tell = append(tell, func() { log.Log(context.Background(), level, msg, attrs...) })
			}
		}
		s.moved(h)
	}
	s.arm()
	close(b.done)
	s.mu.Unlock()
	for _, t := range seen {
		t.s.notify(t.e)
	}
	for _, f := range tell {
		f()
	}
}

// askAgain extends a hold whose token must not be shown yet, by an ask. A hold that
// the store has forgotten is lost, not recreated.
func (e *engine) askAgain(ctx context.Context, c store.Claim, token int64) store.Renewal {
	c.Try = true
	a, err := e.store.Ask(ctx, c)
	if err == nil && (!a.Granted || a.Token != token) { //mutant:store-forgot-made-again
		if a.Granted {
			_ = e.store.Release(ctx, store.Hold{Name: c.Name, ID: c.ID, Announce: c.Announce}) // if this fails, the new grant expires with its TTL
		}
		err = store.ErrLost
	}
	return store.Renewal{Err: err, TTL: a.TTL, From: a.From}
}

// renewed applies the answer to a renewal that was due at cut, sent at sent and
// answered at now. It returns an error if the hold is lost. It checks the clock first:
// an answer after the deadline does not revive the hold. The next renewal counts from
// cut, so that holds that were renewed together stay together.
func (h *hold) renewed(r store.Renewal, cut, sent, now clock.Instant) error {
	switch {
	case h.deadline <= now: //mutant:answer-after-deadline-revives
		return errTimeOver
	case r.Err == nil:
		if r.From != 0 {
			cut, sent = r.From, r.From
		}
		h.retries = 0
		if !h.ends(max(h.deadline, min(h.e.deadlineOf(sent, r.TTL), h.cut()))) { //mutant:ttl-answer-used
			return errTimeOver
		}
		h.renewAt = h.s.renewAt(cut, h.s.renewAfter(r.TTL)) //mutant:renewed-together-again
		h.answered(nil, now)
		h.granted = r.TTL
		return nil
	case errors.Is(r.Err, store.ErrLost): //mutant:ours-asked-again
		return r.Err
	}
	// Indeterminate, or refused for now: the hold lasts until its deadline, so try again soon.
	h.retries++
	pause := min(h.s.RenewEvery/4, (10*time.Millisecond)<<min(h.retries, 6))
	h.renewAt = now.Add(jitter(pause)) //mutant:unclear-renewal-tried-again
	h.answered(r.Err, now)
	return nil
}

// jitter returns d ± 20 %.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
