package engine

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A pace schedules a waiter's next ask. There is one per waiter, and one for an
// upgrade that waits.
type pace struct {
	e *engine
	s *settings

	sent     clock.Instant           // when the newest ask that was answered was sent
	since    clock.Instant           // its queue position lasts at least from here
	lasts    time.Duration           // for how long its queue position lasts
	took     time.Duration           // how long the newest answered ask took
	refused  *refused                // the store's last answer, perhaps to another claim in the local queue; nil: none yet
	notified chan store.Notification // nil: not listening
	poll     time.Duration           // the next pause, without notifications
	then     time.Duration           // the pause after that; 0: the next one grows
	ahead    int                     // how many waited ahead, by the newest answer
	movedAt  clock.Instant           // when ahead last changed; 0: no answer yet
	ends     clock.Instant           // when the context ends; 0: not known
	last     bool                    // the last ask before ends was sent
}

func newPace(w *Target) pace { return pace{e: w.l.e, s: w.l.s, poll: w.l.s.PollMin} }

// endsWith notes when the context ends, so that there is a last ask before that.
func (p *pace) endsWith(ctx context.Context) {
	if d, ok := ctx.Deadline(); ok {
		p.ends = p.e.now().Add(time.Until(d))
	}
}

// isLast notes whether the ask that is sent now is the last one.
func (p *pace) isLast() { p.last = p.ends != 0 && p.e.now() >= p.lastAsk() }

// refuse notes that the ask sent at the instant was refused.
func (p *pace) refuse(a *store.Answer, sent clock.Instant) {
	p.sent, p.took = sent, p.e.now().Sub(sent)
	p.since, p.lasts = sent, cmp.Or(a.TTL, p.s.positionTTL) //mutant:time-of-a-place-used
	if a.From != 0 {                                        //mutant:instant-of-a-place-used
		p.since = a.From
	}
	p.refused = &refused{*a, time.Now()}
	p.moved(a)
}

// moved notes how many wait ahead, and sets the next pause. A new waiter pauses for one turn per waiter ahead and one for
// the holder, or for an eighth of the time that a holder has had the name if that is longer. When some ahead have gone,
// the waiter estimates the length of a turn from that, and pauses for three quarters of the time that the others will
// take. That is too long if some of them slept past their turn, so the pause per waiter ahead grows by at most a quarter.
// So a crowd polls rarely; the next in line polls when the holder's turn is about to end, and then often.
func (p *pace) moved(a *store.Answer) {
	now, ahead := p.e.now(), a.Waiting
	switch {
	case p.movedAt == 0:
		p.poll = p.s.PollMin
		if ahead > 0 {
			p.poll = times(p.aTurn(), 1+ahead) //mutant:polls-by-position
		}
		for i := range a.Holders {
			p.poll = max(p.poll, min(a.Holders[i].Age/8, p.s.PollMax))
		}
	case ahead < p.ahead:
		turn := now.Sub(p.movedAt) / time.Duration(p.ahead-ahead)
		left := times(turn, ahead)
		if ahead == 0 {
			left, p.then = turn, max(turn/8, p.s.PollMin) //mutant:polls-often-once-next
			for i := range a.Holders {
				left = min(left, turn-a.Holders[i].Age) //mutant:polls-as-the-turn-ends
			}
		}
		p.poll = min(times(p.poll, 1+ahead)/time.Duration(1+p.ahead)*5/6, left/4*3) // p.poll is 3/2 of the last pause, so 5/6 of it is 5/4 //mutant:polls-by-the-pace-of-the-queue
	case ahead == p.ahead:
		return
	}
	p.poll = min(max(p.poll, p.s.PollMin), p.mostPause(ahead)) //mutant:polls-no-sooner
	p.ahead, p.movedAt = ahead, now
}

// firstTurn is the longest estimate of a turn before any was seen. A longer one would slow down a crowd that comes at
// once, as each waiter first pauses that long per waiter ahead.
const firstTurn = 5 * time.Millisecond

// aTurn estimates a turn before any was seen. A turn is a few requests, so about as long as the ask took.
func (p *pace) aTurn() time.Duration {
	return max(min(p.took, firstTurn), p.s.PollMin) //mutant:first-turn
}

