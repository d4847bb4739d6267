package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// leading has the leases with which this process leads elections, by name. There are
// several for a hold that was re-entered.
type leading struct {
	mu sync.Mutex
	m  map[string][]*Lease
}

// begin adds a lease. Its hold's lock is held, or the hold is not shared yet.
func (g *leading) begin(l *Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = map[string][]*Lease{}
	}
	l.leads = true
	g.m[l.Name()] = append(g.m[l.Name()], l) //mutant:leads-by-the-newest
}

// end removes a lease that has ended.
func (g *leading) end(l *Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.m[l.Name()]
	i := slices.Index(all, l)
	if i < 0 {
		return
	}
	if g.m[l.Name()] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(g.m, l.Name())
	}
}

// Leads reports whether this process leads.
func (w *Target) Leads() bool {
	g := &w.l.e.leading
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.m[w.name], (*Lease).Valid) //mutant:leads-by-another-clock
}

// WhoLeads reads the current leader from the store.
func (w *Target) WhoLeads(ctx context.Context) (Leader, error) {
	return (&observation{w: w}).read(ctx)
}

// SetNote replaces the owner's note in the store. It is sent with a renewal: at once,
// unless the lease is renewed by hand.
func (l *Lease) SetNote(note string) error {
	h := l.hold
	switch {
	case len(note) > store.MaxNote:
		return l.errorf(fmt.Errorf("%w: the note has %d bytes, at most %d are kept", store.ErrInvalid, len(note), store.MaxNote))
	case h.e.endless:
		return l.errorf(fmt.Errorf("%w: set a note: %s", store.ErrUnsupported, h.e.desc.Lacks[store.PromiseDeadline]))
	}
	h.checkClock()
	s := &h.e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.why != nil {
		return l.errorf(l.why)
	}
	owner := h.s.Owner
	owner.Note = note
	h.Owner = owner.Stored()
	s.renewNow(h) //mutant:note-with-next-renewal
	return nil
}
