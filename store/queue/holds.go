package queue

import (
	"cmp"

	"github.com/holdfast-go/holdfast/store"
)

// GiveUp returns the reason of the first request to give up the hold of the id, by another hold
// whose upgrade is pending or by a waiter; or empty. It is for a store whose renewals do not
// read the queue.
func (q *Queue) GiveUp(now Time, of store.ID) string {
	for i := range q.Entries {
		if e := &q.Entries[i]; e.Asking(now) && e.ID != of { //mutant:upgrade-asks-itself
			return *e.GiveUp
		}
	}
	return ""
}

// Renew pushes the expiry of a hold forward, and keeps the other values that
// its owner sent. See [store.Store.Renew].
func (q *Queue) Renew(now Time, h *store.Hold) (store.Renewal, Change) {
	id := h.ID
	if h.NewID != (store.ID{}) && q.find(h.NewID) >= 0 { //mutant:renew-without-comparing-id
		id = h.NewID // it was done before, and the reply was lost //mutant:adoption-repeated-lost
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
	r.GiveUp = q.GiveUp(now, id)                                                                               //mutant:renewal-tells-give-up
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
	fresh := turn > e.Turn // otherwise it is a copy of an answered change //mutant:turns-ignored
	asks := false
	if fresh {
		e.Turn, e.Want = turn, int32(weight) //mutant:upgrade-second-entry
		e.Weight = min(e.Weight, e.Want)     //mutant:cancel-only-clears-want
		asks = e.Asks() != h.GiveUp          //mutant:upgrade-asks-each-turn
		if e.ask(h.GiveUp); e.Want == e.Weight {
			e.GiveUp = nil //mutant:downgrade-asks
		}
	}
	change := q.settle(now, h.Name, h.ID) //mutant:downgrade-gives-room
	change.Wrote = change.Wrote || fresh
	e = &q.Entries[q.find(h.ID)] // settle may have moved it
	if int64(e.Weight) == weight {
		a := store.Answer{Granted: true, Last: q.Last}
		e.fill(&a)
		return a, change, nil
	}
	if asks {
		q.askHolders(now, h.Name, q.find(h.ID), &change) //mutant:upgrade-asks-unheard
	}
	a := q.blockers(now, h.ID)
	e.fill(&a)
	return a, change, nil
}

// Release gives a hold back, or with token 0 whatever the id has. See
// [store.Store.Release].
func (q *Queue) Release(now Time, h *store.Hold) (Change, error) {
	if h.Token == 0 { //mutant:release-nothing-nil
		wrote := false
		if i := q.find(h.ID); i >= 0 && q.Entries[i].live(now) { //mutant:cancelled-waiter-stays
			q.drop(i) // nothing ran: no minimum hold is kept, even if the token was shown //mutant:minimum-hold-kept-withdrew
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
	if q.Entries[i].Freed() { // its owner has learned that it was lost //mutant:freed-hold-given-back
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

// Break marks a hold as broken; with Now set, the hold no longer blocks. See
// [store.Inspector].
func (q *Queue) Break(now Time, b *store.Break) (Change, error) {
	i := q.find(b.ID)
	if i < 0 || !q.Entries[i].has(now, b.Token) || q.Entries[i].end() <= now.Clock || q.Entries[i].Freed() { //mutant:break-compares-token
		return q.settle(now, b.Name, b.ID), store.ErrLost
	}
	e := &q.Entries[i]
	reason := StoredReason(b)
	e.MinHold = 0     //mutant:break-leaves-minimum-hold
	e.Want = e.Weight // no owner is left to use the upgrade //mutant:upgrade-pending-outlives-break
	e.GiveUp = nil
	if b.Now {
		e.LockDelay = 0
	}
	e.Broken = &reason
	if b.Now && (q.Forgets || !e.live(now)) { // no owner is left to notify //mutant:freed-hold-dropped
		q.drop(i)
	}
	change := q.settle(now, b.Name, b.ID)
	change.Wrote = true
	return change, nil
}

// upgrade grants the pending upgrade if it fits, and reports whether it did. Its
// owner learns the upgrade token from a renewal: no notification carries it.
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
		e.GiveUp = nil
		change.Wrote = true
		if e.ID != self { //mutant:upgrade-wakes-nobody
			change.Woken = append(change.Woken, store.Notification{Name: name, ID: e.ID}) //mutant:upgrade-told-token
		}
	}
	return true
}

// askHolders notifies the other holds that the entry at i asks them to give up,
// if it does. As with an upgrade the notification has no token: the owner
// renews, and gets the reason.
func (q *Queue) askHolders(now Time, name string, i int, change *Change) {
	if q.Entries[i].GiveUp == nil {
		return
	}
	for j := range q.Entries {
		if e := &q.Entries[j]; e.Granted && e.Broken == nil && e.live(now) && j != i { //mutant:give-up-asks-those-alive
			change.Woken = append(change.Woken, store.Notification{Name: name, ID: e.ID}) //mutant:give-up-notifies
		}
	}
}

// upgradeable reports whether the weight of the hold may be changed: whether it
// is upgradeable, or an upgrade of it was granted.
func (q *Queue) upgradeable(i int) bool {
	e := &q.Entries[i]
	return e.Limit == store.Full && (e.Weight == store.Upgradeable || e.UpgradeToken != 0) //mutant:change-slots
}

// held finds the live hold of the id and token, or returns ErrLost, also if it is broken.
func (q *Queue) held(now Time, id store.ID, token int64) (int, error) {
	i, err := q.hold(now, id, token)
	if err == nil && q.Entries[i].Broken != nil { //mutant:broken-hold-may-renewed
		err = lost(&q.Entries[i])
	}
	return i, err
}

// hold finds the live hold of the id and token, or returns ErrLost.
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
