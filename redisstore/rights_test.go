package redisstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

const secret = "p4ss/w:rd@%{}s3cret"

// rights returns those that the package comment lists, in its words.
func rights(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("redisstore.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "// # Rights\n")
	text, _, _ = strings.Cut(text, "// The client also needs")
	var all []string
	for _, word := range strings.Fields(text) {
		if word == "resetkeys" || word == "resetchannels" || strings.ContainsRune("~&+-", rune(word[0])) && len(word) > 1 {
			all = append(all, word)
		}
	}
	if len(all) < 10 {
		t.Fatalf("the package comment lists the rights %q", all)
	}
	return all
}

// user creates a user with these rights and returns a client that logs in as that user.
func user(t *testing.T, server *testserver.Server, name string, rights ...string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">" + secret}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := clientOf(t, server.Addr).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return clientOf(t, server.Addr, func(o *redis.Options) { o.Username, o.Password = name, secret })
}

// denials returns the commands that the server refused to anybody, from its log.
func denials(t *testing.T, server *testserver.Server) (all []string) {
	t.Helper()
	log, err := clientOf(t, server.Addr).ACLLog(t.Context(), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log {
		all = append(all, e.Reason+" "+e.Object)
	}
	return all
}

func TestEachListedRightIsNeeded(t *testing.T) {
	t.Parallel()
	for name, start := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRightIsNeeded(t, start(t))
		})
	}
}

func eachRightIsNeeded(t *testing.T, server *testserver.Server) {
	all := rights(t)
	uses := map[string]func(t *testing.T, s *Store) error{}
	lock := func(t *testing.T, s *Store) error {
		c := mutex("lock")
		a, err := s.Ask(t.Context(), c)
		if err != nil {
			return err
		}
		return s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
	}
	for _, right := range []string{"~holdfast:*", "+evalsha", "+eval", "+mget", "+exists", "+set", "+time"} {
		uses[right] = lock
	}
	for i, right := range []string{"+hmget", "+hset", "+hdel", "+del", "+pexpire"} {
		uses[right] = func(t *testing.T, s *Store) (err error) {
			name := fmt.Sprint("many ", i)
			for c := mutex(name); err == nil; c.ID = me.NewID() {
				if _, err = s.Ask(t.Context(), c); err == nil && len(state(t, s, name).Entries) > usual.fewest {
					return s.Release(t.Context(), store.Hold{Name: name, ID: c.ID})
				}
			}
			return err
		}
	}
	many, whole := mutex("of many"), storeOn(t, clientOf(t, server.Addr), nil)
	many.Limit, many.Weight, many.TTL = 1000, 1, time.Hour // only holds, as queue positions expire if the machine stalls
	for range usual.fewest + 1 {
		many.ID = me.NewID()
		mustAsk(t, whole, many)
	}
	uses["+hgetall"] = func(t *testing.T, s *Store) (err error) {
		for _, err = range s.List(t.Context(), many.Name) {
		}
		return err
	}
	for _, right := range []string{"&holdfast:*", "+subscribe"} {
		uses[right] = func(t *testing.T, s *Store) error { return s.Watch(t.Context(), me, func(store.Notification) {}) }
	}
	uses["+scan"] = func(t *testing.T, s *Store) (err error) {
		for _, err = range s.List(t.Context(), "") {
		}
		return err
	}
	for right, use := range uses {
		t.Run(right, func(t *testing.T) {
			i := slices.Index(all, right)
			if i < 0 {
				t.Fatalf("the package comment does not list it: %q", all)
			}
			// If the server already has the scripts, no EVAL is needed.
			if err := clientOf(t, server.Addr).ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			s := storeOn(t, user(t, server, "less", slices.Delete(slices.Clone(all), i, i+1)...), nil)
			defer s.Close()
			if err := use(t, s); !errors.Is(err, store.ErrDenied) {
				t.Errorf("without it: %v, want ErrDenied", err)
			} else if !strings.Contains(err.Error(), server.Addr) {
				t.Errorf("the error does not name the server: %v", err)
			}
		})
	}
}

// mute is a store that sends no notifications, as its user may not publish.
type mute struct {
	store.Store
	store.Inspector
	store.Poller
	store.Checker
}

// This runs the whole contract with waiters that poll.
func TestWithoutTheRightToPublishEveryPromiseIsKept(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	all := slices.DeleteFunc(rights(t), func(r string) bool { return r == "+publish" })
	client := user(t, server, "quiet", all...)
	storetest.Run(t, func(t *testing.T) store.Store {
		s := storeOn(t, client, nil)
		return mute{s, s, s, s}
	})
}

func TestWithoutTheRightToPublishLocksWorkAndWaitersPoll(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	all := slices.DeleteFunc(rights(t), func(r string) bool { return r == "+publish" })
	s := storeOn(t, user(t, server, "quiet", all...), nil)
	defer s.Close()
	h, w := mustHold(t, s, mutex("n")), mutex("n")
	mustAsk(t, s, w)
	if err := s.Release(t.Context(), h); err != nil {
		t.Errorf("release with a waiter: %v", err)
	}
	if a := mustAsk(t, s, w); !a.Granted || a.Token <= h.Token {
		t.Errorf("the waiter: got %+v", a)
	}
}
