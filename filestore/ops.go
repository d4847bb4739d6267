package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return a, err
	}
	p := c.ID.Process()
	if err := s.live(p); err != nil {
		return a, s.storeError("ask for", c.Name, s.path(c.Name), err)
	}
	var lookOut []store.Process
	var gone bool
	err2 := s.do(ctx, "ask for", c.Name, true, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		had := has(q, c.ID)
		a, change, err = q.Ask(now, c.Name, &c)
		for !a.Granted && !errors.Is(err, store.ErrLost) {
			// Another claim is ahead, or uses another limit: check whether its process is dead.
			dead := s.deadAhead(now, q, c.ID)
			more := q.Expire(now, c.Name, func(p store.Process) bool { return slices.Contains(dead, p) })
			if !more.Wrote {
				break
			}
			var again queue.Change
			a, again, err = q.Ask(now, c.Name, &c)
			change = join(change, more, again)
		}
		change = withoutOwn(c.ID, change)
		if err == nil && !a.Granted && !c.Try {
			holders, before := ahead(now, q, c.ID)
			if lookOut = holders; before != nil {
				lookOut = []store.Process{*before}
			}
		}
		gone = had && !has(q, c.ID)
		s.count(p, !had && has(q, c.ID), 1)
		return change
	})
	if err2 != nil {
		return store.Answer{}, err2
	}
	s.count(p, gone, -1)
	s.lookOut(p, lookOut)
	return a, err
}

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return a, err
	}
	q, err := s.peek(ctx, "look at", c.Name)
	if err != nil {
		return a, err
	}
	now := s.now()
	dead := s.deadAhead(now, q, c.ID)
	lapse(now, q, func(p store.Process) bool { return slices.Contains(dead, p) })
	return q.Poll(now, c.Name, &c)
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	errs := s.batch(ctx, "renew", holds, func(i int) error {
		h := &holds[i]
		if out[i].Err = bounds.CheckRenewal(h); out[i].Err != nil {
			return nil
		}
		if h.NewID != (store.ID{}) {
			if err := s.live(h.NewID.Process()); err != nil {
				return err
			}
		}
		var lookOut []store.Process
		var moved bool
		woken, err := s.try(h.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
			had := has(q, h.ID)
			out[i], lookOut, change = s.renew(now, q, h)
			moved = had && h.NewID != (store.ID{}) && out[i].Err == nil
			s.count(h.NewID.Process(), moved, 1)
			return change
		})
		if err != nil {
			return err
		}
		s.count(h.ID.Process(), moved, -1)
		s.wake(ctx, woken)
		s.lookOut(cmp.Or(h.NewID, h.ID).Process(), lookOut)
		return nil
	})
	for i, err := range errs {
		out[i].Err = cmp.Or(err, out[i].Err)
	}
	return out
}

// batch calls try with the index of each hold, and repeats it while it returns errBusy.
// All other errors become errors of the operation. A name whose file is locked by another
// process delays no other name. Holds of one name stay in order.
func (s *Store) batch(ctx context.Context, op string, holds []store.Hold, try func(i int) error) []error {
	out := make([]error, len(holds))
	todo := make([]int, len(holds))
	late := ctx.Err() != nil
	for i := range holds {
		if todo[i] = i; late {
			out[i] = s.late(ctx, op, holds[i].Name)
		}
	}
	if late {
		return out
	}
	for pause := (backoff{}); ; {
		busy := todo[:0]
		var locked map[string]bool // the names whose files are locked
		for _, i := range todo {
			name, err := holds[i].Name, errBusy
			if !locked[name] { //mutant:file-batch-in-order
				err = try(i)
			}
			switch {
			case err == errBusy:
				if locked == nil {
					locked = map[string]bool{}
				}
				locked[name] = true
				busy = append(busy, i)
			case err != nil:
				out[i] = s.storeError(op, name, s.path(name), err)
			}
		}
		if todo = busy; len(todo) == 0 {
			return out
		}
		if !pause.wait(ctx) {
			for _, i := range todo {
				out[i] = s.stuck(op, holds[i].Name)
			}
			return out
		}
	}
}

