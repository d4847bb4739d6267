package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A changer changes the weight of an upgradeable hold, one change at a time. It
// counts an upgrade when the store has granted it, and a downgrade before it is
// sent.
type changer struct {
	h            *hold
	w            Target        // the upgrade as a target, for its pace and its errors
	one          chan struct{} // full while a change is under way
	turn         int32         // number of the newest change; owned by the goroutine that filled one
	upgradeToken atomic.Int64  // of the newest upgrade; 0: there was none
	open         bool          // a try of the newest change may have been applied without an answer; owned like turn
	full         bool          // the hold is upgraded. Guarded by h.mu
}

func newChanger(h *hold, w *Target) *changer {
	up := *w
	up.verb = "upgrade"
	return &changer{h: h, w: up, one: make(chan struct{}, 1)}
}

var errUpgradeForgotten = fmt.Errorf("%w: the store no longer has its upgrade, so others may read by now", store.ErrLost)

// forgotten reports whether the store renewed an upgraded hold as one that is not
// upgraded. Then the store has lost the upgrade, for example in a failover to a replica
// without it, and admits readers. No change is under way, as renewals and changes never
// overlap.
func (c *changer) forgotten(r *store.Renewal) bool {
	if c == nil || r.Weight >= store.Full { //mutant:upgrade-forgotten
		return false
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	return c.full
}

// An upgrade is one call of Upgrade or TryUpgrade.
type upgrade struct {
	pace
	c     *changer
	l     *Lease
	try   bool
	began clock.Instant // when the caller asked; 0 without an observer
	pos   ahead         // what the observer received last
	away  trouble       // the failures of the upgrade, not of changing back
	done  chan struct{} // closed when its outcome is known
	err   error         // set if it was not granted; to read after done

	// Guarded by the hold's lock.
	reported *refused // the store's last refusal
	gone     bool     // its caller no longer waits
	ok       bool     // it was granted before gone
}

// Upgrade waits until the lease is upgraded, or only tries.
func (l *Lease) Upgrade(ctx context.Context, try bool) error {
	h, c := l.hold, l.hold.changer
	if !h.e.enter() {
		return l.errorf(store.ErrClosed)
	}
	defer h.e.work.Done()
	if err := ctx.Err(); err != nil {
		return c.w.errorf(err)
	}
	if err := l.upgradeDeadlock(ctx); err != nil {
		return err
	}
	h.checkClock()
	began := h.e.stamp(c.w.l.s)
	bound := func() {}
	if d := h.s.Wait; d > 0 && !try {
		ctx, bound = context.WithTimeout(ctx, d)
	}
	defer bound()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	h.mu.Lock()
	under, why := l.join(waiting), l.why
	h.mu.Unlock()
	if why != nil {
		return l.errorf(why)
	}
	if l.weight.Load() == store.Full {
		return c.w.errorf(fmt.Errorf("%w: it is upgraded already", store.ErrInvalid))
	}
	if try {
		select {
		case c.one <- struct{}{}:
		default:
			return c.w.refusal(&store.Answer{}, time.Now(), nil) // another change of the hold is under way
		}
	} else {
		select {
		case c.one <- struct{}{}:
		case <-under.Done():
			return l.notUpgraded(c.w.gaveUp(ctx.Err(), nil, nil))
		}
	}
	if shared, why := c.shared(l); shared || why != nil {
		<-c.one
		if why != nil {
			return l.errorf(why)
		}
		return nil
	}
	u := &upgrade{c: c, l: l, try: try, began: began, pace: newPace(&c.w), done: make(chan struct{})}
	h.e.work.Go(func() { u.run(under) })
	select {
	case <-u.done:
	case <-under.Done():
		if h.e.desc.InProcess { // this takes no time, and nothing may be left when the caller has its answer
			<-u.done
		}
	}
	h.mu.Lock()
	u.gone = true
	ok, told := u.ok, u.reported
	h.mu.Unlock()
	if ok {
		h.debug("holdfast: upgraded", "upgrade_token", l.Token())
		return nil
	}
	select {
	case <-u.done:
		return l.notUpgraded(u.err)
	default:
		return l.notUpgraded(c.w.gaveUp(ctx.Err(), told, u.away.now(h.e)))
	}
}

// notUpgraded returns why the lease has ended, if it has; otherwise err.
func (l *Lease) notUpgraded(err error) error {
	l.hold.checkClock()
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.why != nil {
		return l.errorf(l.why)
	}
	return err
}

// upgradeDeadlock returns ErrDeadlock if ctx is derived from a lease of another hold
// of the name: the upgrade would wait for its own caller.
func (l *Lease) upgradeDeadlock(ctx context.Context) error {
	ls := chainOf(ctx)
	for ; ls != nil; ls = ls.outer {
		other := ls.lease
		if h := other.hold; h != l.hold && h.e == l.hold.e && h.Name == l.hold.Name && other.Valid() { //mutant:upgrade-waits-own-caller
			return l.hold.changer.w.blocksItself(other, "release that first")
		}
	}
	return nil
}

// shared upgrades the lease if the hold is upgraded already, for another lease, and
// reports whether it is: then nothing needs to be sent. The error is why the lease has
// ended.
func (c *changer) shared(l *Lease) (bool, error) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.full && l.state == held {
		l.weight.Store(store.Full)
	}
	return c.full, l.why
}

