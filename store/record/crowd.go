package record

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// fewCome is how many wait for a name at the most without being a crowd.
const fewCome = 8

// othersTakeIn reports whether it is for others to take in the notes that a batch has left: in a crowd, where
// in a while most are in the record by no request of their own, and where an older note is there.
func (s *Store) othersTakeIn(ctx context.Context, n *name, batch []*op) bool {
	return n.crowd > fewCome || !s.traits.Notifies || s.anotherIsOldest(ctx, n, batch)
}

// anotherIsOldest reports whether the oldest note in the inbox is there, and of no claim of the batch.
func (s *Store) anotherIsOldest(ctx context.Context, n *name, batch []*op) bool {
	p, ok := s.b.(Peeker)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	oldest, err := p.Oldest(ctx, n.at)
	if err != nil {
		return false // what follows fails, too
	}
	note, ok := parseNote(n.at, oldest.Data)
	return ok && !slices.ContainsFunc(batch, func(o *op) bool { return o.claim != nil && o.claim.ID == note.claim.ID })
}

// alone reports whether each of a batch is an ask that may wait and has no session to wait in yet, of a store whose waiters poll.
func (s *Store) alone(batch []*op) bool {
	return !s.traits.Notifies && len(batch) > 0 && !slices.ContainsFunc(batch, func(o *op) bool { return o.claim == nil || o.short != nil })
}

// rests reports whether nothing need be written now: all that was asked for are in the
// inbox, among others, and nobody was granted. Of the many that come at once some take in
// all: each goes on after a while, and then insists. In a crowd it is as a rule who releases
// that takes them in, and says so.
func (s *Store) rests(n *name, a *applied, b *base, batch []*op) bool {
	// In a crowd a grant of another is left to its owner, who has seen it, too, and to who made room.
	crowd := s.traits.Notifies && len(a.q.Entries) > fewCome
	if len(batch) == 0 || !crowd && (len(a.granted) > 0 || len(b.Inbox) <= len(batch)) {
		return false
	}
	for i, o := range batch {
		if o.claim == nil || o.insists || a.told[i] != nil || a.stored[o.claim.ID] || !n.noted[o.claim.ID] {
			return false
		}
		if e := a.find(o.claim.ID); e == nil || e.Granted {
			return false
		}
	}
	return true
}

// looksInVain reports whether a claim is looked for in the record that is not there.
func looksInVain(a *applied, batch []*op) bool {
	return slices.ContainsFunc(batch, func(o *op) bool { return o.looks && !a.stored[o.claim.ID] }) //mutant:record-looks-and-writes
}

// room reports whether one of those that look for their claims in vain would be granted: nobody holds the name who
// would take in the notes, so it is for them.
func room(a *applied, batch []*op) bool {
	return slices.ContainsFunc(batch, func(o *op) bool {
		if !o.looks || a.stored[o.claim.ID] { //mutant:record-room-of-a-try
			return false
		}
		e := a.find(o.claim.ID)
		return e != nil && e.Granted
	})
}

// sawCrowd notes how many hold or wait.
func (s *Store) sawCrowd(n *name, many int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.crowd = many
}

// crowded is how long one of many that have come at once leaves it to the others to take all
// in: the longer, the more they are.
func (s *Store) crowded(at string, tried, ahead int) time.Duration {
	s.mu.Lock()
	many := 0
	if n := s.names[at]; n != nil {
		many = n.crowd
	}
	s.mu.Unlock()
	if s.traits.Notifies {
		many = max(many, 4*fewCome) // as a rule a notification comes before that
	} else {
		many = min(many, ahead)
	}
	trip := s.roundTrip() * time.Duration(1+min(many, 400)/4) << min(tried, 4)
	return min(trip+rand.N(2*trip), time.Second)
}

// settleLater has a note taken in whose claim nobody waits for any more, if nobody else
// does: else it would be taken in at any time.
func (s *Store) settleLater(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tasks.Go(func() {
		for failed := 0; sleep(s.ctx, s.crowded(at, failed, maxNames)) == nil; failed++ {
			if s.settleName(s.ctx, at) == nil {
				return
			}
		}
	})
}

// settleName takes in what is in the inbox, drops who has died, and grants those that
// fit then.
func (s *Store) settleName(ctx context.Context, at string) error {
	return s.do(ctx, at, &op{apply: func(v *view) (queue.Change, error) {
		v.refused = true
		return v.q.Release(v.now, &store.Hold{Name: v.name})
	}})
}
