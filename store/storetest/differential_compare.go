package storetest

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// notifications waits for the notifications that the model sent, and compares.
func (d *duel) notifications(woken []store.Notification) {
	d.t.Helper()
	if _, ok := d.sides[0].Store.(store.Watcher); !ok {
		return
	}
	if d.c2 != nil {
		d.heard(woken)
		return
	}
	for _, s := range d.sides {
		begun := len(s.want)
		for _, h := range woken {
			if h.ID.Process() == s.proc {
				s.want = append(s.want, h)
			}
		}
		limit := time.After(patience)
		for {
			s.mu.Lock()
			got := slices.Clone(s.got[begun:])
			s.mu.Unlock()
			want := slices.Clone(s.want[begun:])
			byToken := func(a, b store.Notification) int {
				return cmp.Or(cmp.Compare(a.Token, b.Token), bytes.Compare(a.ID[:], b.ID[:]))
			}
			slices.SortFunc(got, byToken)
			slices.SortFunc(want, byToken)
			if slices.Equal(got, want) {
				break
			}
			if len(got) >= len(want) {
				d.fail("process %v got notifications\n%+v\nwant as from the model\n%+v", s.proc, got, want)
			}
			select {
			case <-s.news:
			case <-limit:
				d.fail("after %v process %v got notifications\n%+v\nwant as from the model\n%+v", patience, s.proc, got, want)
			}
		}
	}
}

// compare compares the entries of a name.
func (d *duel) compare(now queue.Time, name string) {
	d.t.Helper()
	q := d.model.queue(name)
	if in, ok := d.sides[0].Store.(store.Inspector); ok {
		want := normal(q.State(now, name))
		have := normal(store.State{Name: name})
		before := store.Now()
		for st, err := range in.List(d.ctx, name) {
			if d.answered(before, err); err != nil {
				d.fail("list of %q: got %v", name, err)
			}
			have = normal(st)
		}
		if d.c2 != nil {
			have.Last, want.Last = 0, 0
			have.Entries, want.Entries = timeless(have.Entries), timeless(want.Entries)
		}
		if !reflect.DeepEqual(have, want) {
			d.fail("got the list\n%+v\nwant as from the model\n%+v", have, want)
		}
	}
	if d.c.Stored != nil {
		have, want := d.c.Stored(d.t, d.sides[0].Store, name), *q
		for _, q := range []*queue.Queue{&have, &want} {
			if q.OneLimit, q.Forgets = false, false; len(q.Entries) == 0 {
				q.Entries = nil
			}
		}
		if !reflect.DeepEqual(have, want) {
			d.fail("got the state\n%+v\nwant as from the model\n%+v", have, want)
		}
	}
}

// normal drops the fields that mean nothing without entries.
func normal(s store.State) store.State {
	if len(s.Entries) == 0 {
		return store.State{Name: s.Name}
	}
	return s
}

// last checks at the end that no extra notification is on its way: each process is
// sent one more, which must be the next to arrive.
func (d *duel) last() {
	d.t.Helper()
	d.compareAll()
	for i, s := range d.sides {
		other := (i + 1) % len(d.sides)
		name := "storetest/last/" + random()
		held := d.claim(other, name, store.Full, store.Full)
		waits := d.claim(i, name, store.Full, store.Full)
		d.do(op{kind: "ask", side: other, claim: held})
		d.do(op{kind: "ask", side: i, claim: waits})
		d.do(op{kind: "release", side: other, holds: []store.Hold{{Name: name, ID: held.ID, Token: d.model.token(name, held.ID)}}})
		if d.c2 != nil { // it learns its token with this ask
			d.do(op{kind: "ask", side: i, claim: waits})
		}
		d.do(op{kind: "release", side: i, holds: []store.Hold{{Name: name, ID: waits.ID, Token: d.model.token(name, waits.ID)}}})
		s.mu.Lock()
		if len(s.got) > len(s.want) && d.c2 == nil {
			d.fail("process %v got %d notifications, want %d as from the model", s.proc, len(s.got), len(s.want))
		}
		s.mu.Unlock()
	}
}

// compareAll compares the list of all names.
func (d *duel) compareAll() {
	d.t.Helper()
	in, ok := d.sides[0].Store.(store.Inspector)
	if !ok {
		return
	}
	now := d.clock()
	want := map[string]int{}
	for name, q := range d.model.names {
		if n := len(q.State(now, name).Entries); n > 0 {
			want[name] = n
		}
	}
	have := map[string]int{}
	before := store.Now()
	for st, err := range in.List(d.ctx, "") {
		if d.answered(before, err); err != nil {
			d.fail("list: %v", err)
		}
		have[st.Name] = len(st.Entries)
	}
	if !reflect.DeepEqual(have, want) {
		d.fail("got the list %v, want as from the model %v", have, want)
	}
}
