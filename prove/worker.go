package prove

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A worker claims names, one after the other, and uses what it holds.
type worker struct {
	*child
	rng   *rand.Rand
	names []Name
	up    *holdfast.UpgradeableLease // the newest lease that can be upgraded
}

// A deed is one way to claim a name. A new way to claim is a new line in deeds.
type deed struct {
	verb  string
	modes string // the modes of the names that it is for
	share int    // its frequency, relative to the others
	claim func(w *worker, l *holdfast.Locker, name string, limit, weight int64) taking
	// weight is the weight of the claim; 0: any number of slots.
	weight int64
}

// A taking claims the name until the context ends.
type taking func(context.Context) (lease, error)

var deeds = []deed{
	{"lock", "mutex rw", 8, func(_ *worker, l *holdfast.Locker, name string, _, _ int64) taking {
		return byHoldfast(l.Mutex(name).Lock)
	}, store.Full},
	{"campaign", "mutex rw", 1, func(_ *worker, l *holdfast.Locker, name string, _, _ int64) taking {
		return byHoldfast(l.Election(name).Campaign)
	}, store.Full},
	{"try", "mutex rw", 4, func(_ *worker, l *holdfast.Locker, name string, _, _ int64) taking {
		return byHoldfast(l.Mutex(name).TryLock)
	}, store.Full},
	{"read", "rw upgrade", 8, func(_ *worker, l *holdfast.Locker, name string, _, _ int64) taking {
		return byHoldfast(l.RWMutex(name).Read().Lock)
	}, 1},
	{"tryread", "rw upgrade", 3, func(_ *worker, l *holdfast.Locker, name string, _, _ int64) taking {
		return byHoldfast(l.RWMutex(name).Read().TryLock)
	}, 1},
	{"upgradeable", "rw", 3, upgradeable, store.Upgradeable},
	{"upgradeable", "upgrade", 20, upgradeable, store.Upgradeable},
	{"slots", "slots", 8, func(_ *worker, l *holdfast.Locker, name string, limit, weight int64) taking {
		return byHoldfast(func(ctx context.Context) (*holdfast.Lease, error) {
			return l.Semaphore(name, int(limit)).Acquire(ctx, int(weight))
		})
	}, 0},
	{"tryslots", "slots", 3, func(_ *worker, l *holdfast.Locker, name string, limit, weight int64) taking {
		return byHoldfast(func(ctx context.Context) (*holdfast.Lease, error) {
			return l.Semaphore(name, int(limit)).TryAcquire(ctx, int(weight))
		})
	}, 0},
}

func upgradeable(w *worker, l *holdfast.Locker, name string, _, _ int64) taking {
	return func(ctx context.Context) (lease, error) {
		up, err := l.RWMutex(name).Upgradeable().Lock(ctx)
		if err != nil {
			return nil, err
		}
		w.up = up
		return up.Lease, nil
	}
}

// waitFor is how long most claims wait: long enough to see that a claim that waits
// at the last fault is served after it.
func waitFor(ttl time.Duration) time.Duration { return 3 * takenBy(ttl) }

// work claims until it is ordered to finish.
func (w *worker) work() {
	for !w.finishing() {
		name := w.names[w.rng.IntN(len(w.names))]
		d := w.choose(name.Mode)
		weight := d.weight
		if weight == 0 {
			weight = 1 + w.rng.Int64N(name.Limit)
		}
		bound := waitFor(w.Run.TTL)
		if w.rng.IntN(8) == 0 { // a wait that is given up
			bound = w.upTo(30 * time.Millisecond)
		} else if w.Run.Wide && w.rng.IntN(4) > 0 {
			bound = w.upTo(w.Run.TTL)
		}
		raced := w.rng.IntN(w.seldom(60)) == 0 && !w.Run.lacks(store.PromiseDeadline) && w.users == nil
		l := w.locks // nil if the locks are the user's own
		if raced {
			l = l.With(&holdfast.Options{NoRenew: holdfast.On})
		}
		claim := func(w *worker) {
			if h := w.take(d.verb, name, weight, bound, raced, w.taking(d, l, name, weight)); h != nil {
				w.hold(h)
			}
		}
		if d.verb == "lock" && !w.Run.Dense && w.rng.IntN(4) == 0 {
			w.crowd(claim)
		} else {
			claim(w)
		}
		w.sleep(w.upTo(w.pause()), w.finish)
	}
}

