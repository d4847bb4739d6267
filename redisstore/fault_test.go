package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

const patience = 30 * time.Second

// until polls for something that must happen.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

var me = store.NewProcess()

// mutex is a claim of all of a name, to be waited for.
func mutex(name string) store.Claim {
	return store.Claim{
		Name: name, ID: me.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: time.Minute, Place: 10 * time.Second, Owner: store.Owner{Host: "h", PID: 1, Program: "p"}.String(),
	}
}

func mustAsk(t testing.TB, s *Store, c store.Claim) store.Answer {
	t.Helper()
	a, err := s.Ask(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustHold(t testing.TB, s *Store, c store.Claim) store.Hold {
	t.Helper()
	a := mustAsk(t, s, c)
	if !a.Granted {
		t.Fatalf("%q is not granted: %+v", c.Name, a)
	}
	return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
}

func state(t testing.TB, s *Store, name string) store.State {
	t.Helper()
	for st, err := range s.List(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	return store.State{Name: name}
}

// warmUp opens the connections for single commands and for pipelines, and
// teaches the server the scripts: then an operation is one exchange.
func warmUp(t testing.TB, s *Store) {
	t.Helper()
	h := mustHold(t, s, mutex("warm up"))
	for _, r := range s.Renew(t.Context(), []store.Hold{h, h}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// runs is how many scripts the server has run.
func runs(t testing.TB, c *redis.Client) (n int) {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		var calls int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
			n += calls
		}
		if _, err := fmt.Sscanf(line, "cmdstat_eval:calls=%d,", &calls); err == nil {
			n += calls
		}
	}
	return n
}

func TestWhenAnAnswerIsLostNothingIsSentTwiceAndTheRepeatIsRight(t *testing.T) {
	server := testserver.Redis(t)
	direct := clientOf(t, server.Addr)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr), nil) // with the client's own three retries
	defer s.Close()
	warmUp(t, s)

	lose := func(what string, f func() error) {
		t.Helper()
		before := runs(t, direct)
		p.dropAnswers(1)
		if err := f(); !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
			t.Errorf("%s: %v, want unclear", what, err)
		}
		if n := runs(t, direct) - before; n != 1 {
			t.Errorf("%s was run %d times", what, n)
		}
	}
	for _, try := range []bool{false, true} {
		c := mutex(fmt.Sprintf("try %v", try))
		c.Try = try
		lose("ask", func() error { _, err := s.Ask(t.Context(), c); return err })
		h := mustHold(t, s, c) // it has been ours all the time
		lose("renew", func() error { return s.Renew(t.Context(), []store.Hold{h})[0].Err })
		if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Errorf("the repeated renewal: %v", err)
		}
		if n := len(state(t, s, c.Name).Entries); n != 1 {
			t.Errorf("%d entries of one claim", n)
		}
		lose("release", func() error { return s.Release(t.Context(), h) })
		if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
			t.Errorf("the repeated release: %v, want lost: it is no longer there", err)
		}
		lose("release of whatever there is", func() error {
			return s.Release(t.Context(), store.Hold{Name: h.Name, ID: h.ID})
		})
		if err := s.Release(t.Context(), store.Hold{Name: h.Name, ID: h.ID}); err != nil {
			t.Errorf("the repeated release of whatever there is: %v", err)
		}
	}
}

func TestWhenTheAnswersOfAPipelineAreLostEveryRepeatIsRight(t *testing.T) {
	server := testserver.Redis(t)
	direct := clientOf(t, server.Addr)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr), nil)
	defer s.Close()
	var holds []store.Hold
	for i := range 50 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(i))))
	}
	warmUp(t, s)
	before := runs(t, direct)
	p.dropAnswers(1)
	for i, r := range s.Renew(t.Context(), holds) {
		if !errors.Is(r.Err, store.ErrUnavailable) {
			t.Errorf("renewal %d: %v, want unclear", i, r.Err)
		}
	}
	if n := runs(t, direct) - before; n != len(holds) {
		t.Errorf("%d renewals were run, want %d", n, len(holds))
	}
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Errorf("repeated renewal %d: %v", i, r.Err)
		}
	}
}

