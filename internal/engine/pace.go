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
	since    clock.Instant           // from when its queue position lasts, for sure
	lasts    time.Duration           // for how long it does
	took     time.Duration           // how long that took
	refused  *refused                // what the store answered last, maybe to another claim in the local queue; nil: nothing yet
	notified chan store.Notification // nil: not listening
	poll     time.Duration           // the next pause, where no notifications come
	then     time.Duration           // the one after that; 0: it grows
	ahead    int                     // how many waited ahead, by the newest answer
	movedAt  clock.Instant           // since when it is so many; 0: no answer yet
	ends     clock.Instant           // when the context ends; 0: not known
	last     bool                    // the last ask before that was sent
}

func newPace(w *Target) pace { return pace{e: w.l.e, s: w.l.s, poll: w.l.s.PollMin} }

// endsWith notes when the context ends, for the last ask before that.
func (p *pace) endsWith(ctx context.Context) {
	if d, ok := ctx.Deadline(); ok {
		p.ends = p.e.now().Add(time.Until(d))
	}
}

// isLast notes whether the ask that is sent now is the last one.
func (p *pace) isLast() { p.last = p.ends != 0 && p.e.now() >= p.lastAsk() }

// refuse notes a refusal that was asked for at the instant.
func (p *pace) refuse(a *store.Answer, sent clock.Instant) {
	p.sent, p.took = sent, p.e.now().Sub(sent)
	p.since, p.lasts = sent, cmp.Or(a.TTL, p.s.positionTTL) //mutant:time-of-a-place-used
	if a.From != 0 {                                        //mutant:instant-of-a-place-used
		p.since = a.From
	}
	p.refused = &refused{*a, time.Now()}
	p.moved(a)
}

// moved notes how many wait ahead. A waiter that has just come first pauses for a turn for each of them, or for a part of the time that
// the holder has had. When some have gone, it pauses for three quarters of the time that the others will take, going by that. That
// is too long if some of them slept past their turn, so the pause per waiter ahead grows by at most a quarter. So a crowd
// polls seldom, and the next in line polls when the turn of the holder is about to end, and then often.
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
		p.poll = min(times(p.poll, 1+ahead)/time.Duration(1+p.ahead)*5/6, left/4*3) // the last pause has grown by half already //mutant:polls-by-the-pace-of-the-queue
	case ahead == p.ahead:
		return
	}
	p.poll = min(max(p.poll, p.s.PollMin), p.mostPause(ahead)) //mutant:polls-no-sooner
	p.ahead, p.movedAt = ahead, now
}

// firstTurn is how long a turn is taken to be at the most, before any was seen. A longer one would set the pace of a crowd that comes at
// once: nobody polls before it has paused so long for each ahead.
const firstTurn = 5 * time.Millisecond

// aTurn is how long a turn is taken to be, before any was seen: some requests, and so as long as the ask took.
func (p *pace) aTurn() time.Duration {
	return max(min(p.took, firstTurn), p.s.PollMin) //mutant:first-turn
}

// mostPause is the longest pause with so many ahead.
func (p *pace) mostPause(ahead int) time.Duration {
	return max(min(times(p.s.PollMax, 1+ahead), p.s.positionTTL/4), p.s.PollMax)
}

// pause is how long the next pause is. Of those that go by their position no two have the same.
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

// times is d, which is not negative, n times, or the longest there is.
func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > math.MaxInt64/time.Duration(n) { //mutant:pause-overflows
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

// rest sleeps until it is time to ask again: until nextAsk, or for a while that
// grows where no notifications come (polling) and the caller is the one that polls. It
// returns a notification that came before that, or nil, or an error if the wait is over.
func (p *pace) rest(ctx context.Context, polls bool) (notification *store.Notification, polling bool, err error) {
	next := p.nextAsk()
	if polling = !p.e.notifications.ready(); polling {
		p.e.notifications.begin(p.s) // again, if that failed a while ago
	}
	if polling && polls { //mutant:all-look
		next = min(next, p.e.now().Add(p.pause()))
	}
	if notification, err = p.sleep(ctx, next); notification != nil {
		p.poll, p.then = p.s.PollMin, 0 // something has changed
	}
	return notification, polling, err
}

// polls bounds how many asks and polls of those that wait already are on their
// way at a time.
type polls chan struct{}

const (
	// mostPolls is as many as a batch has.
	mostPolls = batchSize
	// longestTurn is for how long one counts: what a server does not answer gives
	// its turn to the others, so that they keep their positions on other servers.
	longestTurn = 500 * time.Millisecond
)

// enter waits for its turn, or until stop: then there is nothing to send any more.
// What it returns is called when the answer is there.
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

// nextAsk is when to ask again if nothing is heard: at the end of the first
// obstacle ahead, after a third of the position's time, or just before the
// context ends, whichever is first.
func (p *pace) nextAsk() clock.Instant {
	at := p.e.together(p.sent.Add(p.s.positionTTL/3), p.s.positionTTL/30) //mutant:safety-look
	if until := p.refused.answer.Until; until > 0 {                       //mutant:look-end-obstacle
		// Counted from when the answer came, so not too early.
		at = min(at, p.sent.Add(p.took+max(until, time.Millisecond)))
	}
	if p.ends != 0 && !p.last { //mutant:last-ask
		at = min(at, p.lastAsk())
	}
	return at
}

// lastAsk is when the last ask before the end of the context has to be sent in
// order to be answered in time, going by the one before.
func (p *pace) lastAsk() clock.Instant {
	return p.ends.Add(-min(max(2*p.took, 5*time.Millisecond), 250*time.Millisecond))
}

// sleep returns a notification, or nil at the instant, or an error if the wait is over.
func (p *pace) sleep(ctx context.Context, until clock.Instant) (*store.Notification, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select { // it may be past the time to ask, and a notification spares that
	case h := <-p.notified:
		return &h, nil
	default:
	}
	timer := time.NewTimer(until.Sub(p.e.now()))
	defer timer.Stop()
	select {
	case h := <-p.notified:
		return &h, ctx.Err() // both may have come: after its end nothing is granted //mutant:hint-grants-after-end
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.e.closing: //mutant:close-end-waits
		return nil, store.ErrClosed
	}
}
