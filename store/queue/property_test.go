package queue_test

import (
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// TestProperties plays random operations on one name, and checks after each
// what the rule promises of any history.
func TestProperties(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("4000"); err != nil { // they are quick
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: queue.Time{Clock: -100, Wall: 5000}, known: map[store.ID]*claimed{}}
		w.q.Forgets = rapid.Bool().Draw(t, "forgets why a hold was freed")
		t.Repeat(map[string]func(*rapid.T){
			"ask":      w.ask,
			"again":    w.again,
			"renew":    w.renew,
			"change":   w.change,
			"adopt":    w.adopt,
			"release":  w.release,
			"withdraw": w.withdraw,
			"break":    w.breaking,
			"death":    w.death,
			"poll":     w.poll,
			"time":     w.time,
			"":         w.check,
		})
		w.leaveAll()
	})
}

// A world is one name, and what is known of each claim from its answers alone.
type world struct {
	t     *rapid.T
	q     queue.Queue
	now   queue.Time
	ids   []store.ID // in the order they first came
	known map[store.ID]*claimed
	most  int64 // the newest token that anybody may have used
	came  int   // claims so far

	renamed map[store.ID]store.ID // by the operation under way: new to old
}

// A claimed is a claim and what its owner knows.
type claimed struct {
	store.Claim
	token int64
	came  int   // order of the append
	turn  int32 // the newest change
}

func us(n int) time.Duration { return time.Duration(n) * time.Microsecond }

// do runs an operation, and checks what is so of all of them.
func (w *world) do(t *rapid.T, self store.ID, act func(*queue.Queue) (any, queue.Change, error)) (any, error) {
	before := clone(w.q)
	out, change, err := act(&w.q)

	if same := reflect.DeepEqual(normal(before), normal(w.q)); !same && !change.Wrote {
		t.Fatalf("it changed the queue and does not say so:\n%+v\n%+v", before, w.q)
	} else if a, asked := out.(store.Answer); same && change.Wrote && (err != nil || asked && !a.Granted && find(w.q, self) == nil) {
		t.Fatalf("lost, or a refused try: it says that it changed the queue, and did not: %+v", w.q)
	}

	// Tokens are drawn when something is granted, and always larger than any
	// that was used. There is a notification for each grant, but for the caller's own.
	var notifications []store.Notification
	drawn, pending, granted := w.q.Last, false, 0
	for i := range w.q.Entries {
		e := &w.q.Entries[i]
		was, mine := find(before, e.ID), e.ID == self
		if old, ok := w.renamed[e.ID]; ok && was == nil {
			was, mine = find(before, old), true
		}
		pending = pending || wants(e, w.now)
		switch {
		case !e.Granted && e.Token != 0:
			t.Fatalf("a waiting entry has token %d", e.Token)
		case was != nil && was.Granted && (!e.Granted || was.Token != e.Token):
			t.Fatalf("a hold became another: %+v, %+v", was, e)
		case e.Granted && (was == nil || !was.Granted):
			if e.Token <= w.most {
				t.Fatalf("token %d after %d", e.Token, w.most)
			}
			if e.N == 0 || e.N > 1 && e.Weight != e.Limit {
				t.Fatalf("a block of %d for a part of the limit: %+v", e.N, e)
			}
			granted++
			w.most = e.Token + int64(e.N) - 1
			if !mine {
				notifications = append(notifications, store.Notification{Name: "n", ID: e.ID, Token: e.Token, N: int(e.N)})
			}
		case was != nil && e.UpgradeToken != was.UpgradeToken:
			if e.UpgradeToken <= w.most || e.Weight != store.Full || e.Want != e.Weight || was.Weight == e.Weight {
				t.Fatalf("upgraded from %+v to %+v, after token %d", was, e, w.most)
			}
			w.most = e.UpgradeToken
			if !mine {
				notifications = append(notifications, store.Notification{Name: "n", ID: e.ID})
			}
		case was != nil && e.Weight > was.Weight:
			t.Fatalf("more weight and no upgrade token: %+v, %+v", was, e)
		}
		// Nobody moves another's expiry, or takes part of its claim.
		if was != nil && !mine {
			same := *was
			same.Granted, same.Since, same.Token, same.N = e.Granted, e.Since, e.Token, max(was.N, 1)
			if e.UpgradeToken != was.UpgradeToken {
				same.Weight, same.UpgradeToken = e.Weight, e.UpgradeToken
			}
			if e.Granted {
				same.GiveUp = nil // it has what it waited for
			}
			if !reflect.DeepEqual(*e, same) {
				t.Fatalf("another's entry went from %+v to %+v", was, e)
			}
		}
	}
	notifications = append(notifications, w.asked(before, self)...)
	if !slices.Equal(notifications, change.Woken) {
		t.Fatalf("granted %+v, notifications %+v", notifications, change.Woken)
	}
	if pending && granted > 0 {
		t.Fatalf("granted past a pending upgrade: %+v", w.q)
	}
	if drawn != w.most && drawn != before.Last {
		t.Fatalf("the newest token is %d, and %d was drawn", drawn, w.most)
	}

	// The same again, at the same moment, changes nothing more and wakes nobody;
	// except that an id which was lost and is forgotten would be a new claim,
	// which is why an engine never uses it again.
	if errors.Is(err, store.ErrLost) && find(before, self) != nil && find(w.q, self) == nil {
		return out, err
	}
	twice := clone(w.q)
	_, change, _ = act(&twice)
	if !reflect.DeepEqual(normal(twice), normal(w.q)) || len(change.Woken) > 0 {
		t.Fatalf("repeated, it changes the queue again:\n%+v\n%+v\nhints %+v", w.q, twice, change.Woken)
	}
	return out, err
}