func TestAFrozenServerHoldsUpNobodyBeyondItsContext(t *testing.T) {
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr, func(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond })
	s := storeOn(t, client, nil)
	defer s.Close()
	held := mustHold(t, s, mutex("held"))

	server.Freeze()
	claims := make([]store.Claim, 200)
	granted, unclear := make([]bool, len(claims)), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range claims {
		claims[i] = mutex(fmt.Sprint("name ", i%100)) // two for each
		wg.Go(func() {
			ctx, cancel := t.Context(), func() {}
			if i%4 == 0 { // these leave, and nobody is to mind
				ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
			}
			defer cancel()
			a, err := s.Ask(ctx, claims[i])
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("claim %d: %v", i, err)
			}
			granted[i] = a.Granted
			if err != nil {
				unclear++
			}
		})
	}
	wg.Wait() // though nothing has been answered
	if unclear != len(claims) {
		t.Errorf("%d of %d asks of a frozen server were unclear", unclear, len(claims))
	}
	server.Thaw()

	// Some asks slip in late. All can be given back by their ids.
	until(t, "nothing but what was held before is left", func() bool {
		for _, c := range claims {
			if err := s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID}); err != nil && store.Definite(err) {
				t.Fatalf("withdrawal: %v", err)
			}
		}
		var left []string
		for st, err := range s.List(t.Context(), "") {
			if err != nil {
				return false
			}
			left = append(left, st.Name)
		}
		return slices.Equal(left, []string{"held"})
	})
	if err := s.Renew(t.Context(), []store.Hold{held})[0].Err; err != nil {
		t.Errorf("renewal of what was held before: %v", err)
	}
}

func TestOneCallersEndDisturbsNoOther(t *testing.T) {
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
		if i%2 == 1 && i > 2 { // not the two that are on their way
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
	until(t, "the others wait", func() bool { return s.queued() == len(errs)-maxExchanges })
	leave()
	left.Wait() // at once, though the server is frozen
	server.Thaw()
	all.Wait()
	for i, err := range errs {
		if i%2 == 1 && i > 2 {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("caller %d left: %v", i, err)
			}
			// What was still waiting to be sent has not been.
			if n := len(state(t, s, fmt.Sprint(i)).Entries); n > 0 {
				t.Errorf("caller %d left %d entries", i, n)
			}
		} else if err != nil {
			t.Errorf("caller %d stayed: %v", i, err)
		}
	}
}

// flying and queued count where there is one server.
func (s *Store) flying() int { s.one.mu.Lock(); defer s.one.mu.Unlock(); return s.one.flying }
func (s *Store) queued() int { s.one.mu.Lock(); defer s.one.mu.Unlock(); return len(s.one.waiting) }

// A counter is a hook that counts the exchanges of scripts.
type counter struct {
	mu                                 sync.Mutex
	now, most                          int // under way at a time
	exchanges, commands, inOneExchange int
}

func (c *counter) count(cmds []redis.Cmder) (leave func()) {
	if name := cmds[0].Name(); name != "evalsha" && name != "eval" { // the client greets the server
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

func TestCommandsOfManyCallersShareExchangesAndALoneOneGoesAtOnce(t *testing.T) {
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	warmUp(t, s)
	count := &counter{}
	client.AddHook(count)

	mustHold(t, s, mutex("alone"))
	if count.exchanges != 1 || count.inOneExchange != 1 {
		t.Errorf("a lone ask took %d exchanges of up to %d commands", count.exchanges, count.inOneExchange)
	}
	server.Freeze()
	const callers = 100
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if a, err := s.Ask(t.Context(), mutex(fmt.Sprint(i))); err != nil || !a.Granted {
				t.Errorf("caller %d: %+v %v", i, a, err)
			}
		})
	}
	until(t, "all have come", func() bool { return s.queued() == callers-maxExchanges })
	server.Thaw()
	wg.Wait()
	if count.most != maxExchanges {
		t.Errorf("%d exchanges were under way at a time, want %d", count.most, maxExchanges)
	}
	if exchanges := count.exchanges - 1; exchanges != maxExchanges+1 {
		t.Errorf("%d callers took %d exchanges, want %d", callers, exchanges, maxExchanges+1)
	}
	if count.commands != callers+1 {
		t.Errorf("%d commands for %d asks", count.commands, callers+1)
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
		t.Errorf("%d renewals took %d exchanges", len(holds), n)
	}
}

