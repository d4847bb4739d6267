// Package queue is the rule of holdfast as a pure state machine. A name is a queue of
// entries. An entry that is granted stays granted until it is released or expires.
// Waiters are granted in order. The first waiter that does not fit under the limit
// blocks all behind it.
//
// It does no I/O and reads no clock: the time is passed in. The memory and the
// file store keep their names with it, and so does package store/record for the
// stores on it. Every other store's script or statement is tested against it
// step by step.
//
// A Queue is not safe for concurrent use.
package queue

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Time is the present, in microseconds.
type Time struct {
	Clock int64 // on the clock that expiries are kept on: it must not be set back
	Wall  int64 // since 1970: the least that a new token may be
}

// At returns the Time of a store whose only clock is the wall clock.
func At(t time.Time) Time { return Time{Clock: t.UnixMicro(), Wall: t.UnixMicro()} }

// A Queue is the state of one name. The zero Queue is a name never used.
type Queue struct {
	Last     int64   // the newest token drawn
	Entries  []Entry // in the order in which they came
	OneLimit bool    // the store keeps one limit a name (it lacks store.PromiseTotals): any other is a mismatch
	Forgets  bool    // the store drops a hold that is broken with now, and its reason (it lacks store.PromiseReason)
}

// Limit is the limit of the entries, the smallest if they have several; 0 if
// there are none that can be in the way.
func (q *Queue) Limit() (least int32) {
	for i := range q.Entries {
		if e := &q.Entries[i]; !e.Freed() && (least == 0 || e.Limit < least) { //mutant:freed-hold-has-limit
			least = e.Limit
		}
	}
	return least
}

// SetLimit gives all entries the limit, for a store that keeps one a name.
func (q *Queue) SetLimit(limit int32) {
	q.OneLimit = true
	for i := range q.Entries {
		q.Entries[i].Limit = limit
	}
}

// GiveUp is the reason of the first waiter that asks the holders to give up, or
// empty. A store whose renewals do not read the queue tells it to them.
func (q *Queue) GiveUp() string {
	for i := range q.Entries {
		if e := &q.Entries[i]; e.GiveUp != nil {
			return *e.GiveUp
		}
	}
	return ""
}

// An Entry is a claim in the queue. Its index among the entries is its order.
// Instants are on Time.Clock, durations in microseconds. Granted, it is a hold;
// else it waits.
type Entry struct {
	ID           store.ID // of the claim
	Limit        int32    // that its claim was asked for with: entries of a semaphore may differ in it
	Weight       int32    // that it holds or asks for, at most Limit
	Want         int32    // weight asked for by an upgrade; else Weight
	Turn         int32    // counted up by the owner: changes of weight; with a block, how many of it are used besides the first
	N            uint16   // tokens drawn at the grant: Token … Token+N−1; while waiting, how many to draw
	Granted      bool     // it is a hold
	Shown        bool     // the owner has used the token, so MinHold counts
	Broken       *string  // why an operator broke it, as it is stored; nil: nobody has. A pointer, for it is rare, and an entry small
	Token        int64    // of the grant: the identity of the hold
	UpgradeToken int64    // drawn by an upgrade, or 0
	Since        int64    // the instant of the grant
	Expires      int64    // the instant of its expiry
	MinHold      int64    // minimum hold
	LockDelay    int64    // lock delay
	Owner        string   // store.Owner.String
	GiveUp       *string  // of a waiter: why it asks the holders to give up; nil: it does not. A pointer like Broken
}

// freedMark begins the stored reason of a hold that was broken with now. A program that
// does not know it takes the hold for one that is broken and in the way: it lets nobody in too early.
const freedMark = "\x01"

// MaxBroken is the length of the longest Broken.
const MaxBroken = len(freedMark) + store.MaxReason

// Reason is why an operator broke the entry, or empty.
func (e *Entry) Reason() string { return strings.TrimPrefix(e.Stored(), freedMark) }

// Stored is Broken, or empty.
func (e *Entry) Stored() string {
	if e.Broken == nil {
		return ""
	}
	return *e.Broken
}

