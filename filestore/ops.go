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
	if err := check(&c); err != nil {
		return a, err
	}
	p := c.ID.Process()
	if err := s.live(p); err != nil {
		return a, s.told("ask for", c.Name, s.path(c.Name), err)
	}
	var lookOut []store.Process
	err2 := s.do(ctx, "ask for", c.Name, true, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		had := has(q, c.ID)
		a, change, err = q.Ask(now, c.Name, &c)
		for !a.Granted && !errors.Is(err, store.ErrLost) {
			// Somebody is ahead, or uses another limit: is it a dead one?
			dead := s.deadAhead(now, q, c.ID)
			more := q.Expire(now, c.Name, func(p store.Process) bool { return slices.Contains(dead, p) })
			if !more.Wrote {
				break
			}
			var again queue.Change
			a, again, err = q.Ask(now, c.Name, &c)
			change = join(change, more, again)
		}
		change.Woken = slices.DeleteFunc(change.Woken, func(h store.Hint) bool { return h.ID == c.ID })
		if err == nil && !a.Granted && !c.Try {
			holders, before := ahead(now, q, c.ID)
			if lookOut = holders; before != nil {
				lookOut = []store.Process{*before}
			}
		}
		s.count(p, had, has(q, c.ID))
		return change
	})
	if err2 != nil {
		return store.Answer{}, err2
	}
	s.lookOut(p, lookOut)
	return a, err
}

// Look implements [store.Looker].
func (s *Store) Look(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	if err := check(&c); err != nil {
		return a, err
	}
	q, err := s.peek(ctx, "look at", c.Name)
	if err != nil {
		return a, err
	}
	now := s.now()
	dead := s.deadAhead(now, q, c.ID)
	lapse(now, q, func(p store.Process) bool { return slices.Contains(dead, p) })
	return q.Look(now, c.Name, &c)
}

// Renew implements [store.Store]. A name whose file another has locked does
// not keep the others waiting.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	const op = "renew"
	out := make([]store.Renewal, len(holds))
	todo := make([]int, len(holds))
	for i := range holds {
		todo[i] = i
	}
	if ctx.Err() != nil {
		for i := range out {
			out[i].Err = s.late(ctx, op, holds[i].Name)
		}
		return out
	}
	for try := (backoff{}); ; {
		busy := todo[:0]
		for _, i := range todo {
			h := &holds[i]
			woken, err := s.try(h.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
				out[i], change = q.Renew(now, h)
				return change
			})
			switch {
			case err == errBusy:
				busy = append(busy, i)
			case err != nil:
				out[i].Err = s.told(op, h.Name, s.path(h.Name), err)
			default:
				s.wake(ctx, woken)
			}
		}
		if todo = busy; len(todo) == 0 {
			return out
		}
		if !try.wait(ctx) {
			for _, i := range todo {
				out[i].Err = s.stuck(op, holds[i].Name)
			}
			return out
		}
	}
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	if err := cmp.Or(checkName(h.Name), store.CheckChange(h.Name, turn, weight)); err != nil {
		return a, err
	}
	err2 := s.do(ctx, "change", h.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		a, change, err = q.Change(now, &h, turn, weight)
		return change
	})
	if err2 != nil {
		return store.Answer{}, err2
	}
	return a, err
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) (err error) {
	if err := checkName(h.Name); err != nil {
		return err
	}
	err2 := s.do(ctx, "release", h.Name, false, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		had := has(q, h.ID)
		change, err = q.Release(now, &h)
		s.count(h.ID.Process(), had, has(q, h.ID))
		return change
	})
	if err2 != nil {
		return err2
	}
	return err
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) (err error) {
	if err := checkName(b.Name); err != nil {
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

// maxTests is how many holders' processes one operation tests or watches, so
// that a crowd of readers does not make each ask slow. Those beyond it come
// free by their TTL, or when others before them have gone.
const maxTests = 256

// ahead is who stands before the id, or before one who came now: the processes
// of the holders, and that of the waiter just before it, if there is one. Each
// waiter looks out for the one before it and the first for the holders, so
// that every death is seen by the one whom it concerns. Holds that have expired,
// and are only in the way, have no death to wait for.
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

// deadAhead is which of the processes ahead of id have died.
func (s *Store) deadAhead(now queue.Time, q *queue.Queue, id store.ID) []store.Process {
	test, before := ahead(now, q, id)
	if before != nil {
		test = append(test, *before)
	}
	return slices.DeleteFunc(test, func(p store.Process) bool { return !s.dead(p) })
}
