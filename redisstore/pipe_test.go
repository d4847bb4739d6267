package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// counter is a hook that counts the exchanges of scripts.
type counter struct {
	mu                                 sync.Mutex
	now, most                          int // under way at the same time
	exchanges, commands, inOneExchange int
}

func (c *counter) count(cmds []redis.Cmder) (leave func()) {
	if name := cmds[0].Name(); name != "evalsha" && name != "eval" { // the client also sends its greeting
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.exchanges++
	c.commands += len(cmds)
	c.most, c.inOneExchange = max(c.most, c.now), max(c.inOneExchange, len(cmds))
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer c.count([]redis.Cmder{cmd})()
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer c.count(cmds)()
		return next(ctx, cmds)
	}
}

// flying and queued read the counts, for a store with one server.
func (s *Store) flying() int { s.one.mu.Lock(); defer s.one.mu.Unlock(); return s.one.flying }

func (s *Store) queued() int { s.one.mu.Lock(); defer s.one.mu.Unlock(); return len(s.one.waiting) }

func TestCommandsOfManyCallersShareExchangesAndALoneOneGoesAtOnce(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	s.hasSessions = false // each renewal is a script of its own
	warmUp(t, s)
	count := &counter{}
	client.AddHook(count)

	mustHold(t, s, mutex("alone"))
	if count.exchanges != 1 || count.inOneExchange != 1 {
		t.Errorf("a lone ask took %d exchanges of up to %d commands, want one of one", count.exchanges, count.inOneExchange)
	}
	server.Freeze()
	const callers = 100
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if a, err := s.Ask(t.Context(), mutex(fmt.Sprint(i))); err != nil || !a.Granted {
				t.Errorf("caller %d: got %+v %v", i, a, err)
			}
		})
	}
	until(t, "all callers wait", func() bool { return s.queued() == callers-maxExchanges })
	server.Thaw()
	wg.Wait()
	if count.most != maxExchanges {
		t.Errorf("got %d exchanges under way at once, want %d", count.most, maxExchanges)
	}
	if exchanges := count.exchanges - 1; exchanges != maxExchanges+1 {
		t.Errorf("%d callers took %d exchanges, want %d", callers, exchanges, maxExchanges+1)
	}
	if count.commands != callers+1 {
		t.Errorf("got %d commands for %d asks", count.commands, callers+1)
	}

	var holds []store.Hold
	for st, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		e := st.Entries[0]
		holds = append(holds, store.Hold{Name: st.Name, ID: e.ID, Token: e.Token, TTL: time.Minute})
	}
	before := count.exchanges
	for _, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	if n := count.exchanges - before; n != 1 {
		t.Errorf("%d renewals took %d exchanges, want one", len(holds), n)
	}
}

func TestOneCallersEndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := storeOn(t, clientOf(t, server.Addr), nil)
	defer s.Close()
	warmUp(t, s)
	server.Freeze()
	gone, leave := context.WithCancel(t.Context())
	errs := make([]error, 60)
	var started, left, all sync.WaitGroup
	for i := range errs {
		ctx, group := t.Context(), &all
		if i%2 == 1 && i > 2 { // not the two that are under way
			ctx, group = gone, &left
		}
		started.Add(1)
		group.Go(func() {
			started.Done()
			_, errs[i] = s.Ask(ctx, mutex(fmt.Sprint(i)))
		})
		if i < maxExchanges {
			until(t, "an exchange is under way", func() bool { return s.flying() == i+1 })
		}
	}
	started.Wait()
	until(t, "the other callers wait", func() bool { return s.queued() == len(errs)-maxExchanges })
	leave()
	left.Wait() // at once, though the server is frozen
	server.Thaw()
	all.Wait()
	for i, err := range errs {
		if i%2 == 1 && i > 2 {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("caller %d, which left: %v", i, err)
			}
			// Requests that were still queued have not been sent.
			if n := len(state(t, s, fmt.Sprint(i)).Entries); n > 0 {
				t.Errorf("caller %d, which left, has %d entries", i, n)
			}
		} else if err != nil {
			t.Errorf("caller %d, which stayed: %v", i, err)
		}
	}
}

func TestForgottenScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	for round := range 3 {
		h := mustHold(t, s, mutex(fmt.Sprint("one ", round)))
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Errorf("one by one: %v", err)
		}

		var holds []store.Hold
		for i := range 20 {
			holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("many ", round, i))))
		}
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for i, r := range s.Renew(t.Context(), holds) {
			if r.Err != nil {
				t.Errorf("renewal %d in a pipeline: %v", i, r.Err)
			}
		}
	}
	server.Restart()
	until(t, "the restarted server answers", func() bool {
		_, err := s.Ask(t.Context(), mutex("after a restart"))
		return err == nil
	})
}
