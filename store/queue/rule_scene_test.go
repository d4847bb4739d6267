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

// A scene is one name and its claims.
type scene struct {
	q      queue.Queue
	ids    map[string]store.ID
	claims map[string]store.Claim
	tokens map[string]int64
	turns  map[string]int32
}

// do applies one line and returns the outcome.
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

// parse reads the operation: a verb, or a claim, and durations in seconds; more is
// what else the line says.
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