// asked is whom a waiter has asked to give up, if it has just begun to ask or
// says why in other words: all that hold the name and can hear it.
func (w *world) asked(before queue.Queue, self store.ID) (all []store.Notification) {
	e, was := find(w.q, self), find(before, self)
	if e == nil || e.Granted || e.GiveUp == nil || was != nil && was.Asks() == e.Asks() {
		return nil
	}
	for i := range w.q.Entries {
		if h := &w.q.Entries[i]; h.Granted && h.Broken == nil && h.Expires > w.now.Clock {
			all = append(all, store.Notification{Name: "n", ID: h.ID})
		}
	}
	return all
}

// asks is the reason of the first that waits and asks the holders to give up.
func (w *world) asks() string {
	for i := range w.q.Entries {
		if e := &w.q.Entries[i]; !e.Granted && e.GiveUp != nil {
			return e.Asks()
		}
	}
	return ""
}

var reasons = []string{"", "", "", "a newer version waits", "please"}

func (w *world) ask(t *rapid.T) {
	limit := rapid.SampledFrom([]int64{store.Full, store.Full, 3, 2}).Draw(t, "limit")
	if len(w.q.Entries) > 0 && rapid.IntRange(0, 9).Draw(t, "same") > 0 {
		limit = int64(rapid.SampledFrom(w.q.Entries).Draw(t, "of").Limit)
	}
	weights := []int64{1, limit}
	if limit == store.Full {
		weights = append(weights, store.Upgradeable, store.Upgradeable)
	}
	ttl := rapid.IntRange(1, 20).Draw(t, "ttl")
	w.came++
	c := &claimed{came: w.came, Claim: store.Claim{
		Name: "n", ID: store.Process{byte(w.came % 3)}.NewID(), Limit: limit,
		Weight: rapid.SampledFrom(weights).Draw(t, "weight"), Try: rapid.Bool().Draw(t, "try"),
		TTL: us(ttl), PositionTTL: us(rapid.IntRange(1, ttl).Draw(t, "place")),
		Block: rapid.SampledFrom([]int{0, 1, 4, 10, store.MaxBlock + 1}).Draw(t, "block"), GiveUp: rapid.SampledFrom(reasons).Draw(t, "give up"),
		Owner: fmt.Sprint("owner ", w.came), MinHold: us(rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "keep")), LockDelay: us(rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "delay")),
	}}
	// Whether it must be granted is known from the outside: what is in the
	// way after the time that passed, and whether anybody still waits.
	settled := w.settled()
	held, least := int64(0), limit
	waiting := false
	settled.Entries = counted(settled.Entries)
	for _, e := range settled.Entries {
		if e.Granted {
			held += int64(e.Weight)
			least = min(least, int64(e.Limit))
		}
		waiting = waiting || !e.Granted || wants(&e, w.now)
	}
	out, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) { return q.Ask(w.now, "n", &c.Claim) })
	if have := settled.Limit(); len(settled.Entries) > 0 && (have == store.Full) != (limit == store.Full) {
		if m := new(store.MismatchError); !errors.As(err, &m) || m.Have != int64(have) || m.Want != limit {
			t.Fatalf("limit %d where %d is in use: %v", limit, have, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	a := out.(store.Answer)
	if want := !waiting && held+c.Weight <= least; a.Granted != want {
		t.Fatalf("weight %d of %d, of which %d may be used, %d in the way, somebody waits %v: granted %v", c.Weight, limit, least, held, waiting, a.Granted)
	}
	if there := find(w.q, c.ID) != nil; there != (a.Granted || !c.Try) {
		t.Fatalf("granted %v, try %v: it has an entry: %v", a.Granted, c.Try, there)
	}
	if a.Granted || !c.Try {
		c.token = a.Token
		e, lasts := find(w.q, c.ID), c.PositionTTL
		if a.Granted {
			lasts = c.TTL
		}
		if a.Granted && (a.N != c.Tokens() || a.Weight != c.Weight || a.Want != c.Weight || a.UpgradeToken != 0) {
			t.Fatalf("asked for %+v and granted %+v", c, a)
		}
		if e.Expires != w.now.Clock+lasts.Microseconds() || e.Owner != c.Owner {
			t.Fatalf("asked for %+v at %d, and the entry is %+v", c, w.now.Clock, e)
		}
		w.ids, w.known[c.ID] = append(w.ids, c.ID), c
	}
	w.told(t, a, c.ID)
}

// told checks a refusal against who is ahead: of the own entry, or of all that
// would come.
func (w *world) told(t *rapid.T, a store.Answer, self store.ID) {
	if a.Granted {
		return
	}
	want := store.Answer{Last: w.q.Last}
	entries := counted(w.q.Entries)
	for i := range entries {
		e := &entries[i]
		if e.ID == self {
			break
		}
		over := end(e)
		if wants(e, w.now) {
			over = min(over, e.Expires)
		}
		if left := us(int(over - w.now.Clock)); want.Until == 0 || left < want.Until {
			want.Until = left
		}
		if e.Granted {
			want.Holding++
		} else {
			want.Waiting++
		}
	}
	if want.Holding+want.Waiting == 0 || len(a.Holders) != min(want.Holding, store.MaxHolders) {
		t.Fatalf("refused with %d holders told of %d, and %d waiting", len(a.Holders), want.Holding, want.Waiting)
	}
	for i, h := range a.Holders {
		if e := entries[i]; h.ID != e.ID || h.Token != e.Token || h.Broken != e.Reason() {
			t.Fatalf("holder %d told as %+v, it is %+v", i, h, e)
		}
	}
	a.Holders = nil
	if !reflect.DeepEqual(a, want) {
		t.Fatalf("refused with %+v, want %+v", a, want)
	}
}

// settled is the queue after what a release of nothing does to it: it drops
// what is over and gives room.
func (w *world) settled() queue.Queue {
	q := clone(w.q)
	q.Release(w.now, &store.Hold{Name: "n"})
	return q
}

func (w *world) pick(t *rapid.T) *claimed {
	if len(w.ids) == 0 {
		t.Skip("nobody has come yet")
	}
	from := max(0, len(w.ids)-8)
	return w.known[w.ids[rapid.IntRange(from, len(w.ids)-1).Draw(t, "who")]]
}

// alive is the claim's entry if its owner still has it.
func (w *world) alive(c *claimed) *queue.Entry {
	if e := find(w.q, c.ID); e != nil && e.Expires > w.now.Clock {
		return e
	}
	return nil
}

func (w *world) again(t *rapid.T) {
	c := w.pick(t)
	e := find(w.q, c.ID)
	if e == nil {
		t.Skip("it would be a new claim") // of an id the queue has forgotten
	}
	was, alive := *e, w.alive(c) != nil
	c.GiveUp = rapid.SampledFrom(reasons).Draw(t, "give up")
	out, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) { return q.Ask(w.now, "n", &c.Claim) })
	if !alive || was.Broken != nil {
		w.lost(t, err, "ask of an expired or broken entry")
		return
	}
	a := out.(store.Answer)
	if err != nil || was.Granted && !a.Granted || was.Granted && a.Token != was.Token {
		t.Fatalf("asked again: %+v, %v, was %+v", a, err, was)
	}
	if a.Granted {
		c.token = a.Token
	}
	if n := count(w.q, c.ID); n != 1 {
		t.Fatalf("asked again, it has %d entries", n)
	}
	if e := find(w.q, c.ID); !e.Granted && e.Asks() != c.GiveUp || e.Granted && e.GiveUp != nil {
		t.Fatalf("asked again with the reason %q, the entry is %+v", c.GiveUp, e)
	}
	w.pushed(t, c, was, map[bool]time.Duration{true: c.TTL, false: c.PositionTTL}[a.Granted])
	w.told(t, a, c.ID)
}

