package record

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// usable reports whether a write may depend on the base. A claim whose note may be in an
// inbox that is not known writes only on what was read since (law 4).
func (s *Store) usable(n *name, b *base) bool {
	if !b.known || n.pending != nil && !b.fresh || len(n.late) > 0 && !b.fresh {
		return false
	}
	return b.inbox || len(n.noted) == 0
}

// begin reads the record, without the inbox where asks need no more; or, of a name that this process knows nothing of,
// begins with a write as if nothing were stored: there may be nothing. Not so for a claim that was asked for before and may be
// there: with a note in the inbox, too, a notification could answer for the record that was to be read (law 4).
func (s *Store) begin(ctx context.Context, n *name, b *base, batch []*op) error {
	blind := !n.met && (!s.traits.Clock || s.clockKnown()) && n.pending == nil && len(n.late) == 0 && len(batch) > 0
	for _, o := range batch {
		blind = blind && o.asks && !o.again //mutant:record-asks-again-unread
	}
	if n.met = true; blind {
		*b = base{known: true, inbox: true, sent: store.Now()}
		return nil
	}
	p, peeks := s.b.(Peeker)
	peeks = peeks && n.pending == nil && len(n.late) == 0 && len(batch) > 0
	for _, o := range batch {
		peeks = peeks && (o.looks || o.asks && !o.insists && len(n.noted) == 0)
	}
	if !peeks {
		return s.load(ctx, n, b)
	}
	sent := store.Now()
	r, err := s.readBy(ctx, n.at, p.Peek)
	if err == nil {
		*b = base{Record: r, known: true, sent: sent, fresh: true}
	}
	return err
}

// takesInFirst has the base tell who waits in the inbox, where a batch does more than ask. Whoever asks may write on
// the record alone, and so come before one whose note is in the inbox; but each that is granted gives back, and whoever
// gives back takes in first who has come by then. So nobody is passed by more than one hold that came later.
func (s *Store) takesInFirst(ctx context.Context, n *name, b *base, batch []*op) error {
	if b.inbox || !slices.ContainsFunc(batch, func(o *op) bool { return !o.asks }) { //mutant:record-gives-back-unread
		return nil
	}
	if p, ok := s.b.(Peeker); ok {
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		if oldest, err := p.Oldest(ctx, n.at); err != nil {
			return err
		} else if len(oldest.Data) == 0 {
			// Nobody waits. The record was read before, so this serves for a write that depends on it only (law 11).
			b.inbox, b.fresh = true, false
			return nil
		}
	}
	return s.load(ctx, n, b)
}

// load reads the record and the inbox.
func (s *Store) load(ctx context.Context, n *name, b *base) error {
	sent := store.Now()
	r, err := s.read(ctx, n.at)
	if err == nil {
		*b = base{Record: r, known: true, inbox: true, sent: sent, fresh: true}
	}
	return err
}

// void makes the joins that were not answered impossible, before the record is read (law
// 3). By mark, that is done by the write that follows.
func (s *Store) void(ctx context.Context, n *name, b *base) error {
	if s.traits.Void != VoidByCall || len(n.late) == 0 { //mutant:record-late-join-is-void
		return nil
	}
	for len(n.late) > 0 {
		l := n.late[0]
		if !l.in.Over() { //mutant:record-late-join-is-called
			ctx, cancel := context.WithTimeout(ctx, longest)
			err := s.sessions.Call(ctx, l.in.ID)
			cancel()
			if err != nil {
				return err
			}
		}
		n.late = n.late[1:]
		for _, id := range l.claims {
			n.noted[id] = true // it may have been done before
		}
	}
	b.known, b.fresh = false, false
	return nil
}

// read reads a record from the server.
func (s *Store) read(ctx context.Context, at string) (Record, error) {
	return s.readBy(ctx, at, s.b.Load)
}

func (s *Store) readBy(ctx context.Context, at string, load func(context.Context, string) (Record, error)) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sent := store.Now()
	r, err := load(ctx, at)
	heard := store.Now()
	if err == nil {
		s.took(heard.Sub(sent))
		s.hear(r.Now, heard)
	}
	return r, err
}
