package queue_test

import (
	"errors"
	"reflect"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

func (w *world) lost(t *rapid.T, err error, what string) {
	if !errors.Is(err, store.ErrLost) {
		t.Fatalf("%s: got %v, want ErrLost", what, err)
	}
}

func (w *world) renew(t *rapid.T) {
	c := w.pick(t)
	h := store.Hold{
		Name: "n", ID: c.ID, Token: c.token + int64(rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "off")), TTL: draw(t, "ttl", 1, 30),
		Owner: rapid.SampledFrom([]string{"", "", "another note"}).Draw(t, "owner"), Used: w.used(t, c),
	}
	var was queue.Entry
	e := w.alive(c)
	good := e != nil && e.Granted && e.Token == h.Token && e.Broken == nil
	if e != nil {
		was = *e
	}
	out, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		r, change := q.Renew(w.now, &h)
		return r, change, r.Err
	})
	if !good {
		w.lost(t, err, "renewal")
		if e := find(w.q, c.ID); e != nil && was.Expires != 0 && e.Expires != was.Expires {
			t.Fatalf("a lost renewal moved the expiry from %d to %d", was.Expires, e.Expires)
		}
		return
	}
	if err != nil {
		t.Fatalf("renewal of %+v: %v", was, err)
	}
	if e := find(w.q, c.ID); e == nil || !e.Shown {
		t.Fatalf("the token was shown, but the entry is %+v", e)
	}
	w.pushed(t, c, was, h.TTL)
	if h.Owner == "" {
		h.Owner = was.Owner
	}
	turn := was.Turn
	if h.Used >= was.Token && h.Used < was.Token+int64(was.N) {
		turn = max(turn, int32(h.Used-was.Token))
	}
	e = find(w.q, c.ID)
	if e.Owner != h.Owner || e.Turn != turn {
		t.Fatalf("renewed with %+v: the entry changed from %+v to %+v", h, was, e)
	}
	if r := out.(store.Renewal); r.TTL != h.TTL || r.Weight != int64(e.Weight) || r.Want != int64(e.Want) || r.UpgradeToken != e.UpgradeToken || r.GiveUp != w.asks() {
		t.Fatalf("got %+v, but the entry is %+v", r, e)
	}
}

// used is a token of the claim's block, or just outside, or none.
func (w *world) used(t *rapid.T, c *claimed) int64 {
	if !rapid.Bool().Draw(t, "tells what it used") {
		return 0
	}
	return c.token + int64(rapid.IntRange(-1, c.Tokens()).Draw(t, "used"))
}

// change changes the weight: an upgrade or a downgrade, the next turn or an older one.
func (w *world) change(t *rapid.T) {
	c := w.pick(t)
	if c.Weight != store.Upgradeable {
		c = w.pick(t)
	}
	turn := c.turn + 1
	if c.turn > 0 && rapid.IntRange(0, 3).Draw(t, "late") == 0 {
		turn = int32(rapid.IntRange(1, int(c.turn)).Draw(t, "turn"))
	}
	c.turn = max(c.turn, turn)
	weight := rapid.SampledFrom([]int64{store.Full, store.Full, store.Upgradeable}).Draw(t, "weight")
	h := store.Hold{Name: "n", ID: c.ID, Token: c.token + int64(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "off"))}
	e := w.alive(c)
	good := e != nil && e.Granted && e.Token == h.Token && e.Broken == nil
	var was queue.Entry
	if e != nil {
		was = *e
	}
	out, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		a, change, err := q.Change(w.now, &h, turn, weight)
		return a, change, err
	})
	switch {
	case !good:
		w.lost(t, err, "change")
		return
	case c.Weight != store.Upgradeable || c.Limit != store.Full:
		if !errors.Is(err, store.ErrInvalid) {
			t.Fatalf("change of %+v: got %v, want ErrInvalid", was, err)
		}
		return
	case err != nil:
		t.Fatalf("change of %+v: %v", was, err)
	}
	want, asked := was, was.Want
	if turn > was.Turn {
		want.Turn, asked = turn, int32(weight)
	}
	alone := true
	for i := range w.q.Entries {
		o := &w.q.Entries[i]
		alone = alone && (o.ID == c.ID || !o.Granted || freed(o) || end(o) <= w.now.Clock)
	}
	e = find(w.q, c.ID)
	want.Want, want.Weight, want.UpgradeToken = asked, min(was.Weight, asked), e.UpgradeToken // upgrade tokens are checked in do
	if alone && want.Want > want.Weight {
		want.Weight = want.Want
		if e.UpgradeToken == was.UpgradeToken {
			t.Fatalf("an upgrade is not granted, although nothing blocks it: %+v", e)
		}
	}
	if !reflect.DeepEqual(*e, want) {
		t.Fatalf("change to %d, turn %d, at %d: the entry changed from %+v to %+v", weight, turn, w.now.Clock, was, e)
	}
	a := out.(store.Answer)
	reported := store.Answer{
		Granted: int64(e.Weight) == weight, Token: e.Token, N: int(e.N), Weight: int64(e.Weight), Want: int64(e.Want), UpgradeToken: e.UpgradeToken, Last: w.q.Last,
		Holding: a.Holding, Holders: a.Holders, Until: a.Until,
	}
	if !reflect.DeepEqual(a, reported) || !a.Granted && e.Want > e.Weight && (a.Holding == 0 || a.Until == 0 || a.Holders[0].ID == c.ID) {
		t.Fatalf("got %+v, but the entry is %+v", a, e)
	}
}