// renew renews one hold. If it has a pending upgrade, the holds of dead readers are removed,
// and the processes of the others are returned, to be watched.
func (s *Store) renew(now queue.Time, q *queue.Queue, h *store.Hold) (store.Renewal, []store.Process, queue.Change) {
	r, change := q.Renew(now, h)
	id := h.ID
	if h.NewID != (store.ID{}) && r.Err == nil {
		id = h.NewID
	}
	if r.Err != nil || r.Want == r.Weight {
		return r, nil, change
	}
	beside, more := s.expireBeside(now, q, h.Name, id)
	var again queue.Change
	if more.Wrote {
		r, again = q.Renew(now, h)
	}
	return r, beside, withoutOwn(id, change, more, again)
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	if err := store.CheckChange(&h, turn, weight); err != nil {
		return a, err
	}
	var lookOut []store.Process
	err2 := s.do(ctx, "change", h.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		a, change, err = q.Change(now, &h, turn, weight)
		if err != nil || a.Want == a.Weight {
			return change
		}
		var more, again queue.Change
		if lookOut, more = s.expireBeside(now, q, h.Name, h.ID); more.Wrote {
			a, again, err = q.Change(now, &h, turn, weight)
		}
		return withoutOwn(h.ID, change, more, again)
	})
	if err2 != nil {
		return store.Answer{}, err2
	}
	s.lookOut(h.ID.Process(), lookOut)
	return a, err
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	return s.ReleaseAll(ctx, []store.Hold{h})[0]
}

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	errs := s.batch(ctx, "release", holds, func(i int) error {
		h := &holds[i]
		if out[i] = store.CheckName(h.Name); out[i] != nil {
			return nil
		}
		var gone bool
		woken, err := s.try(h.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
			had := has(q, h.ID)
			change, out[i] = q.Release(now, h)
			gone = had && !has(q, h.ID)
			return change
		})
		if err != nil { //mutant:file-release-written-first
			return err
		}
		s.count(h.ID.Process(), gone, -1)
		s.wake(ctx, woken)
		return nil
	})
	for i, err := range errs {
		out[i] = cmp.Or(err, out[i])
	}
	return out
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) (err error) {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: a reason of %d bytes: at most %d", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	err2 := s.do(ctx, "break", b.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		change, err = q.Break(now, &b)
		return change
	})
	if err2 != nil {
		return err2
	}
	return err
}

func has(q *queue.Queue, id store.ID) bool {
	return slices.ContainsFunc(q.Entries, func(e queue.Entry) bool { return e.ID == id })
}

func join(changes ...queue.Change) (all queue.Change) {
	for _, c := range changes {
		all.Wrote = all.Wrote || c.Wrote
		all.Woken = append(all.Woken, c.Woken...)
	}
	return all
}

// withoutOwn joins the changes and removes the notifications for the caller itself.
func withoutOwn(id store.ID, changes ...queue.Change) queue.Change {
	all := join(changes...)
	all.Woken = slices.DeleteFunc(all.Woken, func(h store.Notification) bool { return h.ID == id })
	return all
}

// maxTests is how many holders' processes one operation tests or watches, so that many
// readers do not make each ask slow. The holds of the others are freed by their TTL, or
// when holders before them have left.
const maxTests = 256

// ahead returns the processes ahead of id, or of a new claim if id is not queued: those of
// the holders, and that of the waiter just before it, if any. Each waiter watches the one
// before it, and the first waiter watches the holders, so each death is noticed by the
// waiter that it concerns. Expired holds, which only block the name, are left out: they
// have no death to wait for.
func ahead(now queue.Time, q *queue.Queue, id store.ID) (holders []store.Process, before *store.Process) {
	for i := range q.Entries {
		e := &q.Entries[i]
		p := e.ID.Process()
		switch {
		case e.ID == id:
			return holders, before
		case e.Expires <= now.Clock:
		case !e.Granted:
			before = &p
		case len(holders) < maxTests && !slices.Contains(holders, p):
			holders = append(holders, p)
		}
	}
	return holders, before
}

// expireBeside expires the holds of dead processes, except the hold of id. It returns the
// processes of the remaining holds.
func (s *Store) expireBeside(now queue.Time, q *queue.Queue, name string, id store.ID) (living []store.Process, change queue.Change) {
	var dead []store.Process
	for i := range q.Entries {
		e := &q.Entries[i]
		p := e.ID.Process()
		if e.ID == id || !e.Granted || e.Expires <= now.Clock || slices.Contains(living, p) || slices.Contains(dead, p) {
			continue
		}
		if len(living)+len(dead) == maxTests {
			break
		}
		if s.dead(p) {
			dead = append(dead, p)
		} else {
			living = append(living, p)
		}
	}
	return living, q.Expire(now, name, func(p store.Process) bool { return slices.Contains(dead, p) })
}

// deadAhead returns the dead processes among those ahead of id.
func (s *Store) deadAhead(now queue.Time, q *queue.Queue, id store.ID) []store.Process {
	test, before := ahead(now, q, id)
	if before != nil {
		test = append(test, *before)
	}
	return slices.DeleteFunc(test, func(p store.Process) bool { return !s.dead(p) })
}