// Freed reports whether the hold was broken with now: it is in nobody's way, and there for
// its owner to be told why.
func (e *Entry) Freed() bool { return e.Broken != nil && strings.HasPrefix(*e.Broken, freedMark) }

// Asks is why the waiter asks the holders to give up, or empty.
func (e *Entry) Asks() string {
	if e.GiveUp == nil {
		return ""
	}
	return *e.GiveUp
}

func (e *Entry) ask(reason string) {
	if e.GiveUp = nil; reason != "" {
		e.GiveUp = &reason
	}
}

// StoredReason is the reason of a break as it is stored.
func StoredReason(b *store.Break) string {
	reason := cmp.Or(strings.TrimLeft(b.Reason, freedMark), "no reason given") //mutant:break-forgets-reason
	if b.Now {
		reason = freedMark + reason
	}
	return reason
}

// LostFor is ErrLost, with the reason, if the hold was broken: stored is Broken, or empty.
func LostFor(stored string) error {
	if stored == "" {
		return store.ErrLost
	}
	return &store.LostError{Reason: strings.TrimPrefix(stored, freedMark)}
}

// live reports whether the entry has not expired.
func (e *Entry) live(now Time) bool { return e.Expires > now.Clock }

// end is the instant at which the entry is out of the way, unless it is
// renewed: for a position its expiry; for a hold the later of its expiry with the
// lock delay, and of its minimum hold if the owner has shown the token.
func (e *Entry) end() int64 {
	if !e.Granted {
		return e.Expires //mutant:lock-delay-place
	}
	end := e.Expires + e.LockDelay //mutant:lock-delay-ignored
	if e.Shown {                   //mutant:minimum-hold-kept-expired
		end = max(end, e.Since+e.MinHold)
	}
	return end
}

// wants reports whether an upgrade of the entry is pending. It is void once the
// hold has expired.
func (e *Entry) wants(now Time) bool { return e.Granted && e.Want > e.Weight && e.live(now) } //mutant:upgrade-pending-outlives-hold

// A Change tells what an operation did to the queue besides its answer.
type Change struct {
	Wrote bool                 // the queue differs from before and must be stored
	Woken []store.Notification // those other than the caller that were granted, or upgraded, or are asked to give up
}

