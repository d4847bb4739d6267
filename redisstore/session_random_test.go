package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// seeded returns a random source. Its seed is logged and can be set.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("HOLDFAST_TEST_SEED"), 10, 64)
	if err != nil {
		seed = uint64(rand.Uint32())
	}
	t.Logf("HOLDFAST_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// stepsOr returns the number of random steps: HOLDFAST_TEST_STEPS, or n.
func stepsOr(n int) int {
	if steps, err := strconv.Atoi(os.Getenv("HOLDFAST_TEST_STEPS")); err == nil {
		return steps
	}
	return n
}

// twin is two prefixes of one server on which the same operations run: by Stores with sessions of a few holds each, and by one without
// sessions.
type twin struct {
	t         *testing.T
	rng       *rand.Rand
	now       atomic.Int64
	with      *Store
	other     *Store // on the same prefix, for another process
	without   *Store
	open      func() *Store // opens another one with sessions
	holds     []store.Hold  // those that their owner knows
	claims    []store.Claim // of those holds, and of waiters
	kept, did int
}

const randomNames = 40

func newTwin(t *testing.T, rng *rand.Rand) *twin {
	t.Helper()
	w := &twin{t: t, rng: rng}
	client := clientOf(t, testserver.Redis(t).Addr)
	w.now.Store(time.Now().UnixMicro())
	on := func(prefix string) *Store {
		s, err := newStore(client, &Options{Prefix: prefix}, w.now.Load, usual)
		if err != nil {
			t.Fatal(err)
		}
		s.sessions.fewest = 3
		t.Cleanup(func() { s.Close() })
		return s
	}
	w.open = func() *Store { return on("with:") }
	w.with, w.other, w.without = on("with:"), on("with:"), on("without:")
	w.without.hasSessions = false
	return w
}

// both does the same on both sides, and compares the outcomes.
func (w *twin) both(what string, do func(*Store) any) any {
	w.t.Helper()
	return w.differ(what, do(w.with), do(w.without))
}

func (w *twin) differ(what string, with, without any) any {
	w.t.Helper()
	if !reflect.DeepEqual(with, without) {
		w.t.Fatalf("step %d, %s:\n%+v\nand without sessions\n%+v", w.did, what, with, without)
	}
	return with
}

// text returns an error in a form that can be compared.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// compare compares what both sides store of all names.
func (w *twin) compare() {
	w.t.Helper()
	all := func(s *Store) (all []store.State) {
		var keys []string
		for i := range randomNames {
			keys = append(keys, s.key(strconv.Itoa(i)))
		}
		s.states(w.t.Context(), keys, func(st store.State, err error) bool {
			if err != nil {
				w.t.Fatal(err)
			}
			all = append(all, st)
			return true
		})
		return all
	}
	w.both("what is stored", func(s *Store) any { return all(s) })
	if w.did%10 == 0 {
		for i := range randomNames {
			if kept(w.t, w.with, strconv.Itoa(i)) {
				w.kept++
			}
		}
	}
}

// some returns a random part of the holds, or all of them.
func (w *twin) some() (some []store.Hold) {
	if w.rng.IntN(4) > 0 {
		return slices.Clone(w.holds)
	}
	for _, h := range w.holds {
		if w.rng.IntN(3) > 0 {
			some = append(some, h)
		}
	}
	return some
}

func (w *twin) forget(id store.ID) {
	w.holds = slices.DeleteFunc(w.holds, func(h store.Hold) bool { return h.ID == id })
	w.claims = slices.DeleteFunc(w.claims, func(c store.Claim) bool { return c.ID == id })
}

func (w *twin) pick(of ...time.Duration) time.Duration { return of[w.rng.IntN(len(of))] }

func (w *twin) ask(c store.Claim) {
	type outcome struct {
		a   store.Answer
		err string
	}
	got := w.both("ask", func(s *Store) any {
		a, err := s.Ask(w.t.Context(), c)
		return outcome{a, text(err)}
	}).(outcome)
	if got.err != "" {
		w.forget(c.ID)
		return
	}
	h := store.Hold{Name: c.Name, ID: c.ID, Token: got.a.Token, TTL: c.TTL, Owner: c.Owner}
	if got.a.Granted && !slices.ContainsFunc(w.holds, func(h store.Hold) bool { return h.ID == c.ID }) {
		w.holds = append(w.holds, h)
	}
}

// renew renews some holds on both sides, by a Store with sessions. It forgets those that are lost.
func (w *twin) renew(s *Store, some []store.Hold) {
	got := func(s *Store) (all []any) {
		for _, r := range s.Renew(w.t.Context(), some) {
			e := text(r.Err)
			r.Err = nil
			all = append(all, r, e)
		}
		return all
	}
	w.differ("renew", got(s), got(w.without))
	for i, r := range w.without.Renew(w.t.Context(), some) { // again, which changes nothing at the same instant
		if errors.Is(r.Err, store.ErrLost) {
			w.forget(some[i].ID)
		}
	}
}

func (w *twin) step() {
	ctx, rng := w.t.Context(), w.rng
	name := strconv.Itoa(rng.IntN(randomNames))
	var h *store.Hold
	if len(w.holds) > 0 {
		h = &w.holds[rng.IntN(len(w.holds))]
	}
	switch n := rng.IntN(100); {
	case n < 25:
		c := mutex(name)
		c.TTL, c.LockDelay, c.MinHold = w.pick(5*time.Second, 5*time.Second, 10*time.Second), w.pick(0, 0, 3*time.Second), w.pick(0, 0, 2*time.Second)
		if len(name) == 1 && w.rng.IntN(10) == 0 {
			c.LockDelay = 3 * time.Hour
		}
		c.Weight, c.Try = []int64{c.Limit, c.Limit, c.Limit, 1, store.Upgradeable}[rng.IntN(5)], rng.IntN(8) > 0
		w.claims = append(w.claims, c)
		w.ask(c)
	case n < 35 && len(w.claims) > 0:
		w.ask(w.claims[rng.IntN(len(w.claims))])
	case n < 56:
		w.renew(w.with, w.some())
	case n < 60: // no hold has that id
		some := w.some()
		if len(some) == 0 {
			break
		}
		if one := &some[rng.IntN(len(some))]; rng.IntN(2) == 0 {
			one.Token++
		} else {
			one.Name += " of another"
		}
		got := func(s *Store) (all []any) {
			for _, r := range s.Renew(ctx, some) {
				all = append(all, r.TTL, text(r.Err))
			}
			return all
		}
		w.differ("renew what is no hold", got(w.with), got(w.without))
	case n < 63: // by another process that knows them
		w.renew(w.other, w.some())
	case h == nil:
	case n < 66: // an ask for what it already has
		some := w.some()
		for i := range some {
			some[i].TTL = w.pick(some[i].TTL, time.Second, longestTogether+time.Second)
		}
		w.renew(w.with, some)
	case n < 69:
		h.NewID = me.NewID()
		w.renew(w.with, w.some())
		for i := range w.holds {
			if o := &w.holds[i]; o.NewID != (store.ID{}) {
				if st := state(w.t, w.without, o.Name); slices.ContainsFunc(st.Entries, func(e store.Entry) bool { return e.ID == o.NewID }) {
					o.ID = o.NewID
				}
				o.NewID = store.ID{}
			}
		}
	case n < 75:
		some := w.some()
		some = some[:min(len(some), 1+rng.IntN(4))]
		w.both("release all", func(s *Store) any {
			var all []string
			for _, err := range s.ReleaseAll(ctx, some) {
				all = append(all, text(err))
			}
			return all
		})
		for _, h := range some {
			w.forget(h.ID)
		}
	case n < 78:
		one := *h
		w.both("release", func(s *Store) any { return text(s.Release(ctx, one)) })
		w.forget(one.ID)
	case n < 80:
		w.both("withdraw", func(s *Store) any { return text(s.Release(ctx, store.Hold{Name: h.Name, ID: h.ID})) })
		w.forget(h.ID)
	case n < 82:
		b := store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Now: n == 80, Reason: "because"}
		w.both("break", func(s *Store) any { return text(s.BreakHold(ctx, b)) })
	case n < 85:
		turn, weight := int32(1+rng.IntN(3)), []int64{store.Full, store.Upgradeable}[rng.IntN(2)]
		one := *h
		w.both("change", func(s *Store) any {
			a, err := s.Change(ctx, one, turn, weight)
			return []any{a, text(err)}
		})
	case n < 87: // its owner gives up what it has, and cannot send the release
		gone, leave := context.WithCancel(ctx)
		leave()
		if err := w.with.Release(gone, *h); !errors.Is(err, context.Canceled) {
			w.t.Fatal(err)
		}
		w.forget(h.ID)
	case n < 88: // a renewal that was not sent
		gone, leave := context.WithCancel(ctx)
		leave()
		w.with.Renew(gone, w.some())
	case n < 89:
		w.with = w.open()
	case n < 90:
		if err := w.with.client.ScriptFlush(ctx).Err(); err != nil {
			w.t.Fatal(err)
		}
	case n < 91:
		w.now.Add(-w.pick(time.Millisecond, time.Second).Microseconds())
	case n < 92:
		w.now.Add(w.pick(5*time.Second-time.Microsecond, 10*time.Second, 30*time.Second, sessionLife).Microseconds())
	default:
		w.now.Add(rng.Int64N(2_000_000))
	}
}

// At each instant, and in all answers, what a session keeps is as if each hold had been renewed by itself.
func TestASessionEqualsRenewalsOfEachHold(t *testing.T) {
	t.Parallel()
	w := newTwin(t, seeded(t))
	steps := stepsOr(4000)
	for w.did = range steps {
		w.step()
		w.compare()
	}
	if w.kept < steps/20 {
		t.Errorf("a session kept a hold %d times: too few", w.kept)
	}
	t.Log(fmt.Sprint(w.kept, " holds were found in sessions"))
}
