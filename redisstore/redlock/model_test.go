package redlock

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// model is what one node keeps of a name, as the scripts do it. The tests explore it, and compare the scripts with it. Its methods return the
// letter that the script answers. woken has the grants to claims other than the caller's.
type model struct {
	there bool // the record exists
	last  int64
	q     []entry
	woken []store.ID
	asked []store.ID // holders that are notified of the caller's request
}

// ahead is how far above its clock a node accepts a number, in µs.
const ahead = 10_000_000

func (m *model) find(id store.ID) int {
	return slices.IndexFunc(m.q, func(e entry) bool { return e.id == id })
}

func (m *model) drop(now int64) {
	m.q = slices.DeleteFunc(slices.Clone(m.q), func(e entry) bool { return e.ends() <= now })
}

// room grants waiters in order, until one does not fit.
func (m *model) room(self store.ID) {
	held, least := int64(0), int64(store.Full)
	for _, e := range m.q {
		if e.granted {
			held, least = held+e.weight, min(least, e.limit)
		}
	}
	for i := range m.q {
		e := &m.q[i]
		if e.granted {
			continue
		}
		if least = min(least, e.limit); held+e.weight > least {
			return
		}
		e.granted = true
		held += e.weight
		if e.id != self {
			m.woken = append(m.woken, e.id)
		}
	}
}

func (m *model) settle(now int64, self store.ID) {
	m.drop(now)
	m.room(self)
}

// ask is the script of that name, without the node's record. e is as the client sends it, with times of 0.
func (m *model) ask(now int64, e entry, ttl, place int64, mode string) byte {
	m.q, m.woken, m.asked = slices.Clone(m.q), nil, nil
	if !m.there {
		m.last = now
	}
	if e.p+int64(e.n)-1 > now+ahead {
		return 'H'
	}
	i := m.find(e.id)
	if i >= 0 && (m.q[i].broken() != "" || m.q[i].accepted && m.q[i].expires <= now) {
		m.settle(now, e.id)
		return 'L'
	}
	m.drop(now)
	i = m.find(e.id)
	if i >= 0 && e.p < m.q[i].p {
		m.room(e.id)
		return 'S'
	}
	for j, o := range m.q {
		if j != i && o.limit != e.limit && (o.limit == store.Full || e.limit == store.Full) {
			m.room(e.id)
			return 'M'
		}
	}
	newer, reason := i < 0 || e.p > m.q[i].p, ""
	if i >= 0 {
		reason = m.q[i].asks()
	}
	if newer {
		if i >= 0 {
			m.q = slices.Delete(m.q, i, i+1)
		}
		e.granted, e.accepted, e.shown, e.since, e.expires = false, false, false, now, now
		i = 0
		for i < len(m.q) && (m.q[i].order < e.order || m.q[i].order == e.order && bytes.Compare(m.q[i].id[:], e.id[:]) < 0) {
			i++
		}
		m.q = slices.Insert(m.q, i, e)
	}
	m.room(e.id)
	own := &m.q[i]
	switch {
	case own.granted && (own.accepted || own.p > m.last || mode == "r"):
		if !own.accepted {
			own.accepted, own.reason, own.since, m.last = true, "", now, max(m.last, own.p+int64(own.n)-1)
		}
		own.expires = max(own.expires, now+ttl)
		return 'O'
	case own.granted:
		own.expires = max(own.expires, now+place)
		return 'N'
	case mode == "t":
		m.q = slices.Delete(m.q, i, i+1)
		m.room(e.id)
		return 'R'
	}
	own.expires = max(own.expires, now+place)
	if newer {
		for _, o := range m.q {
			if o.granted && o.expires > now && o.broken() == "" && cmp.Or(cmp.Compare(own.order, o.order), bytes.Compare(own.id[:], o.id[:])) < 0 {
				m.woken = append(m.woken, o.id)
			}
		}
	}
	if own.reason != "" && own.reason != reason {
		for _, o := range m.q {
			if o.accepted && o.expires > now && o.reason == "" {
				m.asked = append(m.asked, o.id)
			}
		}
	}
	return 'R'
}

// hold finds the live hold with the token, or returns 'A' or 'L'.
func (m *model) hold(now int64, id store.ID, p int64) (int, byte) {
	i := m.find(id)
	switch {
	case i < 0:
		return i, 'A'
	case m.q[i].p == p && m.q[i].accepted && m.q[i].expires > now:
		return i, '1'
	case m.q[i].p == p && m.q[i].broken() == "":
		return -1, 'A'
	}
	return -1, 'L'
}

func (m *model) renew(now int64, id store.ID, p, ttl, used int64, newID store.ID, owner string) byte {
	m.q, m.woken, m.asked = slices.Clone(m.q), nil, nil
	if newID != (store.ID{}) && m.find(newID) >= 0 {
		id = newID
	}
	i, answer := m.hold(now, id, p)
	if i >= 0 && m.q[i].broken() != "" {
		i, answer = -1, 'L'
	}
	if i >= 0 {
		e := m.q[i]
		e.shown, e.expires, e.owner = true, max(e.expires, now+ttl), cmp.Or(owner, e.owner)
		if u := used - p; u > e.used && u < int64(e.n) {
			e.used = u
		}
		if newID != (store.ID{}) {
			e.id, id = newID, newID
		}
		m.q[i] = e
		slices.SortStableFunc(m.q, func(a, b entry) int { return byOrder(&a, &b) })
	}
	m.settle(now, id)
	return answer
}

// asks returns the first waiter that asks the holders to give up, or nil.
func (m *model) asks() *asker {
	for _, e := range m.q {
		if e.asks() != "" {
			return &asker{place{e.order, e.id}, e.reason}
		}
	}
	return nil
}

// release is the script of that name. any takes whatever was asked for with a number up to p, and older takes also what is not a hold.
func (m *model) release(now int64, id store.ID, p, used int64, any, older bool) byte {
	m.q, m.woken, m.asked = slices.Clone(m.q), nil, nil
	answer := byte('1')
	leave := -1
	if own := m.find(id); any || older {
		if own >= 0 && m.q[own].p <= p && m.q[own].expires > now && (any || m.q[own].broken() == "") {
			leave = own
			if any {
				m.q[own].shown = false // nothing ran under it: there is no minimum hold
			}
		}
	}
	if !any {
		i, a := m.hold(now, id, p)
		if answer = a; i >= 0 {
			leave = i
			e := &m.q[i]
			e.shown = true
			if end := p + int64(e.n) - 1; used >= p && used < end && m.last == end {
				m.last, e.n = used, int(used-p)+1
			}
		}
	}
	if leave >= 0 {
		m.q[leave].expires, m.q[leave].delay = now, 0
		m.q[leave].shown = m.q[leave].shown && !any // nothing ran under it
	}
	m.settle(now, id)
	return answer
}

func (m *model) breaks(now int64, id store.ID, token int64, reason string, at bool) byte {
	m.q, m.woken, m.asked = slices.Clone(m.q), nil, nil
	i := m.find(id)
	if i < 0 || !m.q[i].accepted || m.q[i].ends() <= now || token < m.q[i].p || token >= m.q[i].p+int64(m.q[i].n) {
		m.settle(now, id)
		return 'A'
	}
	if at {
		m.q = slices.Delete(m.q, i, i+1)
	} else {
		m.q[i].reason, m.q[i].keep = reason, 0
	}
	m.settle(now, id)
	return '1'
}