// pushed checks that a renewal or a repeated ask pushed the expiry so far, and
// not back.
func (w *world) pushed(t *rapid.T, c *claimed, was queue.Entry, by time.Duration) {
	e := find(w.q, c.ID)
	if e == nil || e.Expires != max(was.Expires, w.now.Clock+by.Microseconds()) && !(e.Granted && !was.Granted) {
		t.Fatalf("pushed by %v at %d from %+v to %+v", by, w.now.Clock, was, e)
	}
}

func (w *world) lost(t *rapid.T, err error, what string) {
	if !errors.Is(err, store.ErrLost) {
		t.Fatalf("%s: %v, want ErrLost", what, err)
	}
}

func (w *world) renew(t *rapid.T) {
	c := w.pick(t)
	h := store.Hold{
		Name: "n", ID: c.ID, Token: c.token + int64(rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "off")), TTL: us(rapid.IntRange(1, 30).Draw(t, "ttl")),
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
		t.Fatalf("the token was shown, and the entry is %+v", e)
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
		t.Fatalf("renewed by %+v from %+v to %+v", h, was, e)
	}
	if r := out.(store.Renewal); r.TTL != h.TTL || r.Weight != int64(e.Weight) || r.Want != int64(e.Want) || r.UpgradeToken != e.UpgradeToken || r.GiveUp != w.asks() {
		t.Fatalf("told %+v of %+v", r, e)
	}
}

