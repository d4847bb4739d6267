package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// reply is an error as a server sends it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// Only a refusal that shows that sessions cannot work here turns them off. The answers are those of real servers, word for word.
func TestOnlyARefusalForGoodTurnsSessionsOff(t *testing.T) {
	t.Parallel()
	type outcome struct {
		off     bool // no session is tried for ten minutes
		by      bool // this call renews each hold by itself
		renewed bool // the existing session is renewed the next time
	}
	forGood, passing, other := outcome{off: true, by: true}, outcome{renewed: true}, outcome{by: true}
	for answer, want := range map[string]outcome{
		"NOPERM No permissions to access a key":                                                                            forGood,
		"NOPERM this user has no permissions to access one of the keys used as arguments":                                  forGood,
		"ERR ACL failure in script: No permissions to access a key":                                                        forGood,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments":       forGood,
		"CROSSSLOT Keys in request don't hash to the same slot":                                                            forGood,
		"ERR Script attempted to access keys that do not hash to the same slot script: f, on @user_script:15.":             forGood,
		"ERR Script attempted to access a non local key in a cluster node script: f, on @user_script:15.":                  forGood,
		"ERR Error running script (call to f_8): @user_script:15: Lua script attempted to access a non local key in a clu": forGood,
		"ERR Error running script (call to f_8): @user_script:15: script tried accessing undeclared key":                   forGood,

		"LOADING Redis is loading the dataset in memory":                                                                      passing,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                              passing,
		"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                             passing,
		"READONLY You can't write against a read only replica. script: f, on @user_script:15.":                                passing,
		"ERR Error running script (call to f_8): @user_script:15: @user_script: 15: -READONLY You can't write against a read": passing,
		"NOREPLICAS Not enough good replicas to write.":                                                                       passing,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                    passing,
		"MISCONF Errors writing to the AOF file: No space left on device":                                                     passing,
		"CLUSTERDOWN The cluster is down":                                                                                     passing,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                             passing,
		"ERR max number of clients reached":                                                                                   passing,

		"OOM command not allowed when used memory > 'maxmemory'.": other, // holds can still be renewed
		"NOAUTH Authentication required.":                         other,
		"WRONGPASS invalid username-password pair":                other,
		"ERR user_script:1: too many results to unpack":           other,
		"NOSCRIPT No matching script.":                            other,
	} {
		for _, begins := range []bool{true, false} {
			t.Run(fmt.Sprint(answer, ", begins ", begins), func(t *testing.T) {
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
				defer client.Close()
				s := storeOn(t, client, nil)
				defer s.Close()
				holds, all := holdsOf(2 * fewestTogether)
				if !begins {
					inOneSession(s, holds)
				}
				runs, _ := s.together(holds, all)
				if len(runs) != 1 || runs[0].begins != begins {
					t.Fatalf("got %d runs, want one", len(runs))
				}
				runs[0].call = done
				runs[0].SetErr(reply(answer))
				out := make([]store.Renewal, len(holds))
				rest := s.renewedTogether(t.Context(), runs[0], holds, out)
				if by := len(rest) == len(holds); by != want.by || !by && len(rest) > 0 {
					t.Errorf("got %d of %d holds renewed alone", len(rest), len(holds))
				}
				for i, r := range out {
					if reported := errors.Is(r.Err, store.ErrUnavailable) && !store.Definite(r.Err); reported == want.by || !reported && r.Err != nil {
						t.Fatalf("renewal %d: %v", i, r.Err)
					}
				}
				runs, rest = s.together(holds, all)
				off := len(runs) == 0 && len(rest) == len(holds)
				if want := want.off && begins; off != want {
					t.Errorf("got sessions off: %v", off)
				}
				if !off && runs[0].begins != begins {
					t.Errorf("the next call begins a session: %v", runs[0].begins)
				}
				for i := range holds { // the answer to each hold by itself
					if want.by {
						s.sessions.renewed(holds[i].ID, s.failed("renew", reply(answer)))
					}
				}
				if runs, _ := s.together(holds, all); !begins && (!runs[0].begins) != want.renewed {
					t.Errorf("the session goes on: %v", !runs[0].begins)
				}
			})
		}
	}
}

