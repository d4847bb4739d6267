package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// durable returns a Store whose grants the server's disk has to confirm.
func durable(t testing.TB, client redis.UniversalClient, replicas int) *Store {
	t.Helper()
	s := storeOn(t, client, &Options{Durable: true, Replicas: replicas})
	s.confirmTime, s.syncTime = longAnswer, longAnswer // as long as the client itself waits: a busy disk takes long
	t.Cleanup(func() { s.Close() })
	return s
}

// answerOf is an error as a server sends it.
type answerOf string

func (e answerOf) Error() string { return string(e) }
func (answerOf) RedisError()     {}

func TestADurableStoreSaysWhatARestartLoses(t *testing.T) {
	for n, loses := range []string{"replication is asynchronous", "not among the 1"} {
		s, err := Open(fmt.Sprint("redis://a?durable=1&replicas=", n), nil)
		if err != nil {
			t.Fatal(err)
		}
		d := s.Describe()
		if !strings.Contains(d.Loses, loses) || strings.Contains(d.Loses, "restart") || slices.Contains(d.Forgets, store.AccidentRestart) {
			t.Errorf("got Loses %q, Forgets %v", d.Loses, d.Forgets)
		}
		if _, lacks := d.Lacks[store.PromiseNotificationToken]; !lacks || !slices.Contains(d.Forgets, store.AccidentWipe) {
			t.Errorf("%+v", d)
		}
		s.Close()
	}
}

// The store distinguishes a server that cannot confirm its disk from one that is down, before it grants anything there.
func TestWhyAServerCannotBeDurable(t *testing.T) {
	s, err := Open("redis://a?durable=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		err  error
		says string
	}{
		{answerOf("ERR unknown command 'waitaof', with args beginning with: '1' '0' '1'"), "7.2"},
		{answerOf("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."), "appendonly yes"},
		{answerOf("NOPERM this user has no permissions to run the 'waitaof' command"), ""},
		{context.DeadlineExceeded, ""},
		{nil, ""},
	} {
		why := whyNotDurable(c.err)
		if (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%v: got %q, want %q in it", c.err, why, c.says)
		}
		if why != "" {
			err := s.failed("ask", &notDurable{fmt.Errorf("%s: %w", why, c.err)})
			if !errors.Is(err, store.ErrUnsupported) || !store.Definite(err) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
		}
	}
}

func TestAnUnsyncedGrantIsIndeterminate(t *testing.T) {
	s, err := Open("redis://a?durable=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for what, set := range map[string]func(*redis.IntSliceCmd){
		"not in time":     func(c *redis.IntSliceCmd) { c.SetVal([]int64{0, 0}) },
		"no answer":       func(c *redis.IntSliceCmd) { c.SetErr(context.DeadlineExceeded) },
		"an error":        func(c *redis.IntSliceCmd) { c.SetErr(answerOf("ERR unknown command 'waitaof'")) },
		"an empty answer": func(c *redis.IntSliceCmd) { c.SetVal(nil) },
	} {
		c := redis.NewIntSliceCmd(t.Context(), "waitaof", 1, 0, 10)
		set(c)
		if err := s.failed("ask", notSynced(c, time.Second)); !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
			t.Errorf("%s: %v, want indeterminate", what, err)
		}
	}
	c := redis.NewIntSliceCmd(t.Context(), "waitaof", 1, 0, 10)
	c.SetVal([]int64{1, 0})
	if err := notSynced(c, time.Second); err != nil {
		t.Error(err)
	}
}

// The servers that have WAITAOF.
var syncing = map[string]func(testing.TB, ...string) *testserver.Server{"Redis 8": testserver.Redis8, "Valkey 9": testserver.Valkey9}

// syncsAsked returns how often the server was asked what is on its disk.
func syncsAsked(t testing.TB, server *testserver.Server) (n int) {
	t.Helper()
	info, err := clientOf(t, server.Addr).Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	if _, calls, ok := strings.Cut(info, "cmdstat_waitaof:calls="); ok {
		fmt.Sscan(calls, &n)
	}
	return n
}

func TestAnswersOfADurableStoreSurviveARestart(t *testing.T) {
	for name, start := range syncing {
		t.Run(name, func(t *testing.T) {
			server := start(t, "--appendonly", "yes", "--appendfsync", "always")
			s := durable(t, clientOf(t, server.Addr), 0)
			before := syncsAsked(t, server)
			h := soonHold(t, s, mutex("n"))
			if n := syncsAsked(t, server) - before; n < 2 { // killing the process loses nothing that it wrote: a crash of the machine would lose this
				t.Fatalf("got %d requests to sync, want one for the server and one for the grant", n)
			}
			server.Kill()
			server.Restart()
			until(t, "the hold is renewed", func() bool {
				r := s.Renew(t.Context(), []store.Hold{h})
				if errors.Is(r[0].Err, store.ErrLost) {
					t.Fatal("the hold was lost")
				}
				return r[0].Err == nil
			})
			if a := mustAsk(t, s, mutex("n")); a.Granted {
				t.Fatal("two claims hold the lock")
			}
		})
	}
}

func TestAnUnsyncedAnswerIsNotReturned(t *testing.T) {
	for name, start := range syncing {
		t.Run(name, func(t *testing.T) {
			server := start(t, "--appendonly", "yes", "--appendfsync", "no")
			client := clientOf(t, server.Addr)
			s := durable(t, client, 0)
			s.syncTime = 100 * time.Millisecond
			c := mutex("n")
			_, err := s.Ask(t.Context(), c)
			if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) || !strings.Contains(err.Error(), "disk") {
				t.Fatalf("Ask: %v, want indeterminate", err)
			}
			if err := client.ConfigSet(t.Context(), "appendfsync", "always").Err(); err != nil {
				t.Fatal(err)
			}
			until(t, "the write is on the disk", func() bool {
				a, err := s.Ask(t.Context(), c)
				return err == nil && a.Granted
			})
		})
	}
}

func TestDurableIsRefusedWhereTheServerCannot(t *testing.T) {
	servers := map[string]func(*testing.T) *testserver.Server{
		"too old": func(t *testing.T) *testserver.Server { return testserver.Redis(t, "--appendonly", "yes") },
	}
	for name, start := range syncing {
		servers[name+" without an append-only file"] = func(t *testing.T) *testserver.Server { return start(t) }
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			s := durable(t, clientOf(t, server.Addr), 0)
			info, err := clientOf(t, server.Addr).Info(t.Context(), "server").Result()
			if err != nil {
				t.Fatal(err)
			}
			if name == "too old" && !strings.Contains(info, "redis_version:7.0.") && !strings.Contains(info, "redis_version:6.") {
				return // the installed server has WAITAOF
			}
			if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrUnsupported) {
				t.Fatalf("got %v, want ErrUnsupported", err)
			}
			if n := clientOf(t, server.Addr).DBSize(t.Context()).Val(); n != 0 {
				t.Fatalf("got %d keys written, want none", n)
			}
		})
	}
}
