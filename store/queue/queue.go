// Package queue is the rule of holdfast as a pure state machine. A name is a queue of
// entries. An entry that is granted stays granted until it is released or expires.
// Waiters are granted in order. The first waiter that does not fit under the limit
// blocks all behind it.
//
// It does no I/O and reads no clock: the time is passed in. The memory and the
// file store run it, and so does package store/record for the stores built on
// it. The scripts and statements of all other stores are tested against it step
// by step.
//
// A Queue is not safe for concurrent use.
package queue

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Time is the current time, in microseconds.
type Time struct {
	Clock int64 // on the clock that expiries are kept on: it must not be set back
	Wall  int64 // since 1970: the smallest that a new token may be
}

// At returns the Time of a store whose only clock is the wall clock.
func At(t time.Time) Time { return Time{Clock: t.UnixMicro(), Wall: t.UnixMicro()} }

// A Queue is the state of one name. The zero Queue is a name never used.
type Queue struct {
	Last     int64   // the newest token drawn
	Entries  []Entry // in the order in which they came
	OneLimit bool    // the store keeps one limit per name (it lacks store.PromiseTotals): any other is a mismatch
	Forgets  bool    // the store drops a hold that is broken with now, and its reason (it lacks store.PromiseReason)
}

// Limit is the limit of the entries, the smallest if they have several; 0 if
// no entry can block.
func (q *Queue) Limit() (least int32) {
	for i := range q.Entries {
		if e := &q.Entries[i]; !e.Freed() && (least == 0 || e.Limit < least) { //mutant:freed-hold-has-limit
			least = e.Limit
		}
	}
	return least
}

// SetLimit gives all entries the limit, for a store that keeps one per name.
func (q *Queue) SetLimit(limit int32) {
	q.OneLimit = true
	for i := range q.Entries {
		q.Entries[i].Limit = limit
	}
}

// A Change says what an operation did to the queue, in addition to its answer.
type Change struct {
	Wrote bool                 // the queue differs from before and must be stored
	Woken []store.Notification // those other than the caller that were granted, or upgraded, or are asked to give up
}

// Ask appends the claim, or refreshes the entry of its id. See
// [store.Store.Ask].
func (q *Queue) Ask(now Time, name string, c *store.Claim) (store.Answer, Change, error) {
	// Look for the claim's own entry before anything is dropped: an expired
	// hold that is asked for again is lost, and gets no second entry.
	if i := q.find(c.ID); i >= 0 { //mutant:ask-after-expiry-appended
		e := &q.Entries[i]
		if e.Broken != nil || !e.live(now) { //mutant:broken-hold-may-asked
			err := lost(e) // before settle moves the entries
			return store.Answer{}, q.settle(now, name, c.ID), err
		}
		asks := false
		if !e.Granted {
			e.Expires = max(e.Expires, now.Clock+micros(c.PositionTTL)) //mutant:repeated-ask-moves-end
			asks = e.Asks() != c.GiveUp                                 //mutant:give-up-asked-once
			e.ask(c.GiveUp)                                             //mutant:give-up-asked-later
		}
		change := q.settle(now, name, c.ID)
		change.Wrote = true
		i = q.find(c.ID)
		if q.Entries[i].Granted {
			return q.granted(now, i, c), change, nil
		}
		if asks {
			q.askHolders(now, name, i, &change)
		}
		return q.refused(now, i), change, nil
	}
	change := q.settle(now, name, c.ID)
	if have := int64(q.Limit()); q.mismatch(have, c.Limit) { //mutant:different-limit-accepted
		return store.Answer{}, change, &store.MismatchError{Have: have, Want: c.Limit}
	}
	held, least, waiting, upgrading := q.weights(now)
	room := waiting == 0 && !upgrading && held+c.Weight <= min(least, c.Limit) //mutant:reader-passes-waiting-writer
	if c.Try && !room {                                                        //mutant:refused-try-leaves-entry
		return q.refused(now, len(q.Entries)), change, nil
	}
	q.Entries = append(q.Entries, Entry{
		ID: c.ID, Limit: int32(c.Limit), Weight: int32(c.Weight), Want: int32(c.Weight), N: uint16(c.Tokens()), //mutant:block-readers
		Expires: now.Clock, MinHold: micros(c.MinHold), LockDelay: micros(c.LockDelay), Owner: c.Owner, //mutant:owner-kept
	})
	change.Wrote = true //mutant:last-first-out
	i := len(q.Entries) - 1
	if room {
		q.grant(now, i)
		return q.granted(now, i, c), change, nil
	}
	q.Entries[i].Expires = now.Clock + micros(c.PositionTTL) //mutant:cancelled-wait-leaves-place-behind-too
	q.Entries[i].ask(c.GiveUp)
	q.askHolders(now, name, i, &change)
	return q.refused(now, i), change, nil
}

