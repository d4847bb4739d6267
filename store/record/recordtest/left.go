package recordtest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

var leftPromises = []promise{
	{name: "Left answers in the order of what it was asked", run: leftInOrder},
	{name: "Left of nothing is nothing", run: leftOfNone},
	{name: "Left of many is answered", run: leftOfMany},
	{name: "Left of what was never begun is an end", run: leftNothing},
	{name: "what Left called ended stays so for every process", run: leftIsFinal},
	{name: "no renewal is answered once Left said it has ended", run: leftEndsRenewals},
	{name: "a renewal held until Left said it has ended is lost", run: renewHeld, linked: true},
	{name: "a session that was renewed has not ended for Left", run: leftOfRenewed},
}

func leftInOrder(t *trial) {
	a, b := t.open(), t.open()
	var ids []session.ID
	var lives []bool
	for i := range 12 {
		id := newSession() // never begun
		if i%3 > 0 || i > 6 {
			id = t.session(a)
		}
		ends := i%4 == 1
		if ends {
			t.end(a, id)
		}
		ids, lives = append(ids, id), append(lives, !ends && (i%3 > 0 || i > 6))
	}
	for range 2 {
		left := t.leftOf(b, ids...)
		for i := range left {
			if left[i] > 0 != lives[i] {
				t.Errorf("Left of session %d: got %v, want alive: %v", i, left[i], lives[i])
			}
		}
		slices.Reverse(ids)
		slices.Reverse(lives)
	}
	if left := t.leftOf(b, ids[1], ids[1]); left[0] > 0 != (left[1] > 0) {
		t.Errorf("Left of one session twice: got %v", left)
	}
}

func leftOfNone(t *trial) {
	t.leftOf(t.open())
}

func leftOfMany(t *trial) {
	a, b := t.open(), t.open()
	const living, never = 40, 260
	var ids []session.ID
	for i := range living + never {
		if i < never {
			ids = append(ids, newSession())
		} else {
			ids = append(ids, t.session(a))
		}
	}
	left := t.leftOf(b, ids...)
	for i := range left {
		if left[i] > 0 != (i >= never) {
			t.Fatalf("Left of session %d: got %v", i, left[i])
		}
	}
}

func leftNothing(t *trial) {
	for _, b := range []record.Backend{t.open(), t.open()} {
		if left := t.left(b, newSession()); left > 0 {
			t.Errorf("Left of a session that was never begun: got %v", left)
		}
	}
}

func leftIsFinal(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.lapsed(b, id, t.short())
	t.never("a session that has ended is alive again", func() bool {
		if _, err := a.Renew(t.ctx, id); err == nil {
			return true
		}
		return t.left(a, id) > 0 || t.left(b, id) > 0
	})
	if left := t.left(t.open(), id); left > 0 {
		t.Errorf("Left, in a process that comes later: got %v", left)
	}
}

// The owner renews at any time, another process asks for the end: either may be first.
func leftEndsRenewals(t *trial) {
	a, b := t.open(), t.open()
	for _, percent := range []time.Duration{60, 80, 95, 100} {
		id, _, lasts := t.beginShort(a)
		over := make(chan struct{}) // when Left has returned the end
		var failed error            // or this
		go func() {
			defer close(over)
			for {
				left, err := b.Left(t.ctx, []session.ID{id})
				if err != nil && !store.Definite(err) && t.ctx.Err() == nil { // connections are lost while the machine stalls
					continue
				}
				if failed = err; err != nil || left[0] <= 0 {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		for range 2 {
			time.Sleep(lasts * percent / 100)
			after := false
			select {
			case <-over:
				after = failed == nil
			default:
			}
			_, err := a.Renew(t.ctx, id)
			if err == nil && after {
				t.Fatal("a renewal was answered that was sent after Left reported the end of its session")
			}
			if err != nil {
				break
			}
		}
		t.end(a, id)
		select {
		case <-over:
		case <-time.After(patience):
			t.Fatalf("Left reports a session that was ended as alive")
		}
		if failed != nil {
			t.Fatalf("Left: %v", failed)
		}
	}
}

func renewHeld(t *trial) {
	b := t.open()
	a, link := t.linked()
	id := t.heldRenewal(a, link)
	t.lapsed(b, id, t.short())
	link.Reset()
	link.Deliver()
	t.never("a late renewal keeps its session alive", func() bool { return t.left(b, id) > 0 })
	t.until("the next renewal is lost", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, 2*time.Second)
		defer cancel()
		_, err := a.Renew(ctx, id)
		if err == nil {
			t.Fatal("a session was renewed that has ended for another process")
		}
		return errors.Is(err, store.ErrLost)
	})
}

// heldRenewal begins a short session, and has the link hold its renewal. On a machine that stalls the session may
// have ended before that, which the clock shows: then it tries again.
func (t *trial) heldRenewal(a record.Backend, link storetest.Link) (id session.ID) {
	t.Helper()
	t.until("a renewal is held before its session has ended", func() bool {
		began, sent, lasts := t.beginShort(a)
		id = began
		link.HoldAfter(0)
		var ended atomic.Bool
		t.givenUp("the renewal is held", func() bool { return link.Met() > 0 || ended.Load() }, func(ctx context.Context) error {
			_, err := a.Renew(ctx, id)
			if errors.Is(err, store.ErrLost) && store.Now() >= sent.Add(lasts) {
				ended.Store(true)
				err = errors.New("the session ended before")
			}
			return err
		})
		if ended.Load() {
			link.Reset()
		}
		return !ended.Load()
	})
	return id
}

func leftOfRenewed(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for range 5 {
		if left := t.left(b, id); left <= 0 {
			t.Fatalf("Left of a living session: got %v", left)
		}
		t.renew(a, id)
	}
}
