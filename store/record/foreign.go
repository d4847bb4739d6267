package record

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A lock that a program without holdfast holds is an entry of the view, as a hold that has expired and blocks for its
// lock delay. It may be written with the record, but only what the newest read shows counts. So it needs no session,
// and blocks for as long as the backend has said at most.

// foreignID is the id of that entry. No claim has it.
var foreignID = store.ID{0: 0xff, 15: 0xff}

// longestAge is the longest time for which another program's holder is shown to hold: its records may claim anything.
const longestAge = 10 * 365 * 24 * time.Hour

// heldBy makes the entry that of the present holder, or removes it.
func (v *view) heldBy(f *Foreign) {
	v.q.Entries = slices.DeleteFunc(v.q.Entries, func(e queue.Entry) bool { return e.ID == foreignID }) //mutant:record-foreign-holder-stays
	delete(v.in, foreignID)
	delete(v.stored, foreignID)
	if f == nil {
		return
	}
	owner := store.Owner{Host: f.Owner, Program: "not holdfast"}
	v.q.Entries = slices.Insert(v.q.Entries, 0, queue.Entry{
		ID: foreignID, Granted: true, Token: max(v.q.Last, 1), N: 1, Limit: store.Full, Weight: store.Full, Want: store.Full,
		Since: v.now.Clock - micros(min(max(f.Age, 0), longestAge)), Expires: v.now.Clock, LockDelay: max(micros(f.Left), 1), Owner: owner.Stored(),
	})
}

// holder returns the owner of the oldest hold; empty: there is none.
func (v *view) holder() string {
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; e.Granted && !e.Freed() && e.ID != foreignID {
			return e.Owner
		}
	}
	return ""
}
