package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A lock that a program without holdfast holds is an entry of the view, as a hold that has expired and blocks for its
// lock delay. It is not written with the record: only what the newest read shows counts. So it needs no session, and
// blocks for as long as the backend has said at most.

// foreignID is the id of that entry. No claim has it.
var foreignID = store.ID{0: 0xff, 15: 0xff}

// longestAge is the longest time for which another program's holder is shown to hold: its records may claim anything.
const longestAge = 10 * 365 * 24 * time.Hour

// heldBy adds the entry of another program's holder. That has taken the lock from the holds that are still there, so
// they end now, as if their sessions had ended: a minimum hold and a lock delay still block. The next write makes that
// final. A broken hold stays, as its owner gets the reason.
func (v *view) heldBy(f *Foreign) {
	if f == nil {
		return
	}
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; e.Granted && e.Broken == nil { //mutant:record-broken-beside-a-foreign-holder
			e.Expires = min(e.Expires, v.now.Clock) //mutant:record-holds-beside-a-foreign-holder
		}
	}
	owner := store.Owner{Host: f.Owner, Program: "not holdfast"}
	v.q.Entries = slices.Insert(v.q.Entries, 0, queue.Entry{
		ID: foreignID, Granted: true, Token: max(v.q.Last, 1), N: 1, Limit: store.Full, Weight: store.Full, Want: store.Full,
		Since: v.now.Clock - micros(min(max(f.Age, 0), longestAge)), Expires: v.now.Clock, LockDelay: max(micros(f.Left), 1), Owner: owner.Stored(),
	})
}

// own returns the entries without that of another program.
func (v *view) own() []queue.Entry {
	if v.find(foreignID) == nil { //mutant:record-foreign-holder-stays
		return v.q.Entries
	}
	return slices.DeleteFunc(slices.Clone(v.q.Entries), func(e queue.Entry) bool { return e.ID == foreignID })
}

// holder returns the owner of the oldest hold; empty: there is none.
func (v *view) holder() string {
	for _, e := range v.own() {
		if e.Granted && !e.Freed() {
			return cmp.Or(e.Owner, store.Owner{}.Stored())
		}
	}
	return ""
}
