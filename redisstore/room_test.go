package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// The scripts look for the next waiter only if something came free since the last time. Random runs seldom free anything other than by the end
// of an entry.
func TestSlotsFreedWithoutAnEndAreGranted(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.Redis(t).Addr)
	now := time.Now().UnixMicro()
	for _, sh := range []shape{{2, 1}, usual} {
		o := apart()
		s, err := newStore(client, o, func() int64 { return now }, sh)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		change := func(h store.Hold, turn int32, weight int64, granted bool) {
			t.Helper()
			if a, err := s.Change(t.Context(), h, turn, weight); err != nil || a.Granted != granted {
				t.Fatalf("change to %d: got %+v, %v", weight, a, err)
			}
		}
		claim := func(name string, weight int64) store.Claim {
			c := mutex(fmt.Sprint(name, sh))
			c.Weight = weight
			return c
		}
		// begin returns an upgradeable hold, with a pending upgrade if a reader is beside it, and a reader that waits.
		begin := func(name string, beside bool) (u store.Hold, waits store.Claim) {
			t.Helper()
			c := claim(name, store.Upgradeable)
			c.TTL, c.LockDelay = 5*time.Second, time.Minute
			u = mustHold(t, s, c)
			if beside {
				mustHold(t, s, claim(name, 1))
			}
			change(u, 1, store.Full, !beside)
			waits = claim(name, 1)
			if a := mustAsk(t, s, waits); a.Granted {
				t.Fatalf("%s: granted beside a writer: %+v", name, a)
			}
			return u, waits
		}
		granted := func(what string, c store.Claim) {
			t.Helper()
			if a := mustAsk(t, s, c); !a.Granted || a.Token == 0 {
				t.Errorf("%v: %s: the waiter got %+v", sh, what, a)
			}
		}

		u, waits := begin("downgrade", false)
		change(u, 2, store.Upgradeable, true)
		granted("a downgrade", waits)

		u, waits = begin("cancel", true)
		change(u, 2, store.Upgradeable, true)
		granted("a canceled upgrade", waits)

		u, waits = begin("break", true)
		if err := s.BreakHold(t.Context(), store.Break{Name: u.Name, ID: u.ID, Token: u.Token}); err != nil {
			t.Fatal(err)
		}
		granted("a broken pending upgrade", waits)

		_, waits = begin("outlived", true)
		now += 6_000_000 // it has expired, and blocks for its lock delay
		granted("a pending upgrade of an expired hold", waits)

		short := mutex(fmt.Sprint("poll", sh))
		short.TTL, short.PositionTTL = time.Second, time.Second
		h, waits := mustHold(t, s, short), mutex(short.Name)
		mustAsk(t, s, waits)
		now += 2_000_000
		for range 2 { // a poll writes nothing, so the second one returns the same
			a, err := s.Poll(t.Context(), waits)
			if err != nil || !a.Granted || a.Token != 0 || a.N != 0 || a.Last != h.Token {
				t.Errorf("%v: a poll reports the coming grant: %+v, %v", sh, a, err)
			}
		}
		granted("an expired hold", waits)
	}
}