// run waits for the upgrade, and changes the hold back if the upgrade failed. It has its
// own goroutine, so that the caller can leave at once. A caller that has not left waits
// for the change back, for at most releaseFor; if the store is unavailable, not at all.
func (u *upgrade) run(ctx context.Context) {
	back, err := u.wait(ctx)
	u.err = err
	tell := sync.OnceFunc(func() { close(u.done) })
	switch {
	case !back:
	case errors.Is(err, store.ErrUnavailable):
		tell() //mutant:upgrade-return-before-changed
		u.c.back()
	default:
		defer time.AfterFunc(u.s.releaseFor(), tell).Stop()
		u.c.back()
	}
	<-u.c.one // before the caller has its answer, as it may try again at once
	tell()
}

// wait sends the upgrade until it is granted or the wait ends. It returns whether the
// hold must be changed back.
func (u *upgrade) wait(ctx context.Context) (back bool, err error) {
	c, w := u.c, &u.c.w
	u.endsWith(ctx)
	subscribed := u.e.notifications.watcher == nil || u.e.notifications.ready()
	if subscribed {
		u.listen()
	}
	defer u.e.notifications.remove(c.h.ID)
	why := u.s.AskToGiveUp
	if u.try {
		why = "" //mutant:try-upgrade-asks
	}
	c.next()
	for {
		u.isLast()
		var worthIt func(error, time.Duration) bool
		// An upgrade that was refused once waits, and survives a restart of the server.
		if u.refused == nil { //mutant:upgrade-waits-closed-port
			worthIt = u.e.whileListened() //mutant:upgrade-closed-port
		}
		a, sent, err := c.send(worthIt, store.Full, why, u.s.askFor(), ctx.Done(), &u.away)
		switch {
		case ctx.Err() != nil && err != nil && !store.Definite(err):
			if answered(err) {
				err = nil //mutant:upgrade-lost-races-blame-the-store
			}
			return true, w.gaveUp(ctx.Err(), u.refused, err)
		case errors.Is(err, store.ErrContended) && !u.try: //mutant:upgrade-lost-races-are-no-outage
			continue
		case err != nil:
			return c.open || !store.Definite(err), w.errorf(indeterminate(err)) // otherwise nothing was changed //mutant:unclear-upgrade-changed-back
		case a.Granted && u.granted(&a):
			return false, nil
		case a.Granted: // too late: the caller has left or the lease has ended
			return true, w.gaveUp(ctx.Err(), u.refused, nil)
		}
		u.refuse(&a, sent)
		c.h.mu.Lock()
		u.reported = u.refused
		c.h.mu.Unlock()
		if u.try {
			return true, w.refusal(&a, u.refused.when, nil) //mutant:try-upgrade-stays-pending
		}
		u.tellWaiting(&a)
		if !subscribed { // subscribe and ask again, so that no notification is missed
			u.e.notifications.subscribe(ctx, u.s)
			u.listen()
			subscribed = true
			continue //mutant:upgrade-waits-look-once
		}
		if _, _, err := u.rest(ctx, true); err != nil { //mutant:hint-grants-upgrade
			return true, w.gaveUp(err, u.refused, nil) //mutant:cancelled-upgrade-stays-pending
		}
	}
}

func (u *upgrade) listen() {
	u.notified = make(chan store.Notification, 1)
	u.e.notifications.add(u.c.h.ID, u.notified)
}

// tellWaiting reports to the observer that the upgrade waits, if the answer is news and the caller still waits.
func (u *upgrade) tellWaiting(a *store.Answer) {
	h := u.c.h
	if u.s.Observer == nil || !u.pos.isNews(a) {
		return
	}
	h.mu.Lock()
	gone := u.gone
	h.mu.Unlock()
	if !gone {
		u.s.notify(h.event(EventWaiting, u.e.now().Sub(u.began), u.c.w.refusal(a, u.refused.when, nil))) //mutant:upgrade-waits-in-silence
	}
}

// granted counts the hold and the lease as upgraded, and returns true, if the caller
// still waits and the lease has not ended.
func (u *upgrade) granted(a *store.Answer) bool {
	h := u.c.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.gone || u.l.state != held { //mutant:upgrade-granted-left
		return false
	}
	u.c.upgradeToken.Store(a.UpgradeToken)
	u.c.full = true
	u.l.weight.Store(store.Full)
	u.ok = true
	return true
}

// next begins a new change.
func (c *changer) next() { c.turn, c.open = c.turn+1, false } //mutant:each-act-first

// send sends the change of the newest turn until its outcome is known, d has passed,
// worthIt returns false, or stop is closed. why is the reason with which an upgrade
// asks the other holders to give up.
func (c *changer) send(worthIt func(error, time.Duration) bool, weight int64, why string, d time.Duration, stop <-chan struct{}, away *trouble) (a store.Answer, sent clock.Instant, err error) {
	h := c.h
	away.began(h.e)
	defer away.ended()
	err = h.e.repeatWhile(nil, worthIt, d, stop, func(context.Context) (err error) {
		lent := h.e.sched.lend(h)
		if lent == nil {
			return fmt.Errorf("%w: it is over", store.ErrLost)
		}
		h.e.bounded(h.values, h.s.callTime(), func(ctx context.Context) { //mutant:change-leaves-time-for-renewal
			sent = h.e.now() //mutant:each-repetition-act
			asked := h.Hold
			asked.GiveUp = why //mutant:upgrade-asks-nobody
			a, err = h.e.store.Change(ctx, asked, c.turn, weight)
		})
		err = h.e.sched.returned(h, lent, err)
		c.open = c.open || !store.Definite(err)
		away.met(h.e, err)
		return err
	})
	return a, sent, err
}
