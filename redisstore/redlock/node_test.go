package redlock

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Random operations run on one node and on the model, at the same moment by the same clock. Both must give the same answers, the same stored
// entries to the last field, and the same notifications.
func TestEveryNodeAnswersAsTheModel(t *testing.T) {
	t.Parallel()
	seed, steps := uint64(rand.Uint32()), 8_000
	if s := os.Getenv("HOLDFAST_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("HOLDFAST_TEST_SEED=%d", seed)
	d := &compared{T: t, rng: rand.New(rand.NewPCG(seed, 0)), now: 1_700_000_000_000_000, seen: map[string]int{}}
	d.client = clientsOf(t, testserver.Redis(t).Addr)[0]
	o := apart()
	o.Timeout = longAnswer
	var err error
	if d.s, err = newStore([]*redis.Client{d.client}, o, func() int64 { return d.now }); err != nil {
		t.Fatal(err)
	}
	d.s.trusts = true
	t.Cleanup(func() { d.s.Close() })
	if err := d.s.ready(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	d.sub = d.client.PSubscribe(t.Context(), d.s.prefix+"hint:*")
	defer d.sub.Close()
	if _, err := d.sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		d.ids = append(d.ids, me.NewID())
	}
	names := map[string]*model{}
	matters := []string{
		"ask O", "ask N", "ask H", "ask R", "ask S", "ask L", "ask M", "renew 1", "renew A", "renew L", "release 1", "release A", "release L",
		"break 1", "break A", "hint", "a try R", "a repair O", "a repair R", "renamed", "taken back any", "given back in part", "in the way after expiry", "asked", "renewal asked",
	}
	for step := 0; step < steps || step < 4*steps && rare(d.seen, matters, 5) != ""; step++ {
		name := fmt.Sprintf("name-%d", step/600)
		if names[name] == nil {
			names[name] = &model{}
			d.limit = []int64{store.Full, store.Full, 3, 1}[d.rng.IntN(4)]
			d.expiresOften = d.rng.IntN(2) == 0
		}
		d.step(name, names[name])
	}
	t.Log(d.seen)
	if what := rare(d.seen, matters, 5); what != "" {
		t.Errorf("got %q too seldom in %d steps", what, 4*steps)
	}
}

type compared struct {
	*testing.T
	s            *Store
	client       *redis.Client
	sub          *redis.PubSub
	rng          *rand.Rand
	now          int64
	ids          []store.ID
	limit        int64
	expiresOften bool
	seen         map[string]int
	history      []string
}

func (d *compared) step(name string, m *model) {
	if d.rng.IntN(3) == 0 {
		by := int64(d.rng.IntN(400_000)) - 30_000 // sometimes back
		if d.expiresOften {
			by *= 4
		}
		d.now += by
	}
	id := d.ids[d.rng.IntN(len(d.ids))]
	p := d.now/1000*1000 + int64(d.rng.IntN(5))*1000 - 2000
	if i := m.find(id); i >= 0 && d.rng.IntN(4) > 0 {
		p = m.q[i].p + int64(d.rng.IntN(3)) - 1
		if d.rng.IntN(2) == 0 {
			p = m.q[i].p
		}
	}
	if d.rng.IntN(3) == 0 {
		p = m.last + int64(d.rng.IntN(4)) - 1
	}
	kind := d.rng.IntN(20)
	if i := slices.IndexFunc(m.q, func(e entry) bool { return e.accepted }); i >= 0 && kind >= 11 && d.rng.IntN(2) == 0 {
		id, p = m.q[i].id, m.q[i].p
	}
	key := d.s.key(name)
	var what, detail string
	var want byte
	var sc *script
	var args []any
	switch {
	case kind < 11:
		if d.rng.IntN(40) == 0 {
			p = d.now + ahead + int64(d.rng.IntN(7)) - 3
		}
		limit := d.limit
		if d.rng.IntN(30) == 0 {
			limit = 7
		}
		weight := []int64{1, limit, limit, store.Upgradeable}[d.rng.IntN(4)]
		c := store.Claim{
			Name: name, ID: id, Limit: limit, Weight: min(weight, limit), TTL: 2 * time.Second, PositionTTL: time.Second,
			Owner: strings.Repeat("o", d.rng.IntN(4)), Block: d.rng.IntN(12),
		}
		if d.rng.IntN(3) == 0 {
			c.GiveUp = "reason " + strings.Repeat("ü", d.rng.IntN(3))
		}
		if limit < store.Full && d.rng.IntN(4) == 0 {
			c.Limit++ // as of a version with one slot more
		}
		if d.rng.IntN(4) == 0 {
			c.MinHold, c.LockDelay = time.Duration(d.rng.IntN(3_000_000))*time.Microsecond, time.Duration(d.rng.IntN(600_000))*time.Microsecond
		}
		mode := []string{"", "", "", "t", "r"}[d.rng.IntN(5)]
		order := d.now - int64(d.rng.IntN(3))*1000
		if i := m.find(id); i >= 0 && d.rng.IntN(10) > 0 {
			order = m.q[i].order
		}
		cl := &claim{Claim: c, order: order, p: p}
		sc, args = &d.s.scripts.ask, d.s.askCall(cl, c.PositionTTL, mode)
		e := entry{
			id: id, order: order, p: p, limit: c.Limit, weight: c.Weight, n: c.Tokens(), owner: c.Owner, keep: micros(c.MinHold), delay: micros(c.LockDelay),
		}
		if mode != "r" { // the mode of a hold
			e.reason = c.GiveUp
		}
		own := m.find(id) >= 0
		want = m.ask(d.now, e, micros(c.TTL), micros(c.PositionTTL), mode)
		what, detail = "ask", fmt.Sprintf("%+v mode %q", e, mode)
		switch {
		case mode == "t" && want == 'R' && !own:
			d.seen["a try R"]++
		case mode == "r":
			d.seen["a repair "+string(want)]++
		}
		m.there = m.there || want != 'H' && (len(m.q) > 0 || own || len(m.woken) > 0)
	case kind < 14:
		ttl, used := int64(d.rng.IntN(3_000_000)+1), p+int64(d.rng.IntN(8))-1
		newID, owner := store.ID{}, ""
		if d.rng.IntN(4) == 0 {
			newID = d.ids[d.rng.IntN(len(d.ids))]
		}
		if d.rng.IntN(4) == 0 {
			owner = "another"
		}
		if newID == id || m.find(newID) >= 0 && m.find(id) >= 0 {
			newID = store.ID{} // an id that was never used
		}
		text := ""
		if newID != (store.ID{}) {
			text = newID.String()
		}
		sc = &d.s.scripts.renew
		args = sc.call(1, key, id.String(), strconv.FormatInt(p, 10), strconv.FormatInt(ttl, 10), strconv.FormatInt(used, 10), text, owner, "shown", "")
		was := m.find(id) >= 0
		want = m.renew(d.now, id, p, ttl, used, newID, owner)
		what, detail = "renew", fmt.Sprint(id, p, ttl, used, newID, owner)
		if want == '1' && was && newID != (store.ID{}) {
			d.seen["renamed"]++
		}
	case kind < 19:
		used, any, older := int64(0), d.rng.IntN(3) == 0, d.rng.IntN(3) == 0
		if d.rng.IntN(2) == 0 {
			used = p + int64(d.rng.IntN(8)) - 1
		}
		sc = &d.s.scripts.release
		usedText, olderText := strconv.FormatInt(used, 10), ""
		if any {
			usedText = "any"
		}
		if older {
			olderText = "older"
		}
		args = sc.call(1, key, id.String(), strconv.FormatInt(p, 10), usedText, olderText)
		before, had := m.last, len(m.q)
		want = m.release(d.now, id, p, used, any, older)
		what, detail = "release", fmt.Sprint(id, p, used, any, older)
		if any && len(m.q) < had {
			d.seen["taken back any"]++
		}
		if m.last < before {
			d.seen["given back in part"]++
		}
	default:
		at := d.rng.IntN(2) == 0
		sc = &d.s.scripts.brk
		token, when := p+int64(d.rng.IntN(3)), ""
		if at {
			when = "now"
		}
		args = sc.call(1, key, id.String(), strconv.FormatInt(token, 10), "because", when)
		want = m.breaks(d.now, id, token, "because", at)
		what, detail = "break", fmt.Sprint(id, token, at)
	}
	out := make(chan reply, 1)
	d.s.nodes[0].send(&job{n: d.s.nodes[0], id: id, sc: sc, args: args, out: out})
	r := <-out
	d.history = append(d.history, fmt.Sprintf("at %d %s %s: %c, last %d", d.now, what, detail, want, m.last))
	if r.err != nil || r.answer[0] != want {
		d.fail("the node returns %q, %v, the model %q", r.answer, r.err, want)
	}
	if what == "renew" && want == '1' {
		var got *asker
		if len(r.answer) > 1 {
			_, got, _ = readRenewal(r.answer[1:])
		}
		if want := m.asks(); !reflect.DeepEqual(got, want) {
			d.fail("a renewal returns %q, %+v, in the model %+v", r.answer, got, want)
		}
		if got != nil {
			d.seen["renewal asked"]++
		}
	}
	d.seen[what+" "+string(want)]++
	for _, e := range m.q {
		if e.expires <= d.now {
			d.seen["in the way after expiry"]++
		}
	}
	value, err := d.client.Get(d.Context(), key).Result()
	if err != nil && err != redis.Nil {
		d.Fatal(err)
	}
	last, have, err := d.s.nodes[0].parse(key, value)
	if err != nil {
		d.fail("got the value %q: %v", value, err)
	}
	if m.there = value != ""; m.there && last != m.last || len(have)+len(m.q) > 0 && !reflect.DeepEqual(have, m.q) {
		d.fail("the node has\n%d %+v\nthe model has\n%d %+v", last, have, m.last, m.q)
	}
	want2, asked := slices.Clone(m.woken), slices.Clone(m.asked)
	for range len(m.woken) + len(m.asked) {
		d.seen["hint"]++
		msg, err := d.sub.ReceiveMessage(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		h, p, ok := d.s.notification(msg.Payload)
		if i := slices.Index(asked, h.ID); ok && p < 0 && i >= 0 && h.Name == name && m.q[m.find(id)].order == -p {
			d.seen["asked"]++
			asked = slices.Delete(asked, i, i+1)
			continue
		}
		i := slices.Index(want2, h.ID)
		if !ok || i < 0 || h.Name != name || m.q[m.find(h.ID)].p != p {
			d.fail("got notification %q, want one of %v", msg.Payload, want2)
		}
		want2 = slices.Delete(want2, i, i+1)
	}
}

func (d *compared) fail(format string, args ...any) {
	d.Helper()
	d.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(d.history[max(0, len(d.history)-12):], "\n"))
}