// Poll answers what Ask would answer and changes nothing. It does not return a token or
// upgrade token that only the following ask would draw.
func (q *Queue) Poll(now Time, name string, c *store.Claim) (store.Answer, error) { //mutant:look-appends
	copied := *q
	copied.Entries = append(make([]Entry, 0, len(q.Entries)+1), q.Entries...)
	a, _, err := copied.Ask(now, name, c)
	if err != nil {
		return a, err
	}
	DrawnBy(&a, q.Last) //mutant:look-draws-token
	return a, nil
}

// DrawnBy sets a.Last to last, and removes from the answer the tokens larger than that.
func DrawnBy(a *store.Answer, last int64) {
	a.Last = last
	if a.Token > last {
		a.Token, a.N = 0, 0
	}
	if a.UpgradeToken > last {
		a.UpgradeToken = 0
	}
	for i := range a.Holders {
		h := &a.Holders[i]
		if h.Token > last {
			h.Token, h.N, h.Used = 0, 0, 0
		}
		if h.UpgradeToken > last {
			h.UpgradeToken = 0
		}
	}
}

// settle drops expired entries and grants waiters in order. A grant of the
// entry of self notifies no one.
func (q *Queue) settle(now Time, name string, self store.ID) (change Change) {
	kept := q.Entries[:0]
	for i := range q.Entries {
		if q.Entries[i].end() > now.Clock { //mutant:expiry-after-crash
			kept = append(kept, q.Entries[i])
		}
	}
	if len(kept) < len(q.Entries) {
		clear(q.Entries[len(kept):])
		q.Entries = kept
		change.Wrote = true
	}
	held, least, waiting, upgrading := q.weights(now)
	if upgrading { // it goes before all waiters; at most one is pending //mutant:upgrade-lets-waiters-while
		if !q.upgrade(now, name, self, held, &change) { //mutant:upgrade-waits-behind-those
			return change
		}
		held = store.Full
	}
	for i := range q.Entries {
		if waiting == 0 {
			break
		}
		e := &q.Entries[i]
		if e.Granted {
			continue
		}
		least = min(least, int64(e.Limit)) //mutant:release-heeds-own-limit
		if held+int64(e.Weight) > least {  //mutant:limit-more-release
			break //mutant:release-skips-blocked
		}
		q.grant(now, i)         //mutant:grant-another-lasts-ttl
		held += int64(e.Weight) //mutant:release-grants-most
		waiting--
		change.Wrote = true
		if e.ID != self { //mutant:wakes-nobody
			change.Woken = append(change.Woken, store.Notification{Name: name, ID: e.ID, Token: e.Token, N: int(e.N)}) //mutant:block-told-hints
		}
	}
	return change
}

// grant makes the entry a hold and draws its tokens. Its expiry stays what it
// was: only a call of its owner extends it.
func (q *Queue) grant(now Time, i int) {
	e := &q.Entries[i]
	e.Granted, e.Since, e.N = true, now.Clock, max(e.N, 1)
	e.GiveUp = nil             //mutant:granted-asks-no-more
	e.Token = q.draw(now, e.N) //mutant:token-drawn-append
}

// draw draws n tokens and returns the first.
func (q *Queue) draw(now Time, n uint16) int64 {
	first := max(q.Last+1, now.Wall) //mutant:tokens-repeat-after-wipe
	q.Last = first + int64(n) - 1    //mutant:block-drawn
	return first
}

