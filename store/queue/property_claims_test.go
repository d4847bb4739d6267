package queue_test

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// asked is the holders that a waiter has asked to give up, if it has just begun to
// ask or has changed its reason: all that hold the name and can receive it.
func (w *world) asked(before queue.Queue, self store.ID) (all []store.Notification) {
	e, was := find(w.q, self), find(before, self)
	if e == nil || e.Granted || e.GiveUp == nil || was != nil && was.Asks() == e.Asks() {
		return nil
	}
	for i := range w.q.Entries {
		if h := &w.q.Entries[i]; h.Granted && h.Broken == nil && h.Expires > w.now.Clock {
			all = append(all, store.Notification{Name: "n", ID: h.ID})
		}
	}
	return all
}

// asks is the reason of the first waiter that asks the holders to give up.
func (w *world) asks() string {
	for i := range w.q.Entries {
		if e := &w.q.Entries[i]; !e.Granted && e.GiveUp != nil {
			return e.Asks()
		}
	}
	return ""
}

var reasons = []string{"", "", "", "a newer version waits", "please"}

func (w *world) ask(t *rapid.T) {
	limit := rapid.SampledFrom([]int64{store.Full, store.Full, 3, 2}).Draw(t, "limit")
	if len(w.q.Entries) > 0 && rapid.IntRange(0, 9).Draw(t, "same") > 0 {
		limit = int64(rapid.SampledFrom(w.q.Entries).Draw(t, "of").Limit)
	}
	weights := []int64{1, limit}
	if limit == store.Full {
		weights = append(weights, store.Upgradeable, store.Upgradeable)
	}
	ttl := draw(t, "ttl", 1, 20)
	w.came++
	c := &claimed{came: w.came, Claim: store.Claim{
		Name: "n", ID: store.Process{byte(w.came % 3)}.NewID(), Limit: limit,
		Weight: rapid.SampledFrom(weights).Draw(t, "weight"), Try: rapid.Bool().Draw(t, "try"),
		TTL: ttl, PositionTTL: us(rapid.IntRange(1, int(min(ttl, us(20)).Microseconds())).Draw(t, "place")),
		Block: rapid.SampledFrom([]int{0, 1, 4, 10, store.MaxBlock + 1}).Draw(t, "block"), GiveUp: rapid.SampledFrom(reasons).Draw(t, "give up"),
		Owner: fmt.Sprint("owner ", w.came), MinHold: draw(t, "keep", 0, 0, 5, 30), LockDelay: draw(t, "delay", 0, 0, 5),
	}}
	// Whether it must be granted follows from what still blocks after the time
	// that passed, and from whether any claim still waits.
	settled := w.settled()
	held, least := int64(0), limit
	waiting := false
	settled.Entries = counted(settled.Entries)
	for _, e := range settled.Entries {
		if e.Granted {
			held += int64(e.Weight)
			least = min(least, int64(e.Limit))
		}
		waiting = waiting || !e.Granted || wants(&e, w.now)
	}
	out, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) { return q.Ask(w.now, "n", &c.Claim) })
	if have := settled.Limit(); len(settled.Entries) > 0 && (have == store.Full) != (limit == store.Full) {
		if m := new(store.MismatchError); !errors.As(err, &m) || m.Have != int64(have) || m.Want != limit {
			t.Fatalf("limit %d while %d is in use: got %v, want ErrMismatch", limit, have, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	a := out.(store.Answer)
	if want := !waiting && held+c.Weight <= least; a.Granted != want {
		t.Fatalf("weight %d of %d, of which %d may be used, %d are blocking, others wait: %v: got granted %v", c.Weight, limit, least, held, waiting, a.Granted)
	}
	if there := find(w.q, c.ID) != nil; there != (a.Granted || !c.Try) {
		t.Fatalf("granted %v, try %v: the queue has its entry: %v", a.Granted, c.Try, there)
	}
	if a.Granted || !c.Try {
		c.token = a.Token
		e, lasts := find(w.q, c.ID), c.PositionTTL
		if a.Granted {
			lasts = c.TTL
		}
		if a.Granted && (a.N != c.Tokens() || a.Weight != c.Weight || a.Want != c.Weight || a.UpgradeToken != 0) {
			t.Fatalf("asked for %+v, but granted %+v", c, a)
		}
		if e.Expires != w.now.Clock+lasts.Microseconds() || e.Owner != c.Owner || e.MinHold != c.MinHold.Microseconds() || e.LockDelay != c.LockDelay.Microseconds() {
			t.Fatalf("asked for %+v at %d, but the entry is %+v", c, w.now.Clock, e)
		}
		w.ids, w.known[c.ID] = append(w.ids, c.ID), c
	}
	w.reported(t, a, c.ID)
}

// reported checks a refusal against the claims ahead: of the claim's own entry, or of a
// new one.
func (w *world) reported(t *rapid.T, a store.Answer, self store.ID) {
	if a.Granted {
		return
	}
	want := store.Answer{Last: w.q.Last}
	entries := counted(w.q.Entries)
	for i := range entries {
		e := &entries[i]
		if e.ID == self {
			break
		}
		over := end(e)
		if wants(e, w.now) {
			over = min(over, e.Expires)
		}
		if left := time.Duration(over-w.now.Clock) * time.Microsecond; want.Until == 0 || left < want.Until {
			want.Until = left
		}
		if e.Granted {
			want.Holding++
		} else {
			want.Waiting++
		}
	}
	if want.Holding+want.Waiting == 0 || len(a.Holders) != min(want.Holding, store.MaxHolders) {
		t.Fatalf("the refusal lists %d holders of %d, with %d waiting", len(a.Holders), want.Holding, want.Waiting)
	}
	for i, h := range a.Holders {
		if e := entries[i]; h.ID != e.ID || h.Token != e.Token || h.Broken != e.Reason() {
			t.Fatalf("holder %d is reported as %+v, want %+v", i, h, e)
		}
	}
	a.Holders = nil
	if !reflect.DeepEqual(a, want) {
		t.Fatalf("the refusal is %+v, want %+v", a, want)
	}
}

func (w *world) again(t *rapid.T) {
	c := w.pick(t)
	e := find(w.q, c.ID)
	if e == nil {
		t.Skip("the claim has no entry") // of an id the queue has forgotten
	}
	was, alive := *e, w.alive(c) != nil
	c.GiveUp = rapid.SampledFrom(reasons).Draw(t, "give up")
	out, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) { return q.Ask(w.now, "n", &c.Claim) })
	if !alive || was.Broken != nil {
		w.lost(t, err, "ask of an expired or broken entry")
		return
	}
	a := out.(store.Answer)
	if err != nil || was.Granted && !a.Granted || was.Granted && a.Token != was.Token {
		t.Fatalf("asked again: got %+v, %v, the entry was %+v", a, err, was)
	}
	if a.Granted {
		c.token = a.Token
	}
	if n := count(w.q, c.ID); n != 1 {
		t.Fatalf("asked again: the claim has %d entries", n)
	}
	if e := find(w.q, c.ID); !e.Granted && e.Asks() != c.GiveUp || e.Granted && e.GiveUp != nil {
		t.Fatalf("asked again with the reason %q, but the entry is %+v", c.GiveUp, e)
	}
	w.pushed(t, c, was, map[bool]time.Duration{true: c.TTL, false: c.PositionTTL}[a.Granted])
	w.reported(t, a, c.ID)
}

