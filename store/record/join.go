package record

import (
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// join has the swap leave notes if it is refused: of asks that may wait, which all have
// the same session. It returns that.
func (s *Store) join(n *name, a *applied, w *Swap, batch []*op) *session.Session {
	if len(batch) == 0 || len(n.late) > 0 {
		return nil
	}
	in := batch[0].short
	for i, o := range batch {
		if o.claim == nil || o.short == nil || o.short != in || n.noted[o.claim.ID] || a.stored[o.claim.ID] || a.told[i] != nil {
			return nil
		}
	}
	st := in.State()
	if st.Over {
		return nil
	}
	w.Join = &Join{Session: in.ID, Calls: st.Calls}
	for _, o := range batch {
		one := waiter{*o.claim, in.ID, in.Number()}
		w.Join.Notes = append(w.Join.Notes, one.note())
	}
	return in
}

// lateJoin is a join that was not answered.
func lateJoin(in *session.Session, j *Join) late {
	l := late{in: in}
	for i := range j.Notes {
		if n, ok := parseNote("", j.Notes[i].Data); ok {
			l.number = max(l.number, n.number)
			l.claims = append(l.claims, n.claim.ID)
		}
	}
	return l
}

// seen forgets the notes that are not in the inbox any more. That a claim is in the
// record does not say so: it may be there without its note.
func (s *Store) seen(n *name, b *base) {
	for id := range n.noted {
		if b.inbox && !b.More && !holdsNote(&b.Record, id) {
			delete(n.noted, id)
		}
	}
}

// holdsNote reports whether a note of the claim is in the inbox.
func holdsNote(r *Record, id store.ID) bool {
	for i := range r.Inbox {
		if n, ok := parseNote("", r.Inbox[i].Data); ok && n.claim.ID == id {
			return true
		}
	}
	return false
}
