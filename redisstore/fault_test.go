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

// warmUp opens the connections for single commands and for pipelines, and loads the scripts into the server: then an operation is one
// exchange.
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

// runs returns how many scripts the server has run.
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
	t.Parallel()
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
			t.Errorf("%s: %v, want indeterminate", what, err)
		}
		if n := runs(t, direct) - before; n != 1 {
			t.Errorf("%s ran %d times, want once", what, n)
		}
	}
	for _, try := range []bool{false, true} {
		c := mutex(fmt.Sprintf("try %v", try))
		c.Try = try
		lose("ask", func() error { _, err := s.Ask(t.Context(), c); return err })
		h := mustHold(t, s, c) // this process has had it all the time
		lose("renew", func() error { return s.Renew(t.Context(), []store.Hold{h})[0].Err })
		if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Errorf("the repeated renewal: %v", err)
		}
		if n := len(state(t, s, c.Name).Entries); n != 1 {
			t.Errorf("got %d entries of one claim, want 1", n)
		}
		lose("release", func() error { return s.Release(t.Context(), h) })
		if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
			t.Errorf("the repeated release: %v, want ErrLost, as the hold is gone", err)
		}
		lose("release without a token", func() error {
			return s.Release(t.Context(), store.Hold{Name: h.Name, ID: h.ID})
		})
		if err := s.Release(t.Context(), store.Hold{Name: h.Name, ID: h.ID}); err != nil {
			t.Errorf("the repeated release without a token: %v", err)
		}
	}
}

func TestWhenTheAnswersOfAPipelineAreLostEveryRepeatIsRight(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	direct := clientOf(t, server.Addr)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr), nil)
	defer s.Close()
	s.hasSessions = false // each renewal is a script of its own
	var holds []store.Hold
	for i := range 50 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(i))))
	}
	warmUp(t, s)
	before := runs(t, direct)
	p.dropAnswers(1)
	for i, r := range s.Renew(t.Context(), holds) {
		if !errors.Is(r.Err, store.ErrUnavailable) {
			t.Errorf("renewal %d: %v, want indeterminate", i, r.Err)
		}
	}
	if n := runs(t, direct) - before; n != len(holds) {
		t.Errorf("got %d renewals run, want %d", n, len(holds))
	}
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Errorf("repeated renewal %d: %v", i, r.Err)
		}
	}
}

func TestAFrozenServerDelaysNoCallBeyondItsContext(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := storeOn(t, clientOf(t, server.Addr, hasty), nil)
	defer s.Close()
	calm := storeOn(t, clientOf(t, server.Addr), nil)
	defer calm.Close()
	held := mustHold(t, calm, mutex("held"))

	server.Freeze()
	claims := make([]store.Claim, 200)
	granted, indeterminate := make([]bool, len(claims)), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range claims {
		claims[i] = mutex(fmt.Sprint("name ", i%100)) // two claims for each name
		wg.Go(func() {
			ctx, cancel := t.Context(), func() {}
			if i%4 == 0 { // these callers leave, and that must affect no other
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
				indeterminate++
			}
		})
	}
	wg.Wait() // though nothing has been answered
	if indeterminate != len(claims) {
		t.Errorf("got %d of %d asks of a frozen server indeterminate, want all", indeterminate, len(claims))
	}
	server.Thaw()

	// Some asks arrive late. All of them can be released by their ids.
	until(t, "only the earlier hold is left", func() bool {
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
	if err := calm.Renew(t.Context(), []store.Hold{held})[0].Err; err != nil {
		t.Errorf("renewal of the earlier hold: %v", err)
	}
}