// adopt continues the hold under another id.
func (w *world) adopt(t *rapid.T) {
	c := w.pick(t)
	id := store.Process{byte(rapid.IntRange(0, 2).Draw(t, "process"))}.NewID()
	h := store.Hold{Name: "n", ID: c.ID, NewID: id, Token: c.token, TTL: draw(t, "ttl", 1, 30)}
	e := w.alive(c)
	good := e != nil && e.Granted && e.Token == h.Token && e.Broken == nil
	var was queue.Entry
	if e != nil {
		was = *e
	}
	w.renamed = map[store.ID]store.ID{id: c.ID}
	defer func() { w.renamed = nil }()
	_, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		r, change := q.Renew(w.now, &h)
		return nil, change, r.Err
	})
	if !good {
		w.lost(t, err, "a renewal under another id")
		return
	}
	if err != nil {
		t.Fatalf("renewal of %+v under another id: %v", was, err)
	}
	if find(w.q, c.ID) != nil {
		t.Fatalf("the entry of the old id is left: %+v", w.q)
	}
	next := *c // the old one stays among those picked, and is lost
	next.ID = id
	w.ids, w.known[id] = append(w.ids, id), &next
	w.pushed(t, &next, was, h.TTL)
}

// wants is whether an upgrade is pending.
func wants(e *queue.Entry, now queue.Time) bool {
	return e.Granted && e.Weight < e.Want && now.Clock < e.Expires
}

func (w *world) release(t *rapid.T) {
	c := w.pick(t)
	token := c.token + int64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "off"))
	if token == 0 {
		t.Skip("a release with token 0 is a withdrawal")
	}
	e := w.alive(c)
	good := e != nil && e.Granted && e.Token == token
	var was queue.Entry
	if e != nil {
		was = *e
	}
	taken := good && freed(e)
	good = good && !taken
	used := w.used(t, c)
	if used < token || !good {
		// No token is returned: any of the block may have been used.
	} else if last := token + int64(was.N) - 1; used < last && w.q.Last == last {
		w.most = used
	}
	// A repeated release is lost, and changes nothing, as do checks.
	_, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		change, err := q.Release(w.now, &store.Hold{Name: "n", ID: c.ID, Token: token, Used: used})
		return nil, change, err
	})
	if !good {
		if w.lost(t, err, "release"); taken && find(w.q, c.ID) != nil {
			t.Fatalf("the hold was freed and released, but its entry is left: %+v", w.q)
		}
		return
	}
	if err != nil {
		t.Fatalf("release of %+v: %v", was, err)
	}
	w.gone(t, c, was.Since+was.MinHold > w.now.Clock)
}

// gone checks that an entry was released: removed from the queue, or blocking only
// for its minimum hold.
func (w *world) gone(t *rapid.T, c *claimed, kept bool) {
	e := find(w.q, c.ID)
	if (e != nil) != kept || e != nil && (e.Expires > w.now.Clock || !e.Shown) {
		t.Fatalf("released, and its name is kept: %v, but the entry is %+v", kept, e)
	}
}

func (w *world) breaking(t *rapid.T) {
	c := w.pick(t)
	b := store.Break{Name: "n", ID: c.ID, Token: c.token, Reason: "because", Now: rapid.Bool().Draw(t, "now")}
	var was queue.Entry
	e := find(w.q, c.ID)
	good := e != nil && e.Granted && e.Token == c.token && end(e) > w.now.Clock && !freed(e)
	if good {
		was = *e
	}
	_, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		change, err := q.Break(w.now, &b)
		if b.Now && err == nil {
			return nil, change, nil // repeated, it is lost, and changes nothing
		}
		return nil, change, err
	})
	if !good {
		w.lost(t, err, "break of no hold")
		return
	}
	if err != nil {
		t.Fatalf("break: %v", err)
	}
	was.Broken, was.MinHold, was.Want = &b.Reason, 0, was.Weight
	if b.Now {
		was.Broken, was.LockDelay = new("\x01"+b.Reason), 0
	}
	e = find(w.q, c.ID)
	switch {
	case end(&was) <= w.now.Clock || b.Now && (w.q.Forgets || was.Expires <= w.now.Clock):
		if e != nil {
			t.Fatalf("the break freed the hold, but its entry is left: %+v", e)
		}
	case e == nil || !reflect.DeepEqual(*e, was):
		t.Fatalf("after the break the entry is %+v, want %+v", e, was)
	}
}

// death ends all entries of a process.
func (w *world) death(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
		t.Skip()
	}
	dead := byte(rapid.IntRange(0, 2).Draw(t, "process"))
	is := func(p store.Process) bool { return p[0] == dead }
	before := clone(w.q)
	change := w.q.Expire(w.now, "n", is)
	for _, e := range w.q.Entries {
		was := find(before, e.ID)
		if is(e.ID.Process()) && (!e.Granted || e.Expires > w.now.Clock) {
			t.Fatalf("the entry is alive, although its process is dead: %+v", e)
		}
		if !is(e.ID.Process()) && e.Expires != was.Expires {
			t.Fatalf("the process is alive, but its entry changed: %+v, was %+v", e, was)
		}
		if e.Granted && !was.Granted {
			w.most = max(w.most, e.Token+int64(e.N)-1)
		}
		w.most = max(w.most, e.UpgradeToken)
	}
	if !change.Wrote && !reflect.DeepEqual(normal(before), normal(w.q)) {
		t.Fatal("the queue changed, but Wrote is false")
	}
}
