package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// gates are the queues inside the process, one a name: one waiter per process
// and name asks the store, the rest wait here in the order of arrival.
type gates struct {
	mu sync.Mutex
	m  map[string]*gate
}

// A gate is there while somebody is in it. Who is inside is not in the list.
type gate struct {
	first, last *passer
	refused     *refused // how the store last answered, for those who were never told
}

// A passer waits at a gate.
type passer struct {
	in         chan struct{} // closed when it is let in
	prev, next *passer
}

// A refused is an answer of the store with the instant it came.
type refused struct {
	answer store.Answer
	when   time.Time
}

func (g *gates) init() { g.m = map[string]*gate{} }

// enter waits until nobody else of this process is inside. If it returns an
// error, it is not inside, and last is what refuse noted last, or nil.
func (g *gates) enter(ctx context.Context, name string, closing <-chan struct{}) (last *refused, err error) {
	g.mu.Lock()
	at := g.m[name]
	if at == nil {
		g.m[name] = &gate{}
		g.mu.Unlock()
		return nil, nil
	}
	p := &passer{in: make(chan struct{}), prev: at.last}
	if at.last == nil {
		at.first = p
	} else {
		at.last.next = p
	}
	at.last = p
	g.mu.Unlock()

	select {
	case <-p.in:
		if err = ctx.Err(); err == nil {
			return nil, nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-closing:
		err = ErrClosed
	}
	g.mu.Lock()
	last = at.refused
	select {
	case <-p.in: // let in at the same moment: hand it on
		g.mu.Unlock()
		g.leave(name)
	default:
		at.remove(p)
		g.mu.Unlock()
	}
	return last, err
}

// leave lets in the next, or forgets the gate.
func (g *gates) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.m[name]
	if p := at.first; p != nil {
		at.remove(p)
		close(p.in)
		return
	}
	delete(g.m, name)
}

// refuse notes how the store answered the one inside.
func (g *gates) refuse(name string, r *refused) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.m[name].refused = r
}

func (at *gate) remove(p *passer) {
	if p.prev == nil {
		at.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		at.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}