func TestAServerThatForgotTheScriptsIsTaughtThem(t *testing.T) {
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

func TestAMailboxIsOpenedAgainAfterABreakAndTellsThatHintsMayBeMissing(t *testing.T) {
	server := testserver.Redis(t)
	direct := clientOf(t, server.Addr)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr), nil)
	defer s.Close()
	hints := make(chan store.Hint, 100)
	if err := s.Watch(t.Context(), me, func(h store.Hint) { hints <- h }); err != nil {
		t.Fatal(err)
	}
	next := func() store.Hint {
		t.Helper()
		select {
		case h := <-hints:
			return h
		case <-time.After(patience):
			t.Fatalf("no hint within %v", patience)
			return store.Hint{}
		}
	}
	handOver := func(name string) {
		t.Helper()
		h, w := mustHold(t, s, mutex(name)), mutex(name)
		if a := mustAsk(t, s, w); a.Granted {
			t.Fatal("two hold it")
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if got := next(); got.Name != name || got.ID != w.ID || got.Token <= h.Token {
			t.Errorf("hint %+v, want one for %v of %q", got, w.ID, name)
		}
	}
	handOver("before")
	if n, err := direct.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int(); err != nil || n != 1 {
		t.Fatalf("CLIENT KILL: %d, %v", n, err)
	}
	if got := next(); got != (store.Hint{}) {
		t.Errorf("after the break came %+v, want the zero hint", got)
	}
	handOver("after")

	server.Kill()
	server.Restart()
	if got := next(); got != (store.Hint{}) {
		t.Errorf("after the restart came %+v, want the zero hint", got)
	}
	until(t, "the client has found the server again", func() bool {
		_, err := s.Look(t.Context(), mutex("x"))
		return err == nil
	})
	handOver("after a restart")
}

func TestASilentMailboxStaysOpenAndOneThatHangsIsOpenedAgain(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		server := testserver.Redis(t)
		p := newProxy(t, server.Addr)
		s := storeOn(t, clientOf(t, p.addr, func(o *redis.Options) { o.Protocol = protocol }), nil)
		defer s.Close()
		s.pingEvery = 100 * time.Millisecond
		hints := make(chan store.Hint, 100)
		if err := s.Watch(t.Context(), me, func(h store.Hint) { hints <- h }); err != nil {
			t.Fatal(err)
		}
		pings := func() (n int) {
			info, err := clientOf(t, server.Addr).Info(t.Context(), "commandstats").Result()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(info) {
				fmt.Sscanf(line, "cmdstat_ping:calls=%d,", &n)
			}
			return n
		}
		begun := pings()
		until(t, "the mailbox has been tried some times", func() bool { return pings() >= begun+3 })
		select {
		case h := <-hints:
			t.Errorf("protocol %d: in a silent mailbox arrived %+v", protocol, h)
		default:
		}
		opened := p.accepted.Load()
		server.Freeze()
		until(t, "the mailbox is given up for another", func() bool { return p.accepted.Load() > opened })
		server.Thaw()
		select {
		case h := <-hints:
			if h != (store.Hint{}) {
				t.Errorf("protocol %d: after the break came %+v, want the zero hint", protocol, h)
			}
		case <-time.After(patience):
			t.Errorf("protocol %d: no hint within %v", protocol, patience)
		}
	}
}
