package pgstore

import (
	"cmp"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/crowdtest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// worker acquires one name again and again until its standard input ends, and prints its stays. The processes alternate between the ways to
// acquire it.
func worker(url string) error {
	s, err := Open(url, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := crowdtest.UntilEnded()
	if os.Getpid()%2 == 0 {
		return crowdtest.ByLocker(ctx, s, crowdTTL) // as users do it, woken by notifications
	}
	return byClaims(ctx, s)
}

// crowdTTL is short, but long enough that a busy machine serves some claim before all of them expire.
const crowdTTL = 5 * minTTL

// never is the validity check of a claim that only its deadline ends.
func never() bool { return false }

// byClaims acquires the name as nobody should: it polls, renews late, and lets one hold of eleven expire, as if it had crashed.
func byClaims(ctx context.Context, s *Store) error {
	for n := 0; ctx.Err() == nil; n++ {
		c := mutex(crowdtest.Name)
		c.TTL, c.PositionTTL = crowdTTL, crowdTTL
		h := store.Hold{Name: c.Name, TTL: c.TTL}
		var ends store.Instant // as the engine counts: from before the ask, or from when its session was renewed
		for h.Token == 0 {
			sent := store.Now()
			a, err := s.Ask(ctx, c)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, store.ErrLost):
				c.ID = me.NewID() // the queue position expired
			case errors.Is(err, store.ErrUnavailable): // as on a busy machine: repeat the same ask
			case err != nil:
				return err
			case a.Granted:
				h.ID, h.Token, ends = c.ID, a.Token, cmp.Or(a.From, sent).Add(a.TTL)
			default:
				time.Sleep(min(a.Until, 5*time.Millisecond))
			}
		}
		begin := clock.Boot()
		for range n % 3 {
			time.Sleep(time.Duration(n%7) * time.Millisecond)
			sent := store.Now()
			if r := s.Renew(ctx, []store.Hold{h})[0]; r.Err == nil && store.Now() < ends {
				ends = max(ends, cmp.Or(r.From, sent).Add(r.TTL))
			}
		}
		if crowdtest.Stayed(h.Token, begin, time.Now().Add(ends.Sub(store.Now())), never) && n%11 == 10 {
			continue
		}
		s.Release(context.WithoutCancel(ctx), h)
	}
	return nil
}

// Ten processes want one name, with a short TTL. Some of them are killed on the way, and others start. HOLDFAST_TEST_CROWD_FOR sets how long
// it runs.
func TestNeverTwoOfManyProcessesHoldANameAndTokensGrow(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "max_connections=200")
	s := tableOn(t, poolOn(t, server.Addr), nil)
	defer s.Close()
	mustHold(t, s, mutex("the table exists"))
	c := crowdtest.New(t, testserver.PostgresURL(server.Addr))
	var ends []func(kill bool)
	for range 10 {
		ends = append(ends, c.Begin())
	}
	c.Had(10, 0.5)
	for i := range ends[:3] {
		ends[i](true)
		ends[i] = c.Begin()
	}
	c.Had(20, 1)
	for _, end := range ends {
		end(false)
	}
	c.Judge()
}
