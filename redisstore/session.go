package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// Holds that one call renews can be kept by a session: one key that is written for all of
// them, while their names are only read. A session is renewed only by a call that renews
// every hold in it, so each hold expires when it would on its own. See
// docs/decisions/0053-sessions-of-redis.md.
const (
	// fewestTogether is the minimum number of holds, renewed by one call and with one TTL,
	// that makes a session worthwhile.
	fewestTogether = 16
	// mostTogether is the maximum number of holds in a session: a script blocks the server.
	mostTogether = 500
	// sessionLife is the maximum life of a session, however often it is renewed. The keys of
	// its names live that much longer, because renewals do not write them. A session is
	// replaced when a quarter of its life is left.
	sessionLife = 2 * time.Hour
	// longestTogether is the maximum TTL of a hold in a session.
	longestTogether = sessionLife / 8
	// leftFor is how many TTLs a session is still renewed after a hold has left it, until it is replaced. A
	// fail-over or a crash can lose the write by which the entry left, even if it was answered. Then the
	// session would keep an entry without an owner.
	leftFor = 2
	// apartFor is how long no session is begun on a server that refused one for good.
	apartFor = 10 * time.Minute
)

// A session is what this process knows about a session. Every entry that names the session on
// the server belongs to a hold counted here, unless the session has ended. These are the holds
// that the answer to its beginning named, until an answer says that their entry has left the
// session or is removed.
type session struct {
	id    [8]byte
	ttl   time.Duration
	until store.Instant // from then on it is replaced
	holds int
	over  bool // it must no longer be renewed
}

// sessions are the sessions of this process.
type sessions struct {
	fewest int                  // fewestTogether, except in tests
	now    func() store.Instant // store.Now, except in tests

	mu    sync.Mutex
	of    map[store.ID]place
	apart store.Instant // no session is begun before this
	swept store.Instant
}

// A place is the state of a hold that was renewed together with others.
type place struct {
	in    *session
	name  string        // of the hold in the session
	token int64         // and its token
	again store.Instant // if in no session: a session refused it, and it is not tried again before this
}

// A run is the renewal of some holds by one script.
type run struct {
	*command
	session *session
	begins  bool
	holds   []int // indexes in the call
}

// together splits the valid holds into those that the write of a session can renew, for which
// it prepares the runs, and the rest.
func (s *Store) together(holds []store.Hold, valid []int) (runs []*run, rest []int) {
	if !s.hasSessions || len(valid) < s.sessions.fewest {
		return nil, valid
	}
	names := make(map[string]int, len(valid))
	for _, i := range valid {
		names[holds[i].Name]++
	}
	ss := &s.sessions
	now := ss.now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	there := map[*session][]int{}
	var free []int
	for _, i := range valid {
		h := &holds[i]
		p := ss.of[h.ID]
		switch {
		case names[h.Name] > 1 || h.NewID != (store.ID{}): //mutant:redis-session-of-others
			rest = append(rest, i)
		case p.in != nil && (p.name != h.Name || p.token != h.Token): // no such hold exists: it must not extend the entry in the session //mutant:redis-session-of-no-hold
			rest = append(rest, i)
		case p.in != nil && p.in.ttl == h.TTL && now < p.in.until: //mutant:redis-session-replaced
			there[p.in] = append(there[p.in], i)
		case p.in == nil && now < p.again || h.TTL > longestTogether || now < ss.apart:
			rest = append(rest, i)
		default:
			free = append(free, i)
		}
	}
	for sess, some := range there {
		if !sess.over && len(some) == sess.holds && len(some) >= (ss.fewest+1)/2 { //mutant:redis-session-whole
			runs = append(runs, s.renewalOf(sess, holds, some, 0))
		} else {
			free = append(free, some...)
		}
	}
	byTTL := map[time.Duration][]int{}
	for _, i := range free {
		byTTL[holds[i].TTL] = append(byTTL[holds[i].TTL], i)
	}
	for ttl, some := range byTTL {
		if len(some) < ss.fewest || now < ss.apart {
			rest = append(rest, some...)
			continue
		}
		parts := (len(some) + mostTogether - 1) / mostTogether
		for k := range parts {
			part := some[k*len(some)/parts : (k+1)*len(some)/parts]
			sess := &session{ttl: ttl, until: now.Add(sessionLife * 3 / 4)}
			rand.Read(sess.id[:])
			r := s.renewalOf(sess, holds, part, min(ss.fewest, len(part)))
			r.begins = true
			runs = append(runs, r)
		}
	}
	return runs, rest
}