// used is a token of the claim's block, or just outside, or none.
func (w *world) used(t *rapid.T, c *claimed) int64 {
	if !rapid.Bool().Draw(t, "tells what it used") {
		return 0
	}
	return c.token + int64(rapid.IntRange(-1, c.Tokens()).Draw(t, "used"))
}

// change is of the weight: an upgrade or a way back, the next or an older one.
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
			t.Fatalf("change of %+v: %v, want ErrInvalid", was, err)
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
			t.Fatalf("nobody is in the way of an upgrade that is not granted: %+v", e)
		}
	}
	if !reflect.DeepEqual(*e, want) {
		t.Fatalf("changed to %d, turn %d, at %d from %+v to %+v", weight, turn, w.now.Clock, was, e)
	}
	a := out.(store.Answer)
	told := store.Answer{
		Granted: int64(e.Weight) == weight, Token: e.Token, N: int(e.N), Weight: int64(e.Weight), Want: int64(e.Want), UpgradeToken: e.UpgradeToken, Last: w.q.Last,
		Holding: a.Holding, Holders: a.Holders, Until: a.Until,
	}
	if !reflect.DeepEqual(a, told) || !a.Granted && e.Want > e.Weight && (a.Holding == 0 || a.Until == 0 || a.Holders[0].ID == c.ID) {
		t.Fatalf("told %+v of %+v", a, e)
	}
}

