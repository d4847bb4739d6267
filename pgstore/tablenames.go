package pgstore

import "sync"

// names remembers the state of recently used names, so that the statement for another state is not
// sent in vain.
type names[V comparable] struct {
	mu  sync.Mutex
	are map[string]V
}

// mostNames bounds how many names are remembered.
const mostNames = 1000

// get returns what was set, or the zero V.
func (n *names[V]) get(name string) V {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.are[name]
}

func (n *names[V]) set(name string, v V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var zero V
	_, known := n.are[name]
	switch {
	case v == zero:
		delete(n.are, name)
	case n.are == nil || len(n.are) >= mostNames && !known:
		n.are = map[string]V{name: v}
	default:
		n.are[name] = v
	}
}
