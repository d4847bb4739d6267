package redisstore

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Of many waiters the request of the first one counts, whichever asked first. That holds for a string and for trees.
func TestOfManyRequestsToGiveUpTheFirstIsReturned(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.Redis(t).Addr)
	now := time.Now().UnixMicro()
	for _, sh := range []shape{{2, 1}, {3, 2}, usual} {
		s, err := newStore(client, apart(), func() int64 { return now }, sh) // no waiter expires
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h := mustHold(t, s, mutex("n"))
		heard := func(want string) {
			t.Helper()
			if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err != nil || r.GiveUp != want {
				t.Errorf("%v: got %+v, want %q", sh, r, want)
			}
		}
		var all []store.Claim
		for range 20 {
			all = append(all, mutex("n"))
			mustAsk(t, s, all[len(all)-1])
		}
		asks := func(i int, reason string) {
			t.Helper()
			all[i].GiveUp = reason
			mustAsk(t, s, all[i])
		}
		heard("")
		asks(13, "the third")
		heard("the third")
		asks(4, "the second")
		asks(2, "the first")
		asks(19, "the last")
		heard("the first")
		asks(2, "")
		heard("the second")
		if err := s.Release(t.Context(), store.Hold{Name: "n", ID: all[4].ID}); err != nil {
			t.Fatal(err)
		}
		heard("the third")
		stored(t, s, "n", sh)
	}
}

// A waiter, and a holder that upgrades, notify each holder once, though there are more holders than are read at a time.
func TestEachOfManyHoldersIsAsked(t *testing.T) {
	t.Parallel()
	for _, upgrades := range []bool{false, true} {
		open, _ := clockedOn(t, clientOf(t, testserver.Redis(t).Addr), nil) // the waiter does not expire
		s := open()
		s.pingEvery = longAnswer // all messages are for holders
		var mu sync.Mutex
		asked := map[store.ID]int{}
		if err := s.Watch(t.Context(), me, func(n store.Notification) {
			mu.Lock()
			defer mu.Unlock()
			asked[n.ID]++
		}); err != nil {
			t.Fatal(err)
		}
		u := mutex("n")
		u.Weight, u.TTL = store.Upgradeable, time.Hour
		up := mustHold(t, s, u)
		const readers = 1203
		holds, last := map[store.ID]bool{}, store.Hold{}
		for range readers {
			c := mutex("n")
			c.Weight, c.TTL = 1, time.Hour
			last = mustHold(t, s, c)
			holds[last.ID] = true
		}
		if upgrades {
			up.GiveUp = "a writer waits"
			if a, err := s.Change(t.Context(), up, 1, store.Full); err != nil || a.Granted {
				t.Fatal(a, err)
			}
		} else {
			holds[up.ID] = true
			w := mutex("n")
			w.GiveUp = "a writer waits"
			mustAsk(t, s, w)
		}
		until(t, "all holders are asked", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(asked) >= len(holds)
		})
		if r := s.Renew(t.Context(), []store.Hold{last, up}); r[0].GiveUp != "a writer waits" || (r[1].GiveUp == "") != upgrades {
			t.Errorf("got renewals %+v of a reader and of an upgrader: %v", r, upgrades)
		}
		mu.Lock()
		for id, n := range asked {
			if !holds[id] || n != 1 {
				t.Errorf("%v was notified %d times; a holder: %v", id, n, holds[id])
			}
		}
		mu.Unlock()
	}
}
