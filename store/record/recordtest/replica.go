package recordtest

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/store/session"
)

// Fork copies the present state of the server, as a replica has it that receives nothing more. promote replaces the
// server by the copy: everything answered since is forgotten, and [Client.Server] differs from the next renewal on.
func (m *Memory) Fork() (promote func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names, sessions := map[string]*name{}, map[session.ID]*life{}
	for what, n := range m.names {
		c := *n
		c.inbox = slices.Clone(n.inbox)
		names[what] = &c
	}
	for id, l := range m.sessions {
		c := *l
		if !c.over {
			c.ended = make(chan struct{})
		}
		sessions[id] = &c
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for l := range maps.Values(m.sessions) {
			if !l.over {
				close(l.ended) // a process that awaits it asks again
			}
		}
		m.names, m.sessions = names, sessions
		m.server++
	}
}
