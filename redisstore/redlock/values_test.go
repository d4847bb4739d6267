package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

type traceKey struct{}

// tracer is a hook that records the trace in the context of each exchange of scripts, and the traces linked to it.
type tracer struct {
	mu    sync.Mutex
	trace []string
}

func (c *tracer) note(ctx context.Context, cmds []redis.Cmder) {
	if cmds[0].Name() != "evalsha" {
		return
	}
	all := fmt.Sprint(ctx.Value(traceKey{}))
	for _, claim := range store.Claims(ctx) {
		all += fmt.Sprint(" ", claim.Value(traceKey{}))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = append(c.trace, all)
}

func (c *tracer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tracer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.note(ctx, []redis.Cmder{cmd})
		return next(ctx, cmd)
	}
}

func (c *tracer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.note(ctx, cmds)
		return next(ctx, cmds)
	}
}

// The hooks of the options see all requests. A request to a node has the values of the claim, though it uses a context of the node. A renewal
// names its claims once, however many they are.
func TestRequestsToEachNodeAreLinkedToTheirCaller(t *testing.T) {
	t.Parallel()
	clients := clientsOf(t, testserver.SharedRedises(t, 3)...)
	hook := &tracer{}
	o := apart()
	o.Hooks = []redis.Hook{hook}
	s := trusting(t, clients, o)
	defer s.Close()
	traces := func(want string) {
		t.Helper()
		idle(t, s)
		hook.mu.Lock()
		defer hook.mu.Unlock()
		if hook.trace = slices.Compact(hook.trace); !slices.Equal(hook.trace, []string{want}) {
			t.Errorf("got traces %q, want %q", hook.trace, want)
		}
		hook.trace = nil
	}
	of := func(trace string) context.Context { return context.WithValue(t.Context(), traceKey{}, trace) }
	// Each node has a newest token of the names, and the next number is above that however late it arrives. Otherwise a missing vote would be
	// given with the renewal, and linked to nobody.
	for _, name := range []string{"a", "b"} {
		if err := s.Release(t.Context(), holdOnAll(t, s, mutex(name))); err != nil {
			t.Fatal(err)
		}
		idle(t, s)
	}
	hook.mu.Lock()
	hook.trace = nil
	hook.mu.Unlock()
	var holds []store.Hold
	for _, name := range []string{"a", "b"} {
		c := mutex(name)
		a, err := s.Ask(of("trace "+name), c)
		if err != nil || !a.Granted {
			t.Fatal(a, err)
		}
		traces("trace " + name)
		holds = append(holds, store.Hold{Name: name, ID: c.ID, Token: a.Token, TTL: c.TTL})
	}
	claims := func() []context.Context { return []context.Context{of("trace a"), of("trace b")} }
	for _, r := range s.Renew(store.ForClaims(t.Context(), claims), holds[:1]) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	traces("<nil> trace a trace b")
	if err := s.Release(of("trace a"), holds[0]); err != nil {
		t.Fatal(err)
	}
	traces("trace a")
}