// pushed checks that a renewal or a repeated ask moved the expiry as far as it
// should, and not back.
func (w *world) pushed(t *rapid.T, c *claimed, was queue.Entry, by time.Duration) {
	e := find(w.q, c.ID)
	if e == nil || e.Expires != max(was.Expires, w.now.Clock+by.Microseconds()) && !(e.Granted && !was.Granted) {
		t.Fatalf("the expiry moved by %v at %d, from %+v to %+v", by, w.now.Clock, was, e)
	}
}

func (w *world) withdraw(t *rapid.T) {
	c := w.pick(t)
	e := w.alive(c)
	alive := e != nil
	_, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		change, err := q.Release(w.now, &store.Hold{Name: "n", ID: c.ID})
		return nil, change, err
	})
	if err != nil {
		t.Fatalf("withdrawal: got %v, want nil", err)
	}
	if alive {
		w.gone(t, c, false)
	}
}

// poll checks that Poll and State change nothing, and that Poll answers what Ask
// then answers.
func (w *world) poll(t *rapid.T) {
	c := w.pick(t)
	before := clone(w.q)
	poll, pollErr := w.q.Poll(w.now, "n", &c.Claim)
	w.q.State(w.now, "n")
	if !reflect.DeepEqual(before, clone(w.q)) {
		t.Fatalf("a poll changed the queue from\n%+v\nto\n%+v", before, w.q)
	}
	ask, _, askErr := before.Ask(w.now, "n", &c.Claim)
	if !reflect.DeepEqual(pollErr, askErr) || poll.Granted != ask.Granted || poll.Until != ask.Until ||
		poll.Holding != ask.Holding || poll.Waiting != ask.Waiting {
		t.Fatalf("got poll %+v, %v\nwant as ask %+v, %v", poll, pollErr, ask, askErr)
	}
	if poll.Last > w.q.Last || poll.Token > w.q.Last {
		t.Fatalf("the poll returns a token that was not drawn: %+v", poll)
	}
}