// adopt lets the hold go on under another id.
func (w *world) adopt(t *rapid.T) {
	c := w.pick(t)
	id := store.Process{byte(rapid.IntRange(0, 2).Draw(t, "process"))}.NewID()
	h := store.Hold{Name: "n", ID: c.ID, NewID: id, Token: c.token, TTL: us(rapid.IntRange(1, 30).Draw(t, "ttl"))}
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
		t.Fatalf("the old id is there still: %+v", w.q)
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
		t.Skip("that is a withdrawal")
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
		// Nothing is given back: any of the block may have been used.
	} else if last := token + int64(was.N) - 1; used < last && w.q.Last == last {
		w.most = used
	}
	// A repeated release is lost, so do is told of no repetition by itself.
	_, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		change, err := q.Release(w.now, &store.Hold{Name: "n", ID: c.ID, Token: token, Used: used})
		return nil, change, err
	})
	if !good {
		if w.lost(t, err, "release"); taken && find(w.q, c.ID) != nil {
			t.Fatalf("freed and given back, and there is %+v", w.q)
		}
		return
	}
	if err != nil {
		t.Fatalf("release of %+v: %v", was, err)
	}
	w.gone(t, c, was.Since+was.MinHold > w.now.Clock)
}

// gone checks that an entry was given back: out of the queue, or in the way for
// its minimum hold alone.
func (w *world) gone(t *rapid.T, c *claimed, kept bool) {
	e := find(w.q, c.ID)
	if (e != nil) != kept || e != nil && (e.Expires > w.now.Clock || !e.Shown) {
		t.Fatalf("given back, and to be kept %v: the entry is %+v", kept, e)
	}
}

func (w *world) withdraw(t *rapid.T) {
	c := w.pick(t)
	e := w.alive(c)
	alive := e != nil
	_, err := w.do(t, c.ID, func(q *queue.Queue) (any, queue.Change, error) {
		change, err := q.Release(w.now, &store.Hold{Name: "n", ID: c.ID})
		return nil, change, err
	})
	if err != nil {
		t.Fatalf("withdrawal: %v, want nil", err)
	}
	if alive {
		w.gone(t, c, false)
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
			t.Fatalf("broken, and nothing is left of it but %+v", e)
		}
	case e == nil || !reflect.DeepEqual(*e, was):
		t.Fatalf("broken, the entry is %+v, want %+v", e, was)
	}
}

// death ends what a process has.
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
			t.Fatalf("its owner is dead: %+v", e)
		}
		if !is(e.ID.Process()) && e.Expires != was.Expires {
			t.Fatalf("its owner lives: %+v, was %+v", e, was)
		}
		if e.Granted && !was.Granted {
			w.most = max(w.most, e.Token+int64(e.N)-1)
		}
		w.most = max(w.most, e.UpgradeToken)
	}
	if !change.Wrote && !reflect.DeepEqual(normal(before), normal(w.q)) {
		t.Fatal("it changed the queue and does not say so")
	}
}

// poll checks that Poll and State change nothing, and that Poll is what Ask
// then says.
func (w *world) poll(t *rapid.T) {
	c := w.pick(t)
	before := clone(w.q)
	poll, pollErr := w.q.Poll(w.now, "n", &c.Claim)
	w.q.State(w.now, "n")
	if !reflect.DeepEqual(before, clone(w.q)) {
		t.Fatalf("looking changed it from\n%+v\nto\n%+v", before, w.q)
	}
	ask, _, askErr := before.Ask(w.now, "n", &c.Claim)
	if !reflect.DeepEqual(pollErr, askErr) || poll.Granted != ask.Granted || poll.Until != ask.Until ||
		poll.Holding != ask.Holding || poll.Waiting != ask.Waiting {
		t.Fatalf("poll %+v, %v\nask %+v, %v", poll, pollErr, ask, askErr)
	}
	if poll.Last > w.q.Last || poll.Token > w.q.Last {
		t.Fatalf("poll tells a token that was not drawn: %+v", poll)
	}
}

func (w *world) time(t *rapid.T) {
	d := int64(rapid.SampledFrom([]int{1, 1, 3, 10, 60, -2}).Draw(t, "by"))
	w.now.Clock += d
	w.now.Wall += d
}

