package queue_test

import (
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
// with those that it wakes. A TTL is 30 s and a place 10 s unless told.
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
	{"another limit is a mistake while anybody holds, waits or is in the way", `
		0 | a | 1 of 3        | granted
		0 | b | 1 of 2        | mismatch
		0 | b | try write     | mismatch
		0 | a | release       | ok
		0 | b | write         | granted`},
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
	{"a dead waiter falls out in the time of its place", `
		0  | a | write        | granted
		0  | b | write        | waits
		5  | c | write        | waits
		10 | a | renew        | ok
		11 | c | again        | waits
		12 | a | release      | ok, wakes c`},
	{"a place asked for too late is lost", `
		0  | a | write        | granted
		0  | b | write        | waits
		10 | b | again        | lost`},
	{"a grant nobody looks at keeps the time of its place", `
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
		s.tokens = map[string]int64{}
	}
	verb, opts := s.parse(t, what)
	var change queue.Change
	result := "ok"
	switch verb {
	case "renew":
		var r store.Renewal
		r, change = s.q.Renew(now, &store.Hold{Name: "n", ID: id, Token: s.tokens[who], TTL: opts.TTL})
		err = r.Err
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

// parse reads what is done: a verb, or a claim, and durations in seconds.
func (s *scene) parse(t *testing.T, what string) (verb string, c store.Claim) {
	t.Helper()
	c = store.Claim{Name: "n", Limit: store.Full, TTL: 30 * time.Second, Place: 10 * time.Second}
	for _, word := range strings.Fields(what) {
		key, value, isOption := strings.Cut(word, "=")
		if !isOption {
			verb = strings.TrimSpace(verb + " " + word)
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		d := time.Duration(n) * time.Second
		switch key {
		case "ttl":
			c.TTL, c.Place = d, min(d, c.Place)
		case "keep":
			c.Keep = d
		case "delay":
			c.Delay = d
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
		c.Weight = store.Full/2 + 1
	case "again", "renew", "release", "withdraw", "break", "break now":
	default:
		if _, err := fmt.Sscanf(kind, "%d of %d", &c.Weight, &c.Limit); err != nil {
			t.Fatalf("%q: %v", what, err)
		}
	}
	return verb, c
}