// taking returns the function that makes the claim.
func (w *worker) taking(d *deed, l *holdfast.Locker, name Name, weight int64) taking {
	switch {
	case w.users == nil:
		return d.claim(w, l, name.Name, name.Limit, weight)
	case d.verb == "try":
		return func(ctx context.Context) (lease, error) { return w.lockOwn(ctx, name.Name, true) }
	}
	return func(ctx context.Context) (lease, error) { return w.lockOwn(ctx, name.Name, false) }
}

// crowd makes the claim three times at once, so that the name is handed over inside
// this process.
func (w *worker) crowd(claim func(*worker)) {
	var all sync.WaitGroup
	for range 2 {
		other := &worker{child: w.child, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 3))}
		all.Go(func() { claim(other) })
	}
	claim(w)
	all.Wait()
}

// workers returns how many goroutines of a process claim locks.
func (r *Run) workers() int {
	switch {
	case r.Lines:
		return 1
	case r.Dense:
		return 9
	case r.Wide:
		return 20
	}
	return 3
}

// namesOf returns the names that a worker claims.
func (r *Run) namesOf(proc, worker int) []Name {
	if r.Dense {
		i := (proc + worker/3) % len(r.Names)
		return r.Names[i : i+1]
	}
	return r.Names
}

// moment shortens a short time in a dense run, and seldom makes there a special
// case rarer: one in how many.
func (w *worker) moment(d time.Duration) time.Duration {
	if w.Run.Dense {
		return d / 8
	}
	return d
}

func (w *worker) seldom(n int) int {
	if w.Run.Dense {
		return 20 * n
	}
	return n
}

// choose draws a deed for names of the mode.
func (w *worker) choose(mode string) *deed {
	sum, chosen := 0, (*deed)(nil)
	for i := range deeds {
		d := &deeds[i]
		if mode == "upgrade" && d.verb == "upgradeable" && w.Proc%3 != 1 {
			continue // or a waiting upgrade would block readers
		}
		if strings.Contains(d.modes, mode) && w.Run.hasDeed(d.verb) && (w.users == nil || d.verb == "lock" || d.verb == "try") {
			if sum += d.share; w.rng.IntN(sum) < d.share {
				chosen = d
			}
		}
	}
	return chosen
}

func (w *worker) finishing() bool {
	select {
	case <-w.finish:
		return true
	default:
		return false
	}
}

func (w *worker) upTo(d time.Duration) time.Duration {
	return 1 + time.Duration(w.rng.Int64N(int64(d)))
}

// sleep sleeps for d, or until end is closed.
func (w *worker) sleep(d time.Duration, end <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-end:
	}
}

// A holding is a lease, with the claim that got it.
type holding struct {
	lease
	op     int
	name   Name
	weight int64
	raced  bool
	until  time.Duration // the latest reported deadline
	ended  chan struct{} // closed when it is about to be released
}

// take makes a claim and reports its outcome.
func (w *worker) take(verb string, name Name, weight int64, bound time.Duration, raced bool, f taking) *holding {
	op := int(w.ops.Add(1))
	w.send(Event{Do: ask, Op: op, Name: name.Name, Verb: verb, Weight: weight, Limit: name.Limit, Bound: bound})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.rng == nil || w.rng.IntN(2) == 0 { // a context with a deadline that the engine can see; otherwise one that is only canceled
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, bound)
		defer stop()
	} else {
		defer time.AfterFunc(bound, cancel).Stop()
	}
	l, err := f(ctx)
	at := w.now()
	if err != nil {
		class := classify(err)
		e := Event{Do: not, At: at, Op: op, Err: class}
		if class == "other" {
			e.Text = err.Error()
		}
		w.send(e)
		return nil
	}
	h := &holding{lease: l, op: op, name: name, weight: weight, raced: raced, ended: make(chan struct{})}
	var ahead bool
	if h.until, ahead = w.deadline(l); !ahead && h.until > at { //mutant:judge-deadline-could-read-believed
		h.until = at // the lease expired before its deadline could be read, at an unknown time
	}
	e := Event{Do: got, At: at, Op: op, Token: l.Token(), ID: l.ID(), Until: h.until, Raced: raced}
	if w.users == nil {
		e.Sent = w.seen.sent(l.ID())
	} else {
		e.Tells = h.until != 0 && l.Lost() != nil
	}
	w.send(e)
	w.watchers.Go(func() { w.watch(h) })
	return h
}

