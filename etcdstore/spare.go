package etcdstore

import "github.com/holdfast-go/holdfast/store"

// etcd remembers each key that there ever was until it is compacted, and whoever
// lists a name goes through all of them. So a claim takes a key that an earlier one
// of this process, on the same name and with the same weight, has done with: not the
// history of a name counts then, but how many were in it at once.

// mostSpares is how many keys are kept to be used again: some hundred bytes each.
const mostSpares = 4096

// spares are keys that can be used again, by their kind.
type spares struct {
	of map[string][]string
	n  int
}

// spareKey is the key for a new claim.
func (s *Store) spareKey(c *store.Claim) string {
	fresh := entryKey(s.keys(c.Name), c.Limit, c.Weight, c.ID)
	kind := kindOf(fresh)
	s.mu.Lock()
	defer s.mu.Unlock()
	some := s.spares.of[kind]
	if len(some) == 0 { //mutant:etcd-each-claim-key-own
		return fresh
	}
	s.spares.n--
	if s.spares.of[kind] = some[:len(some)-1]; len(some) == 1 { //mutant:etcd-two-claims-key
		delete(s.spares.of, kind)
	}
	return some[len(some)-1]
}

// spare keeps the key of a claim, which was deleted, for the next one. It does not
// if anything may still come that is not meant for that: a deletion or an ask that
// was not answered, or a minimum hold beside it. s.mu is held.
func (s *Store) spare(m *mine) {
	if m.unclear || m.late || m.keep > 0 || s.spares.n >= mostSpares { //mutant:etcd-key-used-again-deletion
		return
	}
	s.spares.n++
	s.spares.of[kindOf(m.key)] = append(s.spares.of[kindOf(m.key)], m.key)
}

// kindOf is what keys that can stand for each other have in common: all but the
// id.
func kindOf(key string) string { return key[:len(key)-32] }