// mismatch reports whether a claim with the limit cannot share a queue with
// entries of the other: one is a lock, the other a semaphore. The weight held
// of a semaphore never exceeds the limit of any holder, so limits may differ.
func (q *Queue) mismatch(have, limit int64) bool {
	if have == 0 || have == limit {
		return false
	}
	return q.OneLimit || have == store.Full || limit == store.Full //mutant:lock-beside-semaphore
}

// granted extends the hold whose owner is asking, and answers.
func (q *Queue) granted(now Time, i int, c *store.Claim) store.Answer {
	e := &q.Entries[i]
	e.Expires = max(e.Expires, now.Clock+micros(c.TTL)) //mutant:repeated-grant-draws-new
	a := store.Answer{TTL: c.TTL, Granted: true, Last: q.Last}
	e.fill(&a)
	return a
}

// blockers returns what blocks an upgrade: all holds but its own.
func (q *Queue) blockers(now Time, self store.ID) store.Answer {
	others := Queue{Last: q.Last}
	for i := range q.Entries {
		if e := &q.Entries[i]; e.Granted && !e.Freed() && e.ID != self { //mutant:upgrade-tells-own-hold
			others.Entries = append(others.Entries, *e)
		}
	}
	return others.refused(now, len(others.Entries))
}

// refused answers for a claim at position i, in the queue or behind its end.
func (q *Queue) refused(now Time, i int) store.Answer {
	a := store.Answer{Last: q.Last} //mutant:refusal-forgets-newest-token
	first := int64(math.MaxInt64)
	for j := range q.Entries {
		e := &q.Entries[j]
		if j >= i && !e.Granted { //mutant:refusal-counts-itself
			break
		}
		if e.Freed() { //mutant:freed-hold-told
			continue
		}
		first = min(first, e.end()) //mutant:refusal-tells-last-end
		if e.wants(now) {
			first = min(first, e.Expires) // its want blocks more than its weight //mutant:refusal-tells-delay-behind
		}
		if !e.Granted {
			a.Waiting++ //mutant:refusal-forgets-those-wait
			continue
		}
		a.Holding++
		if len(a.Holders) < store.MaxHolders { //mutant:refusal-names-all-holders
			a.Holders = append(a.Holders, e.show(now))
		}
	}
	if a.Holding+a.Waiting > 0 {
		a.Until = duration(first - now.Clock) //mutant:refusal-tells-until
	}
	return a
}

// leave removes the entry at i from the queue. But a hold whose token was shown
// still blocks until its minimum hold has ended. For its owner it is released,
// and it has no lock delay.
func (q *Queue) leave(now Time, i int) {
	e := &q.Entries[i]                                         //mutant:lock-delay-after-release
	if e.Granted && e.Shown && e.Since+e.MinHold > now.Clock { //mutant:minimum-hold-ignored-release
		e.Expires, e.LockDelay = now.Clock, 0 //mutant:minimum-hold-ignored-expiry
		return
	}
	q.drop(i)
}

func (q *Queue) drop(i int) {
	last := len(q.Entries) - 1
	copy(q.Entries[i:], q.Entries[i+1:])
	q.Entries[last] = Entry{}
	q.Entries = q.Entries[:last]
}

func (q *Queue) find(id store.ID) int {
	for i := range q.Entries {
		if q.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

// weights returns the sum of the blocking weights, the smallest of their limits,
// how many wait, and whether an upgrade is pending.
func (q *Queue) weights(now Time) (held, least int64, waiting int, upgrading bool) {
	least = store.Full
	for i := range q.Entries {
		e := &q.Entries[i] //mutant:writer-see-readers
		if e.Freed() {     //mutant:freed-hold-in-the-way
			continue
		}
		if e.Granted {
			least = min(least, int64(e.Limit)) //mutant:smaller-total-heeded
			held += int64(e.Weight)
			upgrading = upgrading || e.wants(now)
		} else {
			waiting++
		}
	}
	return held, least, waiting, upgrading
}