// classify returns the class of an error: the first of these that it matches.
func classify(err error) string {
	for _, c := range []struct {
		class string
		err   error
	}{
		{"cancelled", context.Canceled}, {"cancelled", context.DeadlineExceeded}, {"held", holdfast.ErrHeld},
		{"unavailable", holdfast.ErrUnavailable}, {"lost", holdfast.ErrLost}, {"released", holdfast.ErrReleased}, {"closed", holdfast.ErrClosed},
	} {
		if errors.Is(err, c.err) {
			return c.class
		}
	}
	return "other"
}

// deadline returns the lease's deadline and whether it is ahead. It repeats a read
// during which the process was stopped: the result would be too early.
func (w *worker) deadline(l lease) (until time.Duration, ahead bool) {
	for {
		before := w.now()
		at := l.Deadline()
		if at.IsZero() { // the lease has no deadline
			return 0, false
		}
		left := time.Until(at)
		if w.now()-before < time.Millisecond {
			return before + left, left > 0
		}
	}
}

// watch reports changes of the deadline, when a bare timer for it fires, when the
// loss is reported, and if an expired lease is valid again.
func (w *worker) watch(h *holding) {
	look := time.NewTicker(max(w.Run.TTL/20, 5*time.Millisecond))
	defer look.Stop()
	timer := time.NewTimer(h.until - w.now())
	defer timer.Stop()
	if h.until == 0 {
		timer.Stop()
		look.Stop()
	}
	lostCh := h.Lost()
	for gone := false; ; {
		select {
		case <-lostCh:
			w.send(Event{Do: lost, Op: h.op})
			return
		case <-h.ended:
			return
		case <-look.C:
		case <-timer.C:
		}
		at := w.now()
		deadline, ahead := w.deadline(h.lease)
		switch {
		case ahead && deadline > h.until+time.Millisecond:
			h.until, gone = deadline, false
			w.send(Event{Do: until, At: at, Op: h.op, Until: deadline})
			timer.Reset(deadline - w.now())
		case !ahead && !gone && at >= h.until && lostCh != nil && (w.users != nil || !h.Valid()):
			gone = true
			w.send(Event{Do: over, At: w.now(), Op: h.op, By: at - h.until})
			look.Reset(time.Millisecond)
		}
	}
}

// hold uses the lease for a while and releases it.
func (w *worker) hold(h *holding) {
	ttl := w.Run.TTL
	n := w.rng.IntN(1000)
	if n >= 750 && w.rng.IntN(w.seldom(1)) > 0 {
		n = w.rng.IntN(750)
	}
	switch {
	case h.raced:
		w.sleep(h.until-w.now()-5*time.Millisecond+w.upTo(8*time.Millisecond), w.finish)
	case h.name.Mode == "upgrade" && h.weight == 1: // so that upgrades have something to wait for
		w.useFor(h, w.upTo(ttl/4))
	case n < 200: // released early
	case h.weight == store.Upgradeable && n < 900:
		w.upgrade(h)
	case n < 750:
		w.useFor(h, w.upTo(w.usual()))
	case n < 850:
		w.useFor(h, w.upTo(ttl/25))
	case n < 980:
		w.reenter(h)
	case n < 992:
		w.useFor(h, w.upTo(ttl/10))
	default: // held past renewals
		w.keep(h, ttl/2+w.upTo(ttl))
	}
	if !h.Valid() { // real work does not stop at the moment its lease ends
		w.sleep(w.upTo(ttl/20), w.finish)
	}
	w.giveBack(h)
}

// keep uses the lease again and again for d, while it is valid.
func (w *worker) keep(h *holding, d time.Duration) {
	for end := w.now() + d; w.now() < end && h.Valid() && !w.finishing(); {
		w.useFor(h, w.Run.TTL/10)
	}
}