// renewalOf returns the script that renews a session with these holds. With least above 0, it
// begins a session if that can keep at least so many of them.
func (s *Store) renewalOf(sess *session, holds []store.Hold, some []int, least int) *run {
	keys := make([]string, 1, len(some)+1)
	keys[0] = s.prefix + "session:" + hex.EncodeToString(sess.id[:])
	args := make([]string, 3, len(some)+4)
	args[0], args[1], args[2] = string(sess.id[:]), strconv.FormatInt(micros(sess.ttl), 10), strconv.Itoa(least)
	for _, i := range some {
		h := &holds[i]
		keys = append(keys, s.key(h.Name))
		b := make([]byte, 0, 48+len(h.Owner))
		b = hex.AppendEncode(b, h.ID[:])
		b = appendFloat(b, h.Token)
		b = appendFloat(b, h.Used)
		args = append(args, string(append(b, h.Owner...)))
	}
	return &run{command: s.commandOn(&s.scripts.together, keys, args...), session: sess, holds: some}
}

// renewedTogether reads the server's answer, and returns the holds that must be renewed one by
// one.
func (s *Store) renewedTogether(ctx context.Context, r *run, holds []store.Hold, out []store.Renewal) (rest []int) {
	answer, err := r.wait(ctx)
	ss := &s.sessions
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now := ss.now()
	var refused redis.Error
	switch {
	case errors.As(err, &refused) && !passes(err.Error()): // it did not run, or stopped //mutant:redis-session-unanswered
		if r.begins && forGood(err.Error()) { //mutant:redis-session-refused-for-good
			ss.apart = now.Add(apartFor) //mutant:redis-session-refused
		}
		return r.holds
	case err != nil:
		for _, i := range r.holds {
			out[i].Err = s.failed(fmt.Sprintf("renew %q", holds[i].Name), err)
		}
		return nil
	case answer == "L":
		return r.holds //mutant:redis-session-gone
	}
	states := answer[1:]
	for _, i := range r.holds {
		h := &holds[i]
		var a store.Answer
		left, ok := states, false
		if states != "" && states[0] == 'H' {
			left, ok = stands(&a, states[1:])
		}
		switch {
		case answer[0] == 'H' && ok:
			states = left
			if r.begins {
				ss.leave(h.ID, true)
				ss.of[h.ID] = place{in: r.session, name: h.Name, token: h.Token}
				r.session.holds++
			}
			out[i] = store.Renewal{TTL: h.TTL, Weight: a.Weight, Want: a.Want, UpgradeToken: a.UpgradeToken}
		case answer[0] == 'H' && states != "" && states[0] == 'x':
			states = states[1:]
			rest = append(rest, i)
			if r.begins && ss.of[h.ID].in == nil { //mutant:redis-session-tried-again
				ss.of[h.ID] = place{again: now.Add(8 * h.TTL)}
			}
		default:
			out[i].Err = s.strange("renew", h.Name, answer)
			r.session.over = true // it may keep more than this process knows //mutant:redis-session-of-a-strange-answer
		}
	}
	ss.sweep(now)
	return rest
}

// forGood reports whether the server says that sessions cannot work: this user lacks a right, or the keys are on
// several servers.
func forGood(text string) bool {
	return forbids(text) || has(text, "CROSSSLOT", "hash to the same slot", "non local key", "undeclared key")
}

// passes reports whether the server refuses to run or write anything for now. It would refuse the renewal of each
// hold by itself as well, and the session is unchanged.
func passes(text string) bool {
	return has(text, "LOADING", "BUSY ", "READONLY", "NOREPLICAS", "MASTERDOWN", "MISCONF", "CLUSTERDOWN", "TRYAGAIN", "max number of clients") //mutant:redis-refusals-that-pass
}

// renewed notes the result of the renewal of one hold by itself. If it succeeded, the entry has its own expiry.
func (ss *sessions) renewed(id store.ID, err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if err != nil || ss.of[id].in != nil {
		ss.leave(id, err == nil)
	}
}

// released notes the result of the release of a hold. Only if the release found a hold is it certain that no
// session keeps an entry with its id.
func (ss *sessions) released(h *store.Hold, err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.leave(h.ID, err == nil && h.Token != 0)
}

// leave removes a hold from its session. If the server may not have done the same, the session is no longer
// renewed, because that would keep an entry without an owner. ss.mu is held.
func (ss *sessions) leave(id store.ID, sure bool) {
	switch in := ss.of[id].in; {
	case in == nil:
	case sure: //mutant:redis-session-left-for-sure
		in.holds--
		in.until = min(in.until, ss.now().Add(leftFor*in.ttl)) //mutant:redis-session-left-goes-on
	default:
		in.over = true
	}
	delete(ss.of, id)
}

// sweep forgets holds that are no longer renewed. ss.mu is held.
func (ss *sessions) sweep(now store.Instant) {
	if now < ss.swept.Add(sessionLife) {
		return
	}
	ss.swept = now
	for id, p := range ss.of {
		if p.in == nil && p.again < now || p.in != nil && p.in.until.Add(sessionLife) < now {
			delete(ss.of, id) // its session is no longer renewed
		}
	}
}