// check is what holds at all times, once what is over has been dropped.
func (w *world) check(t *rapid.T) {
	q := w.settled()
	held, least := int64(0), int32(store.Full)
	var waits *queue.Entry
	order, upgrading := 0, false
	for i := range q.Entries {
		e := &q.Entries[i]
		if end(e) <= w.now.Clock {
			t.Fatalf("it is over since %d, and still there at %d: %+v", end(e), w.now.Clock, e)
		}
		if n := count(q, e.ID); n != 1 {
			t.Fatalf("%d entries of one id", n)
		}
		if freed(e) {
			continue
		}
		if e.Granted {
			if waits != nil {
				t.Fatalf("granted behind one that waits:\n%+v\n%+v", waits, e)
			}
			held += int64(e.Weight)
			least = min(least, e.Limit)
			if e.GiveUp != nil {
				t.Fatalf("a holder asks others to give up: %+v", e)
			}
			if (e.Limit == store.Full) != (counted(q.Entries)[0].Limit == store.Full) {
				t.Fatalf("a lock and a semaphore are held together: %+v", q.Entries)
			}
			if wants(e, w.now) {
				if upgrading {
					t.Fatalf("two upgrades are pending: %+v", q.Entries)
				}
				upgrading = true
			}
			continue
		}
		if c := w.known[e.ID]; c.came < order {
			t.Fatalf("it came before the one ahead of it: %+v", e)
		} else {
			order = c.came
		}
		if waits == nil {
			waits = e
		}
	}
	if held > int64(least) {
		t.Fatalf("%d granted where one counts on %d at most: %+v", held, least, q.Entries)
	}
	if upgrading && held == store.Upgradeable {
		t.Fatalf("nobody is in the way of an upgrade that is pending: %+v", q.Entries)
	}
	if waits != nil && !upgrading && held+int64(waits.Weight) <= int64(min(least, waits.Limit)) {
		t.Fatalf("it fits and waits: %+v beside %d", waits, held)
	}
}

// end is when an entry is out of the way, said once more: a position at its
// expiry; a hold when its lock delay after the expiry, and its minimum hold if
// its token was ever shown, are both over.
func end(e *queue.Entry) int64 {
	switch {
	case !e.Granted:
		return e.Expires
	case e.Shown && e.Since+e.MinHold > e.Expires+e.LockDelay:
		return e.Since + e.MinHold
	}
	return e.Expires + e.LockDelay
}

// leaveAll checks that nothing is left once all have left and every minimum
// hold and delay is over.
func (w *world) leaveAll() {
	for _, id := range w.ids {
		w.q.Release(w.now, &store.Hold{Name: "n", ID: id})
	}
	for i := range w.q.Entries {
		e := &w.q.Entries[i]
		if kept := e.Shown && e.Since+e.MinHold > w.now.Clock; e.Expires > w.now.Clock || !kept && e.Expires+e.LockDelay <= w.now.Clock {
			w.t.Fatalf("all have left, and there is %+v", e)
		}
	}
	w.now.Clock += 1000
	if q := w.settled(); len(q.Entries) != 0 {
		w.t.Fatalf("all have left and all is over, and there is %+v", q.Entries)
	}
}

func find(q queue.Queue, id store.ID) *queue.Entry {
	for i := range q.Entries {
		if q.Entries[i].ID == id {
			return &q.Entries[i]
		}
	}
	return nil
}

func count(q queue.Queue, id store.ID) (n int) {
	for _, e := range q.Entries {
		if e.ID == id {
			n++
		}
	}
	return n
}

func clone(q queue.Queue) queue.Queue {
	q.Entries = slices.Clone(q.Entries)
	return q
}

// normal is the queue without what means nothing when it is empty.
func normal(q queue.Queue) queue.Queue {
	if len(q.Entries) == 0 {
		q.Entries = nil
	}
	return q
}

// freed reports whether a hold was broken with now, said once more.
func freed(e *queue.Entry) bool { return e.Broken != nil && (*e.Broken)[0] == 1 }

// counted is the entries that can be in the way.
func counted(all []queue.Entry) (some []queue.Entry) {
	for i := range all {
		if !freed(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}
