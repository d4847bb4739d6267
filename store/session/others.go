package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// others is what this process knows of the sessions of other processes.
type others struct {
	alive map[ID]sight
	over  map[ID]ending
}

// An ending is the final end of a session.
type ending struct {
	at    store.Instant // when the session ended, at the latest
	heard store.Instant
}

// A sight is what the server reported of a live session.
type sight struct {
	until store.Instant // it goes on until then, unless it is ended
	heard store.Instant
}

// trusted is how long a session is assumed alive without asking again: it may be ended early.
const trusted = time.Second

// Trust sets for how long a session of another process is assumed alive without asking again;
// default one second. It is for tests that end several sessions of a process, and compare the next
// grants with those that would follow if all ends were seen at once.
func (s *Set) Trust(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trusts = d //mutant:session-trusts-as-set
}

// Trusted returns how long a session of another process is assumed alive without asking again.
func (s *Set) Trusted() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trusts
}

// kept is how long the end of a session is remembered. By then its entries are
// removed, or the session is asked about again.
const kept = 10 * time.Minute

// soon is the least remaining time that is assumed for a live session.
const soon = 50 * time.Millisecond

func (o *others) end(id ID, at, now store.Instant) {
	if o.over == nil {
		o.over = map[ID]ending{}
	}
	o.over[id] = ending{min(at, now), now}
	delete(o.alive, id)
}

func (o *others) live(id ID, until, now store.Instant) {
	if o.alive == nil {
		o.alive = map[ID]sight{}
	}
	if _, over := o.over[id]; !over { // the end is final
		o.alive[id] = sight{until, now}
	}
}

// forget drops sessions that were last heard of long ago, if there are many.
func (o *others) forget(now store.Instant) {
	if len(o.alive)+len(o.over) < 1000 {
		return
	}
	for id, seen := range o.alive {
		if now > seen.heard.Add(kept) {
			delete(o.alive, id)
		}
	}
	for id, end := range o.over {
		if now > end.heard.Add(kept) {
			delete(o.over, id)
		}
	}
}

// Known returns the least remaining time of a session, as far as this process knows without asking.
// Not above 0: it has ended for good (law 2), at least that long ago, or it is a session of this
// process that has ended for all that it keeps.
func (s *Set) Known(id ID) (left time.Duration, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := store.Now()
	if sess := s.own[id]; sess != nil {
		if s.over(sess) {
			return 0, true
		}
		return sess.end().Sub(now), true
	}
	if end, over := s.others.over[id]; over {
		return end.at.Sub(now), true //mutant:session-ended-just-now
	}
	seen := s.others.alive[id]
	if left = seen.until.Sub(now); left > 0 && now < seen.heard.Add(s.trusts) { //mutant:session-trusted-for-its-ttl
		return left, true
	}
	return 0, false
}

// Ask asks the server whether sessions of others live. The end of each ended session
// was made final before it returns, in a request of its own (law 2).
func (s *Set) Ask(ctx context.Context, ids []ID) error {
	left, err := s.b.Left(ctx, ids)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := store.Now()
	for i, id := range ids {
		if left[i] > 0 { //mutant:session-end-is-final
			s.others.live(id, now.Add(max(left[i], soon)), now)
		} else {
			s.others.end(id, now.Add(left[i]), now)
		}
	}
	return nil
}

// Doubt returns for how long at most a session must still be watched until this process knows whether it lives; 0: it
// knows. See [Doubter].
func (s *Set) Doubt(id ID) time.Duration {
	d, ok := s.b.(Doubter)
	if !ok || s.Own(id) != nil {
		return 0
	}
	return d.Doubt(id)
}

// Saw notes for how long a session goes on, as reported in the answer to another request. It does not make the
// end of an expired session final; Ask does.
func (s *Set) Saw(id ID, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := store.Now(); left > 0 && s.own[id] == nil {
		s.others.live(id, now.Add(left), now)
	}
}

// A watch waits for the end of a session of another process.
type watch struct {
	notify map[any]func() // by the key of the watcher
	cancel context.CancelFunc
}

// Watch calls notify once the session has ended for good, or may have. The key identifies
// the watcher: Unwatch with it ends the watch, and a second Watch with it replaces the
// first. notify is called without a lock, from a goroutine that Close waits for. Without
// Traits.ReportsEnd it is never called. A notification can come late, so Watch may also be
// called during Close and after it: then it does nothing.
func (s *Set) Watch(id ID, key any, notify func()) {
	if !s.traits.ReportsEnd {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil { // Close may be waiting for the existing goroutines //mutant:session-closed-set-watches
		return
	}
	w := s.watches[id]
	if w == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		w = &watch{notify: map[any]func(){}, cancel: cancel}
		s.watches[id] = w
		s.tasks.Go(func() { s.await(ctx, id, w) })
	}
	w.notify[key] = notify
}

// Unwatch ends the watch that has the key.
func (s *Set) Unwatch(id ID, key any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[id]; w != nil {
		if delete(w.notify, key); len(w.notify) == 0 {
			w.cancel()
			delete(s.watches, id)
		}
	}
}

// await waits for the end of a session and verifies it.
func (s *Set) await(ctx context.Context, id ID, w *watch) {
	defer w.cancel()
	for failed := 0; ctx.Err() == nil; {
		err := s.b.Await(ctx, id)
		if err == nil {
			if err = s.sure(ctx, id); err == nil {
				break
			}
		}
		if errors.Is(err, store.ErrUnsupported) {
			return
		}
		failed++
		pause := min((50*time.Millisecond)<<min(failed, 8), 5*time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
	s.mu.Lock()
	var all []func()
	if s.watches[id] == w && ctx.Err() == nil {
		delete(s.watches, id)
		for _, notify := range w.notify {
			all = append(all, notify)
		}
	}
	s.mu.Unlock()
	for _, notify := range all {
		notify()
	}
}

var errAlive = errors.New("the session has not ended")

// sure asks whether the session has ended, after Await has reported that it may have.
func (s *Set) sure(ctx context.Context, id ID) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err := s.Ask(ctx, []ID{id}); err != nil {
		return err
	}
	if left, known := s.Known(id); known && left <= 0 {
		return nil
	}
	return errAlive
}
