package main

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A sendHook notes when each script is about to be sent, and calls a function first.
type sendHook struct {
	redis.Hook
	first func(n int) // n scripts were sent before
	sent  []time.Time
}

func (h *sendHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *sendHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			h.first(len(h.sent))
			h.sent = append(h.sent, time.Now())
		}
		return next(ctx, cmd)
	}
}

func (h *sendHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The third request obtains the lock: the deadline counts from that one, neither from an earlier one nor from the answer.
func TestTheDeadlineOfRedislockCountsFromItsRequest(t *testing.T) {
	addr, name := testserver.Redis(t).Addr, "bench/deadline"
	other := redis.NewClient(&redis.Options{Addr: addr})
	defer other.Close()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	hook := &sendHook{first: func(n int) {
		if n == 2 {
			if err := other.Del(t.Context(), name).Err(); err != nil {
				t.Error(err)
			}
		}
	}}
	rdb.AddHook(hook)
	p := peerRedislock{rdb, redislock.New(rdb), time.Minute}
	defer p.Close()
	if err := other.Set(t.Context(), name, "another's", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	l, err := p.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(hook.sent); n < 3 {
		t.Fatalf("obtained with request %d of 3", n)
	}
	before, last := hook.sent[len(hook.sent)-2], hook.sent[len(hook.sent)-1]
	if from := l.Deadline().Add(-p.ttl); from.After(last) || !from.After(before) {
		t.Errorf("the deadline counts from %v after the request, and from %v after the one before", from.Sub(last), from.Sub(before))
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	own, err := p.client.Obtain(t.Context(), name, p.ttl, nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := p.refresh(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	before, last = hook.sent[len(hook.sent)-2], hook.sent[len(hook.sent)-1]
	if from := at.Add(-p.ttl); from.After(last) || !from.After(before) {
		t.Errorf("renewed, the deadline counts from %v after the request, and from %v after the one before", from.Sub(last), from.Sub(before))
	}
	if err := own.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
