package queue_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// The rule, by example. A line is: seconds | who | what | what comes of it,
// with those that it wakes. A TTL is 30 s and a position 10 s unless told.
var examples = []struct{ promise, story string }{
	{"one at a time, in the order they came", `
		0 | a | write         | granted
		0 | b | write         | waits
		0 | c | write         | waits
		1 | c | again         | waits
		1 | a | release       | ok, wakes b
		1 | c | again         | waits
		1 | b | again         | granted
		2 | b | release       | ok, wakes c
		2 | c | release       | ok
		2 |   |               | nothing left`},
	{"readers share, a waiting writer shuts the door behind them", `
		0 | a | read          | granted
		0 | b | read          | granted
		0 | w | write         | waits
		0 | c | try read      | refused
		0 | d | read          | waits
		1 | a | release       | ok
		1 | b | release       | ok, wakes w
		2 | w | release       | ok, wakes d`},
	{"a writer that gives up lets all readers behind it in", `
		0 | a | read          | granted
		0 | w | write         | waits
		0 | b | read          | waits
		0 | c | read          | waits
		0 | w | withdraw      | ok, wakes b c`},
	{"a refused try is not there", `
		0 | a | write         | granted
		0 | b | try write     | refused
		0 | a | release       | ok
		0 |   |               | nothing left`},
	{"slots are counted, and a wide claim is not passed by a narrow one", `
		0 | a | 2 of 3        | granted
		0 | b | 2 of 3        | waits
		0 | c | try 1 of 3    | refused
		0 | c | 1 of 3        | waits
		1 | a | release       | ok, wakes b c
		1 | d | try 1 of 3    | refused`},
	{"one upgradeable read beside readers, never two", `
		0 | a | read          | granted
		0 | u | upgradeable   | granted
		0 | b | try read      | granted
		0 | v | try upgradeable | refused
		0 | w | try write     | refused`},
	{"a lock and a semaphore are a mistake while anybody holds, waits or is in the way", `
		0 | a | 1 of 3        | granted
		0 | b | try write     | mismatch
		0 | a | release       | ok
		0 | b | write         | granted
		0 | c | 1 of 3        | mismatch`},
	{"while two totals are in use a claim has to fit the smaller", `
		0 | a | 2 of 5        | granted
		0 | b | 1 of 3        | granted
		0 | c | try 1 of 5    | refused
		0 | c | 1 of 5        | waits
		1 | b | release       | ok, wakes c
		1 | d | 2 of 5        | granted`},
	{"what is held stays held when the total falls", `
		0 | a | 4 of 5        | granted
		0 | b | 1 of 3        | waits
		5 | a | renew         | ok
		6 | b | again         | waits
		7 | a | release       | ok, wakes b`},
	{"a waiter is granted when it fits the smaller total", `
		0 | a | 1 of 3        | granted
		0 | b | 2 of 5        | granted
		0 | c | 3 of 5        | waits
		1 | b | release       | ok
		2 | a | release       | ok, wakes c`},
	{"a claim of more than the smaller total waits until nobody counts on that", `
		0 | a | 1 of 3        | granted
		0 | b | 5 of 5        | waits
		0 | c | 1 of 3        | waits
		1 | a | release       | ok, wakes b
		2 | b | release       | ok, wakes c`},
	{"a waiter asks the holder to give up, until it leaves", `
		0 | a | write         | granted
		0 | b | write asking  | waits, wakes a
		0 | b | again         | waits
		1 | a | renew         | ok, asked to give up
		1 | b | withdraw      | ok
		2 | a | renew         | ok`},
	{"a waiter begins to ask later, and every holder hears it", `
		0 | a | read          | granted
		0 | b | read          | granted
		0 | w | write         | waits
		1 | b | renew         | ok
		1 | w | again asking  | waits, wakes a b
		2 | a | renew         | ok, asked to give up
		2 | b | renew         | ok, asked to give up`},
	{"who has been granted asks nobody any more", `
		0 | a | write         | granted
		0 | b | write asking  | waits, wakes a
		1 | a | release       | ok, wakes b
		1 | b | again         | granted
		1 | c | write         | waits
		2 | b | renew         | ok`},
	{"a try asks nobody to give up", `
		0 | a | write            | granted
		0 | b | try write asking | refused
		1 | a | renew            | ok`},
	{"who has lost its hold is not asked to give up", `
		0  | a | read ttl=5   | granted
		0  | b | read         | granted
		0  | a | break        | ok
		1  | w | write asking | waits, wakes b`},
	{"an abandoned hold comes free at its TTL, and its owner is told", `
		0  | a | write        | granted
		0  | b | write        | waits
		9  | b | again        | waits
		18 | b | again        | waits
		27 | b | again        | waits
		30 | b | again        | granted
		30 | a | renew        | lost
		30 | a | release      | lost
		30 | a | withdraw     | ok`},
	{"an expired hold is lost although nobody came", `
		0  | a | write        | granted
		30 | a | renew        | lost
		30 |   |              | nothing left`},
	{"an expired hold asked for again is lost and not a second entry", `
		0  | a | write        | granted
		30 | a | again        | lost
		30 |   |              | nothing left`},
	{"whoever finds a hold expired wakes the one who waits", `
		0  | a | write ttl=5  | granted
		0  | b | write        | waits
		5  | c | try write    | refused, wakes b
		5  | b | again        | granted`},
	{"a dead waiter falls out in the time of its position", `
		0  | a | write        | granted
		0  | b | write        | waits
		5  | c | write        | waits
		10 | a | renew        | ok
		11 | c | again        | waits
		12 | a | release      | ok, wakes c`},
	{"a position asked for too late is lost", `
		0  | a | write        | granted
		0  | b | write        | waits
		10 | b | again        | lost`},
	{"a grant nobody looks at keeps the time of its position", `
		0  | a | write        | granted
		0  | b | write        | waits
		9  | a | release      | ok, wakes b
		9  | c | write        | waits
		10 | c | again        | granted`},
	{"a reader's short TTL does not cut another's", `
		0  | a | read ttl=60  | granted
		0  | b | read ttl=5   | granted
		6  | w | try write    | refused
		6  | b | renew        | lost
		6  | a | renew        | ok`},
	{"an expiry never moves back", `
		0  | a | write ttl=60 | granted
		1  | a | renew ttl=5  | ok
		30 | b | try write    | refused
		59 | a | renew        | ok`},
	{"a minimum hold counts once the owner has shown the token", `
		0  | a | write keep=20 | granted
		1  | a | release      | ok
		2  | b | try write    | refused
		2  | a | renew        | lost
		2  | a | again        | lost
		2  | a | release      | lost
		19 | b | try write    | refused
		20 | b | try write    | granted`},
	{"a minimum hold is kept past the expiry", `
		0  | a | write keep=20 ttl=5 | granted
		1  | a | renew ttl=5  | ok
		7  | a | renew        | lost
		7  | b | try write    | refused
		20 | b | try write    | granted`},
	{"a minimum hold is kept for nobody", `
		0  | a | write        | granted
		0  | b | write keep=600 | waits
		5  | a | release      | ok, wakes b
		10 | c | try write    | granted`},
	{"a claim given up unseen has no minimum hold", `
		0  | a | write keep=600 | granted
		1  | a | withdraw     | ok
		1  | b | try write    | granted`},
	{"a kept name keeps its limit", `
		0  | a | 1 of 3 keep=20 | granted
		1  | a | release      | ok
		1  | b | try write    | mismatch
		1  | b | try 3 of 3   | refused
		1  | b | try 2 of 3   | granted`},
	{"a lock delay closes the name after an expiry, and not after a release", `
		0  | a | write delay=15 ttl=5 | granted
		5  | a | renew        | lost
		5  | b | try write    | refused
		19 | b | try write    | refused
		20 | b | try write delay=15 | granted
		21 | b | release      | ok
		21 | c | try write    | granted`},
	{"a broken hold is lost, and in the way until it is given back or expires", `
		0  | a | write keep=600 | granted
		0  | b | write        | waits
		1  | a | renew        | ok
		2  | a | break        | ok
		2  | a | renew        | lost
		2  | a | again        | lost
		3  | b | again        | waits
		4  | a | release      | ok, wakes b`},
	{"a break now lets the next in at once", `
		0  | a | write delay=60 | granted
		0  | b | write        | waits
		1  | a | break now    | ok, wakes b
		1  | a | renew        | lost
		1  | a | release      | lost
		1  | b | renew        | lost
		1  | b | again        | granted
		1  | b | renew        | ok`},
	{"only a hold can be broken", `
		0  | a | write        | granted
		0  | b | write        | waits
		0  | b | break now    | lost
		0  | c | break now    | lost`},
	{"an upgrade is granted at once where nobody else is in", `
		0  | u | upgradeable  | granted
		1  | u | upgrade      | granted
		1  | a | try read     | refused
		1  | u | renew        | ok
		2  | u | release      | ok
		2  |   |              | nothing left`},
	{"an upgrade waits for the readers, and passes all that wait", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | w | write        | waits
		0  | b | read         | waits
		1  | u | upgrade      | pending
		1  | u | renew        | ok
		1  | c | try read     | refused
		2  | a | release      | ok, wakes u
		2  | u | renew        | ok
		2  | w | again        | waits
		3  | u | release      | ok, wakes w`},
	{"a pending upgrade lets nobody in that would fit", `
		0  | a | read         | granted
		0  | b | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		1  | a | release      | ok
		1  | c | try read     | refused
		1  | d | read         | waits
		2  | b | release      | ok, wakes u
		3  | u | downgrade    | granted, wakes d`},
	{"an upgrade that is cancelled lets in those that fit", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		0  | b | read         | waits
		0  | w | write        | waits
		1  | u | cancel       | granted, wakes b
		1  | c | read         | waits
		2  | a | release      | ok
		2  | b | release      | ok
		2  | u | release      | ok, wakes w`},
	{"a cancel that comes after the grant gives the weight back", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		1  | a | release      | ok, wakes u
		2  | u | cancel       | granted
		2  | b | try read     | granted`},
	{"a downgrade lets readers in beside it, and nobody between", `
		0  | u | upgradeable  | granted
		0  | u | upgrade      | granted
		0  | a | read         | waits
		0  | w | write        | waits
		1  | u | downgrade    | granted, wakes a
		1  | a | again        | granted
		1  | u | renew        | ok
		2  | v | try upgradeable | refused`},
	{"a late copy of an upgrade comes to nothing", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade turn=1 | pending
		1  | u | cancel turn=2 | granted
		1  | u | upgrade turn=1 | not applied
		1  | b | try read     | granted
		2  | a | release      | ok
		2  | b | release      | ok
		2  | u | upgrade turn=1 | not applied
		3  | u | upgrade turn=3 | granted
		3  | u | downgrade turn=4 | granted
		4  | u | upgrade turn=3 | not applied
		4  | u | cancel turn=2 | granted
		4  | b | try read     | granted`},
	{"a change that is repeated changes nothing more", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade turn=1 | pending
		0  | u | upgrade turn=1 | pending
		1  | a | release      | ok, wakes u
		1  | u | upgrade turn=1 | granted
		1  | u | upgrade turn=1 | granted`},
	{"a pending upgrade ends with its hold", `
		0  | a | read ttl=60  | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		25 | b | read         | waits
		30 | b | again        | granted
		30 | u | upgrade      | lost
		30 | u | cancel       | lost`},
	{"a pending upgrade of an expired hold is void while it is in the way", `
		0  | a | read ttl=60  | granted
		0  | u | upgradeable delay=60 | granted
		0  | u | upgrade      | pending
		25 | b | read         | waits
		30 | b | again        | granted
		30 | v | try upgradeable | refused`},
	{"a break ends a pending upgrade", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		0  | b | read         | waits
		1  | u | break        | ok, wakes b
		1  | u | cancel       | lost`},
	{"who releases while its upgrade is pending leaves nothing", `
		0  | a | read         | granted
		0  | u | upgradeable  | granted
		0  | u | upgrade      | pending
		0  | w | write        | waits
		1  | u | release      | ok
		2  | a | release      | ok, wakes w`},
	{"only an upgradeable hold can be changed", `
		0  | a | read         | granted
		0  | a | upgrade      | invalid
		0  | a | downgrade    | invalid
		0  | a | release      | ok
		0  | w | write        | granted
		0  | w | downgrade    | invalid
		0  | v | upgradeable  | waits
		0  | v | upgrade      | lost
		1  | b | try read     | refused
		2  | w | release      | ok, wakes v`},
	{"a semaphore's slots are no upgradeable read", `
		0  | a | 536870913 of 1073741823 | granted
		0  | a | upgrade      | invalid
		0  | a | cancel       | invalid`},
	{"an expired hold cannot be changed", `
		0  | u | upgradeable  | granted
		30 | u | upgrade      | lost
		30 |   |              | nothing left`},
	{"a minimum hold lasts through an upgrade", `
		0  | u | upgradeable keep=20 | granted
		1  | u | renew        | ok
		1  | u | upgrade      | granted
		2  | u | release      | ok
		2  | a | try read     | refused
		20 | a | try read     | granted`},
	{"a hold goes on under another id, and under that alone", `
		0  | a | write        | granted
		1  | a | renew as=b   | ok
		1  | a | renew as=b   | ok
		1  | a | renew as=c   | lost
		2  | a | renew        | lost
		2  | a | again        | waits
		2  | a | withdraw     | ok
		20 | b | renew as=c   | ok
		20 | b | release      | lost
		49 | d | try write    | refused
		49 | c | release      | ok
		49 |   |              | nothing left`},
	{"a hold taken over too late is lost", `
		0  | a | write        | granted
		30 | a | renew as=b   | lost
		30 | b | renew        | lost
		30 |   |              | nothing left`},
	{"a withdrawn hold keeps no minimum, shown or not", `
		0  | a | write keep=20 | granted
		1  | a | renew        | ok
		1  | b | write        | waits
		2  | a | withdraw     | ok, wakes b
		2  | b | release      | ok
		2  |   |              | nothing left`},
	{"a waiting entry does not change its id", `
		0  | a | write        | granted
		0  | b | write        | waits
		0  | b | renew as=c   | lost
		1  | a | release      | ok, wakes b`},
	{"a release with token 0 takes whatever the id has", `
		0  | a | write        | granted
		0  | b | write        | waits
		0  | c | withdraw     | ok
		0  | b | withdraw     | ok
		0  | a | withdraw     | ok
		0  |   |              | nothing left`},
}

