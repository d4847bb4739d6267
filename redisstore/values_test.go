package redisstore

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

func traced(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// tracer is a hook that records the trace in the context of each exchange of scripts, and the traces linked to it.
type tracer struct {
	counter
	mu    sync.Mutex
	trace []string
}

func (c *tracer) note(ctx context.Context, cmds []redis.Cmder) {
	if name := cmds[0].Name(); name != "evalsha" && name != "eval" {
		return
	}
	all := []string{fmt.Sprint(ctx.Value(traceKey{}))}
	for _, claim := range store.Claims(ctx) {
		all = append(all, fmt.Sprint(claim.Value(traceKey{})))
	}
	slices.Sort(all[1:])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = append(c.trace, fmt.Sprint(all))
}

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

// The driver sees the values of a caller that had to queue just as those of one that did not. Exchanges that are sent together are linked to
// each caller.
func TestPipelinedRequestsAreLinkedToTheirCallers(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	warmUp(t, s)
	hook := &tracer{}
	client.AddHook(hook)
	traces := func(callers int) []string {
		t.Helper()
		hook.trace = nil
		server.Freeze()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if a, err := s.Ask(traced(t.Context(), fmt.Sprint("trace ", i)), mutex(fmt.Sprint(callers, i))); err != nil || !a.Granted {
					t.Errorf("caller %d: got %+v %v", i, a, err)
				}
			})
			until(t, "the caller waits", func() bool { return s.flying()+s.queued() == i+1 })
		}
		server.Thaw()
		wg.Wait()
		slices.Sort(hook.trace)
		return hook.trace
	}
	if got, want := traces(3), []string{"[trace 0]", "[trace 1]", "[trace 2]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := traces(5), []string{"[<nil> trace 2 trace 3 trace 4]", "[trace 0]", "[trace 1]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