// Ask appends the claim, or refreshes the entry of its id. See
// [store.Store.Ask].
func (q *Queue) Ask(now Time, name string, c *store.Claim) (store.Answer, Change, error) {
	// The own entry is looked for before anything is dropped: an expired hold
	// asked for again is lost, never a second entry.
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

// Poll answers what Ask would answer and changes nothing. A token or upgrade token that
// is only drawn by the ask that has to follow is not told.
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

// DrawnBy takes from an answer the tokens that are larger than the last that was drawn.
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

// Renew pushes the expiry of a hold forward, and keeps what else its owner
// tells. See [store.Store.Renew].
func (q *Queue) Renew(now Time, h *store.Hold) (store.Renewal, Change) {
	id := h.ID
	if h.NewID != (store.ID{}) && q.find(h.NewID) >= 0 { //mutant:renew-without-comparing-id
		id = h.NewID // it has been done, and the reply was lost //mutant:adoption-repeated-lost
	}
	i, err := q.held(now, id, h.Token) //mutant:renewal-re-creates
	if err != nil {
		return store.Renewal{Err: err}, q.settle(now, h.Name, id)
	}
	e := &q.Entries[i]
	e.Expires = max(e.Expires, now.Clock+micros(h.TTL)) //mutant:renewal-moves-expiry-back
	e.Shown = true
	e.Owner = cmp.Or(h.Owner, e.Owner)                   //mutant:renewal-forgets-owner
	if e.Token < h.Used && h.Used < e.Token+int64(e.N) { //mutant:token-outside-block-used
		e.Turn = max(e.Turn, int32(h.Used-e.Token)) //mutant:newest-token-used-goes
	}
	id = cmp.Or(h.NewID, id) //mutant:adopted-hold-keeps-id-7
	e.ID = id                //mutant:adopted-hold-keeps-id
	change := q.settle(now, h.Name, id)
	change.Wrote = true
	e = &q.Entries[q.find(id)]                                                                                 // settle may have moved it
	r := store.Renewal{TTL: h.TTL, Weight: int64(e.Weight), Want: int64(e.Want), UpgradeToken: e.UpgradeToken} //mutant:renewal-tells-fence
	r.GiveUp = q.GiveUp()                                                                                      //mutant:renewal-tells-give-up
	return r, change
}

// Change changes the weight of an upgradeable hold. See [store.Store.Change].
func (q *Queue) Change(now Time, h *store.Hold, turn int32, weight int64) (store.Answer, Change, error) { //mutant:change-compares-id
	i, err := q.held(now, h.ID, h.Token) //mutant:change-compares-token
	if err == nil && !q.upgradeable(i) { //mutant:upgrade-void-repeat
		err = store.NotUpgradeableError(h.Name)
	}
	if err != nil {
		return store.Answer{}, q.settle(now, h.Name, h.ID), err
	}
	e := &q.Entries[i]
	fresh := turn > e.Turn // else a copy of one that was answered before //mutant:turns-ignored
	if fresh {
		e.Turn, e.Want = turn, int32(weight) //mutant:upgrade-second-entry
		e.Weight = min(e.Weight, e.Want)     //mutant:cancel-only-clears-want
	}
	change := q.settle(now, h.Name, h.ID) //mutant:downgrade-gives-room
	change.Wrote = change.Wrote || fresh
	e = &q.Entries[q.find(h.ID)] // settle may have moved it
	if int64(e.Weight) == weight {
		a := store.Answer{Granted: true, Last: q.Last}
		e.tell(&a)
		return a, change, nil
	}
	a := q.inTheWay(now, h.ID)
	e.tell(&a)
	return a, change, nil
}

// Release gives a hold back, or with token 0 whatever the id has. See
// [store.Store.Release].
func (q *Queue) Release(now Time, h *store.Hold) (Change, error) {
	if h.Token == 0 { //mutant:release-nothing-nil
		wrote := false
		if i := q.find(h.ID); i >= 0 && q.Entries[i].live(now) { //mutant:cancelled-waiter-stays
			q.drop(i) // nobody ran: no minimum hold is kept, though the token may have been shown //mutant:minimum-hold-kept-withdrew
			wrote = true
		}
		change := q.settle(now, h.Name, h.ID)
		change.Wrote = change.Wrote || wrote //mutant:withdrawal-nothing-lost
		return change, nil
	}
	i, err := q.hold(now, h.ID, h.Token) //mutant:compare-release
	if err != nil {
		return q.settle(now, h.Name, h.ID), err
	}
	if q.Entries[i].Freed() { // its owner has been told that it was lost //mutant:freed-hold-given-back
		err := lost(&q.Entries[i])
		q.drop(i)
		change := q.settle(now, h.Name, h.ID)
		change.Wrote = true
		return change, err
	}
	e := &q.Entries[i]                                                                       //mutant:broken-hold-cannot-released
	e.Shown = true                                                                           //mutant:block-given-back-tells
	if end := e.Token + int64(e.N) - 1; e.Token <= h.Used && h.Used < end && q.Last == end { //mutant:block-given-back-token
		q.Last, e.N = h.Used, uint16(h.Used-e.Token+1) //mutant:block-given-back-whole
	}
	q.leave(now, i)
	change := q.settle(now, h.Name, h.ID)
	change.Wrote = true
	return change, nil
}

// Break marks a hold as broken, and with now set takes it out of the way. See
// [store.Inspector].
func (q *Queue) Break(now Time, b *store.Break) (Change, error) {
	i := q.find(b.ID)
	if i < 0 || !q.Entries[i].has(now, b.Token) || q.Entries[i].end() <= now.Clock || q.Entries[i].Freed() { //mutant:break-compares-token
		return q.settle(now, b.Name, b.ID), store.ErrLost
	}
	e := &q.Entries[i]
	reason := StoredReason(b)
	e.MinHold = 0     //mutant:break-leaves-minimum-hold
	e.Want = e.Weight // nobody could be told of the upgrade //mutant:upgrade-pending-outlives-break
	if b.Now {        //mutant:broken-hold-removed
		e.LockDelay = 0
	}
	e.Broken = &reason
	if b.Now && (q.Forgets || !e.live(now)) { // nobody is left to be told //mutant:freed-hold-dropped
		q.drop(i)
	}
	change := q.settle(now, b.Name, b.ID)
	change.Wrote = true
	return change, nil
}

// Expire ends now, as if their time were over, the entries whose owners dead
// says have died, and grants those that fit.
func (q *Queue) Expire(now Time, name string, dead func(store.Process) bool) Change {
	wrote := false
	for i := range q.Entries {
		if e := &q.Entries[i]; e.live(now) && dead(e.ID.Process()) { //mutant:dead-is-expired
			e.Expires = now.Clock
			wrote = true
		}
	}
	change := q.settle(now, name, store.ID{})
	change.Wrote = change.Wrote || wrote
	return change
}

// State is the queue as List shows it. Entries whose time is over are not
// in it, though they may not have been dropped yet.
func (q *Queue) State(now Time, name string) store.State {
	s := store.State{Name: name, Limit: int64(q.Limit()), Last: q.Last}
	if s.Limit == 0 && len(q.Entries) > 0 { // all are freed
		s.Limit = int64(q.Entries[0].Limit)
	}
	for i := range q.Entries {
		if e := &q.Entries[i]; e.end() > now.Clock {
			s.Entries = append(s.Entries, e.show(now))
		}
	}
	return s
}

// settle drops what is over and gives room in order. A grant of the entry of
// self is no one else's news.
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
	if upgrading { // before all that wait; there is one at most //mutant:upgrade-lets-waiters-while
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
// was: only the owner's own act pushes it.
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

// upgrade grants the pending upgrade if there is room, and reports whether it
// did. Its owner learns the upgrade token from a renewal: no notification carries it.
func (q *Queue) upgrade(now Time, name string, self store.ID, held int64, change *Change) bool {
	for i := range q.Entries {
		e := &q.Entries[i]
		if !e.wants(now) {
			continue
		}
		if held-int64(e.Weight)+int64(e.Want) > store.Full { //mutant:upgrade-see-readers
			return false
		}
		e.Weight, e.UpgradeToken = e.Want, q.draw(now, 1) //mutant:upgrade-replaces-token-grant
		change.Wrote = true
		if e.ID != self { //mutant:upgrade-wakes-nobody
			change.Woken = append(change.Woken, store.Notification{Name: name, ID: e.ID}) //mutant:upgrade-told-token
		}
	}
	return true
}

// mismatch reports whether a claim with the limit cannot be beside entries with
// the other: one is a lock, the other a semaphore. What is held of a semaphore
// never exceeds the limit of any that holds it, so limits may differ.
func (q *Queue) mismatch(have, limit int64) bool {
	if have == 0 || have == limit {
		return false
	}
	return q.OneLimit || have == store.Full || limit == store.Full //mutant:lock-beside-semaphore
}

// askHolders notifies the holds that the waiter at i asks to give up, if it
// does. As with an upgrade there is no token in it: the owner renews, and is
// told why.
func (q *Queue) askHolders(now Time, name string, i int, change *Change) {
	if q.Entries[i].GiveUp == nil {
		return
	}
	for j := range q.Entries {
		if e := &q.Entries[j]; e.Granted && e.Broken == nil && e.live(now) { //mutant:give-up-asks-those-alive
			change.Woken = append(change.Woken, store.Notification{Name: name, ID: e.ID}) //mutant:give-up-notifies
		}
	}
}

// upgradeable reports whether the weight of the hold may be changed: it was
// granted as upgradeable, so it is that, or an upgrade of it was granted.
func (q *Queue) upgradeable(i int) bool {
	e := &q.Entries[i]
	return e.Limit == store.Full && (e.Weight == store.Upgradeable || e.UpgradeToken != 0) //mutant:change-slots
}

// granted pushes the expiry of a hold whose owner is asking, and answers.
func (q *Queue) granted(now Time, i int, c *store.Claim) store.Answer {
	e := &q.Entries[i]
	e.Expires = max(e.Expires, now.Clock+micros(c.TTL)) //mutant:repeated-grant-draws-new
	a := store.Answer{TTL: c.TTL, Granted: true, Last: q.Last}
	e.tell(&a)
	return a
}

// tell answers how the hold stands.
func (e *Entry) tell(a *store.Answer) {
	a.Token, a.N, a.Weight, a.Want, a.UpgradeToken = e.Token, int(e.N), int64(e.Weight), int64(e.Want), e.UpgradeToken
}

// inTheWay answers who is in the way of an upgrade: all holds but the own.
func (q *Queue) inTheWay(now Time, self store.ID) store.Answer {
	others := Queue{Last: q.Last}
	for i := range q.Entries {
		if e := &q.Entries[i]; e.Granted && !e.Freed() && e.ID != self { //mutant:upgrade-tells-own-hold
			others.Entries = append(others.Entries, *e)
		}
	}
	return others.refused(now, len(others.Entries))
}

// refused answers for a claim at position i of the queue, in it or behind it.
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
			first = min(first, e.Expires) // its want keeps more out than its weight //mutant:refusal-tells-delay-behind
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
		a.Until = duration(first - now.Clock)
	}
	return a
}

