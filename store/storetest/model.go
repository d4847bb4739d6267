package storetest

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// An op is one operation, as it is sent to the store and to the model.
type op struct {
	kind   string // ask, poll, renew, change, release, release all or break
	side   int    // the process that sends it
	claim  store.Claim
	holds  []store.Hold
	turn   int32 // of a change
	weight int64 // of a change
	broken store.Break
}

func (o op) names() (names []string) {
	switch o.kind {
	case "ask", "poll":
		return []string{o.claim.Name}
	case "break":
		return []string{o.broken.Name}
	}
	for _, h := range o.holds {
		names = append(names, h.Name)
	}
	return names
}

func (o op) String() string {
	switch o.kind {
	case "ask", "poll":
		c := o.claim
		return fmt.Sprintf("%s name %q, id %v weight %d of %d try %v ttl %v position %v min hold %v lock delay %v block %d give up %q owner %q",
			o.kind, c.Name, c.ID, c.Weight, c.Limit, c.Try, c.TTL, c.PositionTTL, c.MinHold, c.LockDelay, c.Block, c.GiveUp, c.Owner)
	case "break":
		b := o.broken
		return fmt.Sprintf("break name %q, id %v token %d now %v", b.Name, b.ID, b.Token, b.Now)
	}
	var b strings.Builder
	b.WriteString(o.kind)
	for _, h := range o.holds {
		fmt.Fprintf(&b, " [name %q, id %v token %d ttl %v used %d owner %q new id %v]", h.Name, h.ID, h.Token, h.TTL, h.Used, h.Owner, h.NewID)
	}
	if o.kind == "change" {
		fmt.Fprintf(&b, " turn %d weight %d give up %q", o.turn, o.weight, o.holds[0].GiveUp)
	}
	return b.String()
}

// A model is a queue of package queue for each name.
type model struct {
	names    map[string]*queue.Queue
	oneFloor bool
	floor    int64 // of all idle names, with oneFloor

	oneLimit   bool // the store lacks PromiseTotals
	nobodyAsks bool // it lacks PromiseGiveUp
	forgets    bool // it lacks PromiseReason
}

func newModel(oneFloor bool) *model {
	return &model{names: map[string]*queue.Queue{}, oneFloor: oneFloor}
}

func (m *model) queue(name string) *queue.Queue {
	q := m.names[name]
	if q == nil {
		q = &queue.Queue{OneLimit: m.oneLimit, Forgets: m.forgets}
		m.names[name] = q
	}
	if m.oneFloor && len(q.Entries) == 0 {
		q.Last = m.floor
	}
	return q
}

// do returns the answer of the operation, and the notifications that it sends.
func (m *model) do(now queue.Time, o op) (out outcome, woken []store.Notification) {
	done := func(name string, change queue.Change, err error) {
		woken = append(woken, change.Woken...)
		out.Errs = append(out.Errs, errorText(err))
		if q := m.names[name]; len(q.Entries) == 0 {
			m.floor = max(m.floor, q.Last)
		}
	}
	var change queue.Change
	var err error
	switch o.kind {
	case "ask":
		if m.nobodyAsks {
			o.claim.GiveUp = ""
		}
		out.Answer, change, err = m.queue(o.claim.Name).Ask(now, o.claim.Name, &o.claim)
		done(o.claim.Name, change, err)
	case "poll":
		out.Answer, err = m.queue(o.claim.Name).Poll(now, o.claim.Name, &o.claim)
		done(o.claim.Name, change, err)
	case "renew":
		for _, h := range o.holds {
			var r store.Renewal
			r, change = m.queue(h.Name).Renew(now, &h)
			done(h.Name, change, r.Err)
			out.Renewals = append(out.Renewals, returnedOf(r))
		}
	case "change":
		h := o.holds[0]
		if m.nobodyAsks {
			h.GiveUp = ""
		}
		out.Answer, change, err = m.queue(h.Name).Change(now, &h, o.turn, o.weight)
		done(h.Name, change, err)
	case "release", "release all":
		for _, h := range o.holds {
			change, err = m.queue(h.Name).Release(now, &h)
			done(h.Name, change, err)
		}
	default:
		change, err = m.queue(o.broken.Name).Break(now, &o.broken)
		done(o.broken.Name, change, err)
	}
	return out, woken
}

// entry returns the entry of the id, or nil.
func (m *model) entry(name string, id store.ID) *queue.Entry {
	q := m.queue(name)
	for i := range q.Entries {
		if q.Entries[i].ID == id {
			return &q.Entries[i]
		}
	}
	return nil
}

// token returns the token of the id's hold, or 0.
func (m *model) token(name string, id store.ID) int64 {
	if e := m.entry(name, id); e != nil {
		return e.Token
	}
	return 0
}