func TestTheRuleByExample(t *testing.T) {
	for _, e := range examples {
		t.Run(strings.ReplaceAll(e.promise, " ", "_"), func(t *testing.T) {
			s := scene{ids: map[string]store.ID{}, claims: map[string]store.Claim{}}
			for _, line := range strings.Split(strings.TrimSpace(e.story), "\n") {
				part := strings.Split(line, "|")
				for i := range part {
					part[i] = strings.TrimSpace(part[i])
				}
				if have := s.do(t, part[0], part[1], part[2]); have != part[3] {
					t.Fatalf("%s\nhave: %s", strings.TrimSpace(line), have)
				}
			}
		})
	}
}

// A scene is one name, and who has come to it.
type scene struct {
	q      queue.Queue
	ids    map[string]store.ID
	claims map[string]store.Claim
	tokens map[string]int64
	turns  map[string]int32
}

// do plays one line and says what came of it.
func (s *scene) do(t *testing.T, at, who, what string) string {
	t.Helper()
	if what == "" {
		if n := len(s.q.Entries); n > 0 {
			return fmt.Sprintf("%d entries left", n)
		}
		return "nothing left"
	}
	second, err := strconv.ParseFloat(at, 64)
	if err != nil {
		t.Fatal(err)
	}
	now := queue.Time{Clock: int64(second * 1e6), Wall: 1_700_000_000_000_000 + int64(second*1e6)}
	if _, ok := s.ids[who]; !ok {
		s.ids[who] = store.Process{who[0]}.NewID()
	}
	id := s.ids[who]
	var token int64
	for _, e := range s.q.Entries {
		if e.ID == id {
			token = e.Token
		}
	}
	if s.tokens == nil {
		s.tokens, s.turns = map[string]int64{}, map[string]int32{}
	}
	verb, opts, more := s.parse(t, what)
	var change queue.Change
	result := "ok"
	switch verb {
	case "renew":
		h := store.Hold{Name: "n", ID: id, Token: s.tokens[who], TTL: opts.TTL}
		if as := more["as"]; as != "" {
			if _, ok := s.ids[as]; !ok {
				s.ids[as] = store.Process{as[0]}.NewID()
			}
			h.NewID, s.tokens[as] = s.ids[as], h.Token
		}
		var r store.Renewal
		r, change = s.q.Renew(now, &h)
		err = r.Err
		if r.GiveUp != "" {
			result = "ok, asked to give up"
		}
	case "upgrade", "cancel", "downgrade":
		s.turns[who]++
		turn, weight := s.turns[who], int64(store.Upgradeable)
		if n, err := strconv.Atoi(more["turn"]); err == nil {
			turn = int32(n)
		}
		if verb == "upgrade" {
			weight = store.Full
		}
		var a store.Answer
		a, change, err = s.q.Change(now, &store.Hold{Name: "n", ID: id, Token: s.tokens[who]}, turn, weight)
		switch {
		case a.Granted:
			result = "granted"
		case a.Want > a.Weight:
			result = "pending"
		default:
			result = "not applied"
		}
	case "release":
		change, err = s.q.Release(now, &store.Hold{Name: "n", ID: id, Token: max(token, s.tokens[who], 1)})
	case "withdraw":
		change, err = s.q.Release(now, &store.Hold{Name: "n", ID: id})
	case "break", "break now":
		b := store.Break{Name: "n", ID: id, Token: max(token, 1), Reason: "because", Now: verb == "break now"}
		change, err = s.q.Break(now, &b)
	default:
		claim := opts
		if verb == "again" {
			claim = s.claims[who]
			claim.GiveUp = cmp.Or(opts.GiveUp, claim.GiveUp)
		}
		claim.ID = id
		s.claims[who] = claim
		var a store.Answer
		a, change, err = s.q.Ask(now, "n", &claim)
		switch {
		case a.Granted:
			result, s.tokens[who] = "granted", a.Token
		case claim.Try:
			result = "refused"
		default:
			result = "waits"
		}
	}
	switch {
	case errors.Is(err, store.ErrMismatch):
		result = "mismatch"
	case errors.Is(err, store.ErrLost):
		result = "lost"
	case errors.Is(err, store.ErrInvalid):
		result = "invalid"
	case err != nil:
		t.Fatal(err)
	}
	var woken []string
	for _, h := range change.Woken {
		for who, id := range s.ids {
			if h.ID == id {
				woken = append(woken, who)
			}
		}
	}
	if len(woken) > 0 {
		slices.Sort(woken)
		result += ", wakes " + strings.Join(woken, " ")
	}
	return result
}