// leave takes the entry at i out of the queue, except that a hold whose token
// was shown stays in the way until its minimum hold is over: gone for its
// owner, and with no lock delay.
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

// held finds the hold that its owner may go on with, or says ErrLost.
func (q *Queue) held(now Time, id store.ID, token int64) (int, error) {
	i, err := q.hold(now, id, token)
	if err == nil && q.Entries[i].Broken != nil { //mutant:broken-hold-may-renewed
		err = lost(&q.Entries[i])
	}
	return i, err
}

// hold finds the live hold of the id and token, or says ErrLost.
func (q *Queue) hold(now Time, id store.ID, token int64) (int, error) {
	i := q.find(id)
	if i < 0 {
		return i, store.ErrLost
	}
	if e := &q.Entries[i]; !e.Granted || e.Token != token || !e.live(now) { //mutant:renew-waiting-entry
		return i, lost(e)
	}
	return i, nil
}

func (q *Queue) find(id store.ID) int {
	for i := range q.Entries {
		if q.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

// weights returns the sum of what is in the way, the smallest limit of that, how
// many wait, and whether an upgrade is pending.
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

// has reports whether e is a hold and the token any of it.
func (e *Entry) has(now Time, token int64) bool {
	s := e.show(now)
	return s.Has(token) //mutant:block-hold-broken
}

func (e *Entry) show(now Time) store.Entry {
	s := store.Entry{
		ID: e.ID, Weight: int64(e.Weight), Want: int64(e.Want), Granted: e.Granted, Token: e.Token, UpgradeToken: e.UpgradeToken,
		Expires: duration(e.Expires - now.Clock), Ends: duration(e.end() - now.Clock),
		Broken: e.Reason(), Freed: e.Freed(), GiveUp: e.Asks(), Owner: store.ParseOwner(e.Owner),
	}
	if !e.wants(now) { //mutant:list-shows-want-expired
		s.Want = s.Weight
	}
	if e.Granted {
		s.Age = duration(now.Clock - e.Since)
		s.N, s.Used = int(e.N), e.Token
		if e.N > 1 {
			s.Used += int64(e.Turn)
		}
	}
	return s
}

// lost is ErrLost, with the reason where an operator broke the entry.
func lost(e *Entry) error { return LostFor(e.Stored()) }

// micros rounds up, so that no hold is shorter than was asked for.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