// useFor reads the register, works for d, and writes. It checks that the lease is
// valid only once, at the beginning: anything may happen in between.
func (w *worker) useFor(h *holding, d time.Duration) {
	if h.name.Mode == "slots" || !h.Valid() {
		w.sleep(d, w.finish)
		return
	}
	whole := h.weight == h.name.Limit
	a, ok := w.use(h.op, h.name.Name, h.Token(), 0, whole, false)
	w.sleep(d, w.finish)
	if ok && whole {
		w.use(h.op, h.name.Name, h.Token(), a.Value+1, true, true)
	}
}

// reenter claims the name again under the context of the lease.
func (w *worker) reenter(h *holding) {
	held, isOurs := h.lease.(*holdfast.Lease)
	if h.name.Mode == "slots" || !isOurs || w.locks == nil {
		w.useFor(h, w.upTo(w.moment(3*time.Millisecond)))
		return
	}
	l := w.locks.With(&holdfast.Options{Reentrant: holdfast.On})
	ctx, cancel := context.WithTimeout(held.Context(context.Background()), w.Run.TTL)
	defer cancel()
	again := l.RWMutex(h.name.Name).Read().Lock
	if h.weight == h.name.Limit && w.rng.IntN(2) == 0 {
		again = l.Mutex(h.name.Name).Lock
	}
	inner, err := again(ctx)
	if err != nil {
		return // the lease was lost: there is nothing to re-enter
	}
	w.send(Event{Do: nested, Op: h.op, Token: inner.Token()})
	w.useFor(h, w.upTo(time.Millisecond))
	inner.Release()
}

// upgrade upgrades the hold to the whole name, and usually downgrades it again.
func (w *worker) upgrade(h *holding) {
	before := w.moment(2 * time.Millisecond)
	if h.name.Mode == "upgrade" { // long enough for the rest to happen under another fault
		before = w.Run.TTL / 3
	}
	w.useFor(h, w.upTo(before))
	bound := w.upTo(w.Run.TTL)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	w.send(Event{Do: upgrade, Op: h.op, Bound: bound})
	if err := w.up.Upgrade(ctx); err != nil {
		w.send(Event{Do: stayed, Op: h.op, Err: classify(err)})
		w.useFor(h, w.upTo(w.moment(2*time.Millisecond)))
		return
	}
	h.weight = store.Full
	w.send(Event{Do: weight, Op: h.op, Weight: store.Full, Token: h.Token()})
	if h.name.Mode == "upgrade" { // kept until others may believe that the upgrade never happened
		w.keep(h, w.Run.TTL/2+w.upTo(w.Run.TTL/2))
	}
	w.useFor(h, w.upTo(w.moment(3*time.Millisecond)))
	if w.rng.IntN(3) > 0 {
		h.weight = store.Upgradeable
		w.send(Event{Do: weight, Op: h.op, Weight: store.Upgradeable})
		w.up.Downgrade()
		w.send(Event{Do: lowered, Op: h.op})
		w.useFor(h, w.upTo(w.moment(2*time.Millisecond)))
	}
}

// giveBack releases the lease and reports the outcome.
func (w *worker) giveBack(h *holding) {
	w.send(Event{Do: release, Op: h.op})
	close(h.ended)
	err := h.Release()
	e := Event{Do: released, Op: h.op}
	if err != nil {
		e.Err = classify(err)
	}
	w.send(e)
}

// patientProbe is how much longer than takenBy a probe tries, so that a name is judged
// even if the machine stalls for that long meanwhile.
const patientProbe = 10 * time.Second

// probe takes and releases the whole name once more, after the last fault.
func (w *worker) probe(name string) {
	for _, n := range w.Run.Names {
		if n.Name != name {
			continue
		}
		bound := w.Run.takenBy() + patientProbe
		if w.lines != nil {
			w.byLines(probe, n, bound, 0)
			continue
		}
		var take taking
		switch {
		case w.users != nil:
			take = func(ctx context.Context) (lease, error) { return w.lockOwn(ctx, name, false) }
		case n.Limit != store.Full:
			take = byHoldfast(func(ctx context.Context) (*holdfast.Lease, error) {
				return w.locks.Semaphore(name, int(n.Limit)).Acquire(ctx, int(n.Limit))
			})
		default:
			take = byHoldfast(w.locks.Mutex(name).Lock)
		}
		if h := w.take(probe, n, n.Limit, bound, false, take); h != nil {
			w.giveBack(h)
		}
	}
}