// parse reads what is done: a verb, or a claim, and durations in seconds; more
// is what else is told.
func (s *scene) parse(t *testing.T, what string) (verb string, c store.Claim, more map[string]string) {
	t.Helper()
	c = store.Claim{Name: "n", Limit: store.Full, TTL: 30 * time.Second, PositionTTL: 10 * time.Second}
	for _, word := range strings.Fields(what) {
		if word == "asking" {
			c.GiveUp = "please"
			continue
		}
		key, value, isOption := strings.Cut(word, "=")
		if !isOption {
			verb = strings.TrimSpace(verb + " " + word)
			continue
		}
		if key == "as" || key == "turn" {
			more = map[string]string{key: value}
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		d := time.Duration(n) * time.Second
		switch key {
		case "ttl":
			c.TTL, c.PositionTTL = d, min(d, c.PositionTTL)
		case "keep":
			c.MinHold = d
		case "delay":
			c.LockDelay = d
		default:
			t.Fatalf("option %q", word)
		}
	}
	kind := strings.TrimPrefix(verb, "try ")
	c.Try = kind != verb
	switch kind {
	case "write":
		c.Weight = store.Full
	case "read":
		c.Weight = 1
	case "upgradeable":
		c.Weight = store.Upgradeable
	case "upgrade", "cancel", "downgrade":
	case "again", "renew", "release", "withdraw", "break", "break now":
	default:
		if _, err := fmt.Sscanf(kind, "%d of %d", &c.Weight, &c.Limit); err != nil {
			t.Fatalf("%q: %v", what, err)
		}
	}
	return verb, c, more
}

// numbers plays operations on one name at one moment each, and says what tokens
// come of them.
type numbers struct {
	t   *testing.T
	q   queue.Queue
	now queue.Time
}

func (n *numbers) ask(weight int64, block int) (*store.Claim, store.Answer) {
	n.t.Helper()
	c := &store.Claim{Name: "n", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: weight, TTL: time.Minute, PositionTTL: time.Minute, Block: block}
	return c, n.again(c)
}

func (n *numbers) again(c *store.Claim) store.Answer {
	n.t.Helper()
	a, _, err := n.q.Ask(n.now, "n", c)
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

func (n *numbers) release(c *store.Claim, token, used int64) {
	n.t.Helper()
	if _, err := n.q.Release(n.now, &store.Hold{Name: "n", ID: c.ID, Token: token, Used: used}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *numbers) check(what string, have, want any) {
	n.t.Helper()
	if have != want {
		n.t.Errorf("%s: %v, want %v", what, have, want)
	}
}

// A block is drawn where all of the name is granted, by whoever grants it, and
// what of it was not used is given back if nothing was drawn since.
func TestABlockIsDrawnAtTheGrantAndCountedBack(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	c, a := n.ask(store.Full, 10)
	n.check("the first token", a.Token, int64(1000))
	n.check("the block", a.N, 10)
	n.check("the newest token", a.Last, int64(1009))
	n.check("the block again", n.again(c).N, 10)
	next, waits := n.ask(store.Full, 5)
	n.check("granted", waits.Granted, false)
	n.release(c, 1000, 1003)
	n.check("drawn by the release, behind what was used", n.again(next).Token, int64(1004))
	n.check("the block drawn by the release", n.again(next).N, 5)

	r, _ := n.ask(1, 7)
	n.release(next, 1004, 0)
	n.check("a reader's, behind a block of which nothing was told", n.again(r).Token, int64(1009))
	n.check("a reader's block", n.again(r).N, 1)
	n.release(r, 1009, 0)

	c, a = n.ask(store.Full, store.MaxBlock+1)
	n.check("the largest block", a.N, store.MaxBlock)
	for _, outside := range []int64{1, a.Token - 1, a.Last + 1, a.Last + 1000} {
		last := n.q.Last
		again, _ := n.ask(store.Full, 1)
		n.release(again, 0, 0)
		if _, err := n.q.Release(n.now, &store.Hold{Name: "n", ID: c.ID, Token: a.Token, Used: outside}); err != nil {
			t.Fatal(err)
		}
		n.check("the newest token after a release that tells one outside the block", n.q.Last, last)
		c, a = n.ask(store.Full, 10)
	}
	n.release(c, a.Token, a.Token)
	n.check("only the first was used", n.q.Last, a.Token)
}

// A position that was kept before blocks were drawn says that none are to be: one
// token it is.
func TestAPositionOfAnOlderVersionIsGrantedOneToken(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	c, a := n.ask(store.Full, 1)
	w, _ := n.ask(store.Full, 1)
	n.q.Entries[1].N = 0
	n.release(c, a.Token, 0)
	a = n.again(w)
	n.check("its token", a.Token, int64(1001))
	n.check("how many", a.N, 1)
	n.check("the newest", a.Last, int64(1001))
}

// A renewal tells the newest token used, and a late copy of one does not take
// it back.
func TestTheNewestTokenUsedIsShownAndNeverGoesBack(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	c, a := n.ask(store.Full, 10)
	for _, s := range []struct{ told, want int64 }{{0, 1000}, {1000, 1000}, {1004, 1004}, {1002, 1004}, {0, 1004}, {1010, 1004}, {5, 1004}, {1009, 1009}} {
		h := store.Hold{Name: "n", ID: c.ID, Token: a.Token, TTL: time.Minute, Used: s.told, Owner: fmt.Sprintf("h\t1\tp\t\tnote %d", s.told)}
		if r, _ := n.q.Renew(n.now, &h); r.Err != nil {
			t.Fatal(r.Err)
		}
		e := n.q.State(n.now, "n").Entries[0]
		n.check(fmt.Sprint("the newest used, told of ", s.told), e.Used, s.want)
		n.check("the note", e.Owner.Note, fmt.Sprint("note ", s.told))
		for token, want := range map[int64]bool{0: false, 999: false, 1000: true, 1005: true, 1009: true, 1010: false} {
			n.check(fmt.Sprint("it is known by ", token), e.Has(token), want)
		}
	}
	h := store.Hold{Name: "n", ID: c.ID, Token: a.Token, TTL: time.Minute}
	n.q.Renew(n.now, &h)
	n.check("the note, not told", n.q.State(n.now, "n").Entries[0].Owner.Note, "note 1009")
}

// An upgrade draws a token of its own, larger than all before; the token of the
// grant stays what the hold is known by, and a way back keeps the newest.
func TestAnUpgradeDrawsAnUpgradeTokenAndKeepsTheToken(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	u, a := n.ask(store.Upgradeable, 10)
	n.check("the block of an upgradeable read", a.N, 1)
	r, reader := n.ask(1, 1)
	n.check("a reader beside it", reader.Token, int64(1001))
	h := store.Hold{Name: "n", ID: u.ID, Token: a.Token, TTL: time.Minute}
	change := func(turn int32, weight int64) store.Answer {
		t.Helper()
		a, _, err := n.q.Change(n.now, &h, turn, weight)
		if err != nil {
			t.Fatal(err)
		}
		n.check("the token", a.Token, int64(1000))
		return a
	}
	a = change(1, store.Full)
	n.check("granted beside a reader", a.Granted, false)
	n.check("its upgrade token", a.UpgradeToken, int64(0))
	n.check("who is in the way", a.Holders[0].ID, r.ID)
	n.check("how many are", a.Holding, 1)
	n.check("until", a.Until, time.Minute)
	n.release(r, reader.Token, 0)
	if _, err := n.q.Release(n.now, &store.Hold{Name: "n", ID: u.ID, Token: 1002}); err == nil {
		t.Error("the upgrade token is the identity of the hold")
	}
	renewal, _ := n.q.Renew(n.now, &h)
	n.check("renewed after the grant", renewal.Err, nil)
	n.check("the upgrade token that the renewal tells", renewal.UpgradeToken, int64(1002))
	n.check("the weight that it tells", renewal.Weight, int64(store.Full))
	n.check("the want that it tells", renewal.Want, int64(store.Full))
	n.check("upgraded twice, the upgrade token", change(2, store.Full).UpgradeToken, int64(1002))
	a = change(3, store.Upgradeable)
	n.check("the weight after a downgrade", a.Weight, int64(store.Upgradeable))
	n.check("the upgrade token after a downgrade", a.UpgradeToken, int64(1002))
	n.check("the upgrade token of another upgrade", change(4, store.Full).UpgradeToken, int64(1003))
	e := n.q.State(n.now, "n").Entries[0]
	n.check("known by its upgrade token", e.Has(1003), true)
	n.check("known by one between", e.Has(1002), false)
	if _, err := n.q.Break(n.now, &store.Break{Name: "n", ID: u.ID, Token: 1003}); err != nil {
		t.Error("a break by the upgrade token:", err)
	}
}
