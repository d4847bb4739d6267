package engine

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A Leader is the leader of an election, as read from the store.
type Leader struct {
	store.Owner
	ID      string
	Token   int64 // of the term; each term has a larger one
	Since   time.Time
	Expires time.Time // unless renewed
}

// Nobody reports whether there is no leader.
func (l Leader) Nobody() bool { return l.ID == "" }

// Observe yields the current leader, then each change.
func (w *Target) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		o := &observation{w: w}
		defer func() {
			if o.stop != nil {
				o.stop() //mutant:observed-for-ever
			}
		}()
		for ctx.Err() == nil {
			leader, err := o.read(ctx)
			if ctx.Err() != nil {
				return
			}
			goesOn := err == nil || errors.Is(err, store.ErrUnavailable) //mutant:outage-ends-observing
			if (o.isNews(leader, err) || !goesOn) && !yield(leader, err) || !goesOn {
				return
			}
			if o.watch(ctx) {
				continue // read what changed before the watch began
			}
			if errors.Is(o.rest(ctx), store.ErrClosed) {
				yield(Leader{}, w.errorf(store.ErrClosed))
				return
			}
		}
	}
}

// An observation is one loop of Observe.
type observation struct {
	w       *Target
	leader  Leader // seen last
	err     error  // of the last read
	hasRead bool
	poll    time.Duration // the last pause

	changed chan struct{} // receives the store's notifications; nil: there are none
	stop    func()        // ends the notifications
	again   clock.Instant // after a failure: no new subscription before this
}

// read asks the store who leads.
func (o *observation) read(ctx context.Context) (Leader, error) {
	if err := o.w.check(); err != nil {
		return Leader{}, err
	}
	var leader Leader
	err := o.w.l.e.inspect(ctx, o.w.l.s, o.w.name, func(st *store.State) (err error) {
		leader, err = o.leads(st)
		return err
	})
	if err != nil {
		return Leader{}, o.w.errorf(err)
	}
	return leader, nil
}

// leads returns the leader according to the state of the name.
func (o *observation) leads(st *store.State) (Leader, error) {
	now := time.Now()
	for _, e := range st.Entries {
		if e.Freed { //mutant:freed-leader-leads
			continue
		}
		if st.Limit != o.w.limit {
			return Leader{}, &store.MismatchError{Have: st.Limit, Want: o.w.limit}
		}
		if e.Granted && e.Weight == store.Full && e.Expires > 0 { //mutant:expired-leader-leads
			return Leader{
				Owner: e.Owner, ID: e.ID.String(), Token: max(e.Token, e.Used, e.UpgradeToken),
				Since: now.Add(-e.Age), Expires: now.Add(e.Expires),
			}, nil
		}
	}
	return Leader{}, nil
}

// isNews notes the result of a read, and reports whether it differs from the last.
func (o *observation) isNews(seen Leader, err error) bool {
	was := o.leader
	same := o.hasRead && (o.err == nil) == (err == nil) &&
		was.ID == seen.ID && was.Token == seen.Token && was.Owner == seen.Owner
	o.leader, o.err, o.hasRead = seen, err, true
	if !same {
		o.poll = 0
	}
	return !same //mutant:each-look-told
}

// watch subscribes to changes if the store can notify of them. It reports whether the
// subscription has just begun.
func (o *observation) watch(ctx context.Context) bool {
	e := o.w.l.e
	watcher, ok := e.store.(store.NameWatcher)
	if !ok || o.stop != nil || e.now() < o.again || !e.enter() {
		return false
	}
	defer e.work.Done()
	under, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	changed := make(chan struct{}, 1)
	stop, err := watcher.WatchName(under, o.w.name, func() {
		select {
		case changed <- struct{}{}:
		default: // a read is due already
		}
	})
	switch {
	case err == nil:
		o.changed, o.stop = changed, stop
		return true //mutant:observed-from-late-on
	case errors.Is(err, store.ErrUnsupported):
		o.again = e.now().Add(noNotifyFor)
	default:
		o.again = e.now().Add(resubscribeAfter)
	}
	return false
}

// rest waits until it is time for the next read: after a pause, or as soon as the store
// notifies.
func (o *observation) rest(ctx context.Context) error {
	timer := time.NewTimer(o.pause())
	defer timer.Stop()
	select {
	case <-o.changed: //mutant:observer-not-notified
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-o.w.l.e.closing:
		return store.ErrClosed
	}
	return nil
}

// notifiedPoll is how often an observer with notifications reads anyway, as one may be
// missed.
const notifiedPoll = 10 * time.Second

// pause returns how long to wait before the next read.
func (o *observation) pause() time.Duration {
	s := o.w.l.s
	o.poll = min(max(o.poll*3/2, s.PollMin), s.PollMax) //mutant:looks-back-off
	if o.changed != nil && o.err == nil {               //mutant:notified-after-failure
		o.poll = max(notifiedPoll, s.PollMax) //mutant:notified-polls-too
	}
	d := jitter(o.poll)
	if !o.leader.Nobody() { //mutant:look-leader-time-over
		d = min(d, max(time.Until(o.leader.Expires), time.Millisecond))
	}
	return d
}