// holdsOf returns n holds, and their indexes.
func holdsOf(n int) (holds []store.Hold, all []int) {
	for i := range n {
		c := mutex(fmt.Sprint(i))
		holds, all = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: 1, TTL: c.TTL}), append(all, i)
	}
	return holds, all
}

// inOneSession makes the Store believe that a session keeps these holds.
func inOneSession(s *Store, holds []store.Hold) *session {
	in := &session{ttl: holds[0].TTL, until: store.Now().Add(sessionLife), holds: len(holds)}
	for _, h := range holds {
		s.sessions.of[h.ID] = place{in: in, name: h.Name, token: h.Token}
	}
	return in
}

// A server refuses everything for a while. The holds in a session are indeterminate, and continue in that session afterwards. Other holds then
// move into a session.
func TestSessionsGoOnOnceTheServerTakesWritesAgain(t *testing.T) {
	t.Parallel()
	do := func(t *testing.T, c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	for version, start := range versions {
		for what, state := range map[string]struct {
			begin, end func(*testing.T, *redis.Client)
			goesOn     bool // holds can be renewed during the refusal
		}{
			"too few replicas": {
				begin: func(t *testing.T, c *redis.Client) { do(t, c, "CONFIG", "SET", "min-replicas-to-write", 1) },
				end:   func(t *testing.T, c *redis.Client) { do(t, c, "CONFIG", "SET", "min-replicas-to-write", 0) },
			},
			"the server is a replica": {
				begin: func(t *testing.T, c *redis.Client) { do(t, c, "REPLICAOF", "127.0.0.1", 1) },
				end:   func(t *testing.T, c *redis.Client) { do(t, c, "REPLICAOF", "NO", "ONE") },
			},
			"another client's script runs": {
				begin: func(t *testing.T, c *redis.Client) {
					do(t, c, "CONFIG", "SET", "lua-time-limit", 1)
					one := clientOf(t, c.Options().Addr)
					go one.Eval(t.Context(), "while true do end", nil)
					until(t, "the server is busy", func() bool {
						err := c.Get(t.Context(), "x").Err()
						return err != nil && strings.HasPrefix(err.Error(), "BUSY")
					})
				},
				end: func(t *testing.T, c *redis.Client) {
					do(t, c, "SCRIPT", "KILL")
					until(t, "the server answers", func() bool { return c.Ping(t.Context()).Err() == nil })
				},
			},
			"the server is full": {
				begin:  func(t *testing.T, c *redis.Client) { fill(t, c, true) },
				end:    func(t *testing.T, c *redis.Client) { fill(t, c, false) },
				goesOn: true,
			},
		} {
			t.Run(version+", "+what, func(t *testing.T) {
				t.Parallel()
				client := clientOf(t, start(t).Addr)
				s := storeOn(t, client, nil)
				defer s.Close()
				const ttl = 10 * time.Minute
				in := inSessions(t, s, "held", fewestTogether, ttl)
				var out []store.Hold
				for i := range fewestTogether {
					c := mutex(fmt.Sprint("other ", i))
					c.TTL = ttl
					out = append(out, mustHold(t, s, c))
				}
				before := sessionKeys(t, s)
				state.begin(t, client)
				for range 2 {
					for i, r := range append(s.Renew(t.Context(), in), s.Renew(t.Context(), out)...) {
						if unavailable := errors.Is(r.Err, store.ErrUnavailable) && !store.Definite(r.Err); unavailable == state.goesOn || !unavailable && r.Err != nil {
							t.Errorf("renewal %d: %v", i, r.Err)
						}
					}
				}
				state.end(t, client)
				mustRenew(t, s, in)
				if keys := sessionKeys(t, s); len(keys) != len(before) {
					t.Errorf("got %d sessions, and %d before: the holds of one are in another", len(keys), len(before))
				}
				mustRenew(t, s, out)
				for _, h := range append(in, out...) {
					if !kept(t, s, h.Name) {
						t.Fatalf("no session keeps %q", h.Name)
					}
				}
			})
		}
	}
}