// mostPause returns the longest pause with that many ahead.
func (p *pace) mostPause(ahead int) time.Duration {
	return max(min(times(p.s.PollMax, 1+ahead), p.s.positionTTL/4), p.s.PollMax)
}

// pause returns the next pause, and sets the one after it. Waiters that pause by their position need less jitter, as no
// two have the same position.
func (p *pace) pause() time.Duration {
	spread := jitter(p.poll)
	if p.ahead > 0 { //mutant:position-with-jitter
		spread = p.poll + (spread-p.poll)/4
	}
	grown := p.poll * 3 / 2
	switch {
	case p.then > 0:
		grown, p.then = p.then, 0
	case p.ahead == 0: //mutant:polls-grow-slowly-once-next
		grown = p.poll * 5 / 4
	}
	p.poll = min(grown, p.mostPause(p.ahead)) //mutant:polls-back-off
	return spread
}

// times returns n times d, or the longest duration if that overflows. d is not negative.
func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > math.MaxInt64/time.Duration(n) { //mutant:pause-overflows
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

// rest sleeps until it is time to ask again: until nextAsk or, if that is sooner, for a
// growing pause. There is a pause only without notifications (polling) and if this waiter
// is the one that polls (polls). rest returns a notification that came before that, or
// nil, or an error if the wait has ended.
func (p *pace) rest(ctx context.Context, polls bool) (notification *store.Notification, polling bool, err error) {
	next := p.nextAsk()
	if polling = !p.e.notifications.ready(); polling {
		p.e.notifications.begin(p.s) // try again if the last subscription failed a while ago
	}
	if polling && polls { //mutant:all-look
		next = min(next, p.e.now().Add(p.pause()))
	}
	if notification, err = p.sleep(ctx, next); notification != nil {
		p.poll, p.then = p.s.PollMin, 0 // something has changed
	}
	return notification, polling, err
}

// polls bounds how many asks and polls of claims with a queue position are under way at
// a time.
type polls chan struct{}

const (
	// mostPolls is as many as a batch has.
	mostPolls = batchSize
	// longestTurn is how long a request counts. One that a server does not answer gives
	// its turn to others, so that they keep their positions on other servers.
	longestTurn = 500 * time.Millisecond
)

// enter waits for the caller's turn, or until stop is closed: then the request is no
// longer needed. The caller calls leave when it has the answer.
func (p polls) enter(e *engine, stop <-chan struct{}) (leave func()) {
	if e.desc.InProcess {
		return func() {}
	}
	select {
	case p <- struct{}{}:
	case <-stop:
		return func() {}
	}
	once := sync.OnceFunc(func() { <-p })
	hangs := time.AfterFunc(longestTurn, once) //mutant:unanswered-hold-up-others
	return func() {
		hangs.Stop()
		once()
	}
}

// nextAsk returns when to ask again if no notification comes: at the end of the
// first obstacle ahead, after a third of the position's time, or just before the
// context ends, whichever is first.
func (p *pace) nextAsk() clock.Instant {
	at := p.e.together(p.sent.Add(p.s.positionTTL/3), p.s.positionTTL/30) //mutant:safety-look
	if until := p.refused.answer.Until; until > 0 {                       //mutant:look-end-obstacle
		// Until counts from when the answer came, so that the ask is not too early.
		at = min(at, p.sent.Add(p.took+max(until, time.Millisecond)))
	}
	if p.ends != 0 && !p.last { //mutant:last-ask
		at = min(at, p.lastAsk())
	}
	return at
}

// lastAsk returns when the last ask before the end of the context must be sent to
// be answered in time, judging by how long the newest one took.
func (p *pace) lastAsk() clock.Instant {
	return p.ends.Add(-min(max(2*p.took, 5*time.Millisecond), 250*time.Millisecond))
}

// sleep returns a notification that comes before until, or nil at until, or an error if the
// wait has ended.
func (p *pace) sleep(ctx context.Context, until clock.Instant) (*store.Notification, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select { // first, as a notification can save the ask even if that is due
	case h := <-p.notified:
		return &h, nil
	default:
	}
	timer := time.NewTimer(until.Sub(p.e.now()))
	defer timer.Stop()
	select {
	case h := <-p.notified:
		return &h, ctx.Err() // nothing is granted after ctx has ended, even if both came at once //mutant:hint-grants-after-end
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.e.closing: //mutant:close-end-waits
		return nil, store.ErrClosed
	}
}
