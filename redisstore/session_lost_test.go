package redisstore

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// fault is what happens to the exchanges of a client.
type fault int

const (
	none   fault = iota
	unread       // the server runs it, and the answer is lost
	late         // the server runs it later, when the client has given up
)

// faults is a hook that injects faults.
type faults struct {
	now  fault
	of   []*promise // the promises that the commands are about
	left []leftover
}

// leftover is a command that will arrive late.
type leftover struct {
	args []any
	of   []*promise
}

func (f *faults) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.exchange([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (f *faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.exchange(cmds, func() error { return next(ctx, cmds) })
	}
}

func (f *faults) exchange(cmds []redis.Cmder, run func() error) error {
	switch f.now {
	case none:
		return run()
	case late:
		for _, cmd := range cmds {
			f.left = append(f.left, leftover{slices.Clone(cmd.Args()), f.of})
		}
	case unread:
		run()
	}
	for _, cmd := range cmds {
		cmd.SetErr(io.ErrUnexpectedEOF)
	}
	return io.ErrUnexpectedEOF
}

const positionTTL = 3 * time.Second

// promise is what a caller was promised about a hold, and what the server may have received. Instants are of the server's clock.
type promise struct {
	store.Hold
	until int64 // nobody else has the name before this
	most  int64 // what the server ran for it does not keep it longer
}

// promises are those of two Stores. The test checks the server against them.
type promises struct {
	t        *testing.T
	rng      *rand.Rand
	now      atomic.Int64
	client   *redis.Client // without faults
	eyes     *Store
	sides    []*Store
	faults   []*faults
	holds    [][]*promise           // those that each side knows
	all      map[store.ID]*promise  // all that ever existed
	snapshot map[string]remembrance // the state with which a server may return
	forgot   bool                   // the server has lost writes
	kept     int
}

type remembrance struct {
	value string
	ttl   time.Duration
}

func newPromises(t *testing.T) *promises {
	c := &promises{t: t, rng: seeded(t), all: map[store.ID]*promise{}}
	c.now.Store(time.Now().UnixMicro())
	addr := testserver.Redis(t).Addr
	open := func(f *faults) *Store {
		client := clientOf(t, addr)
		if f != nil {
			client.AddHook(f)
		}
		s, err := newStore(client, nil, c.now.Load, usual)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		s.sessions.fewest = 3
		s.sessions.now = func() store.Instant { return store.Instant(1000 * c.now.Load()) }
		return s
	}
	c.client, c.eyes = clientOf(t, addr), open(nil)
	for range 2 {
		f := &faults{}
		c.faults, c.holds, c.sides = append(c.faults, f), append(c.holds, nil), append(c.sides, open(f))
	}
	return c
}

func (c *promises) drop(side int, p *promise) {
	p.until = 0
	c.holds[side] = slices.DeleteFunc(c.holds[side], func(o *promise) bool { return o == p })
}

func (c *promises) ask(side int, name string) {
	claim := mutex(name)
	claim.TTL, claim.PositionTTL, claim.Try = 5*time.Second, positionTTL, c.rng.IntN(10) > 0
	p := &promise{Hold: store.Hold{Name: name, ID: claim.ID, TTL: claim.TTL}}
	if own := c.holds[side]; len(own) > 0 && c.rng.IntN(4) == 0 { // it asks again for what it has
		p = own[c.rng.IntN(len(own))]
		claim.Name, claim.ID = p.Name, p.ID
	}
	c.all[p.ID] = p
	p.most = max(p.most, c.now.Load()+max(claim.TTL, positionTTL).Microseconds())
	c.faults[side].of = []*promise{p}
	a, err := c.sides[side].Ask(c.t.Context(), claim)
	switch {
	case err == nil && a.Granted:
		if p.Token == 0 {
			c.holds[side] = append(c.holds[side], p)
		}
		p.Token, p.until = a.Token, max(p.until, c.now.Load()+claim.TTL.Microseconds())
	case errors.Is(err, store.ErrLost):
		c.lost(side, p)
	}
}

func (c *promises) lost(side int, p *promise) {
	if p.until > c.now.Load() {
		c.t.Errorf("%q was lost %v before its expiry", p.Name, duration(p.until-c.now.Load()))
	}
	c.drop(side, p)
}

func (c *promises) renew(side int, all bool) {
	var some []*promise
	var holds []store.Hold
	for _, p := range c.holds[side] {
		if all || c.rng.IntN(3) > 0 {
			some, holds = append(some, p), append(holds, p.Hold)
			p.most = max(p.most, c.now.Load()+p.TTL.Microseconds())
		}
	}
	c.faults[side].of = some
	for i, r := range c.sides[side].Renew(c.t.Context(), holds) {
		switch p := some[i]; {
		case r.Err == nil:
			p.until = max(p.until, c.now.Load()+p.TTL.Microseconds())
		case errors.Is(r.Err, store.ErrLost):
			c.lost(side, p)
		}
	}
}

func (c *promises) release(side int) {
	some := slices.Clone(c.holds[side])
	c.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:min(len(some), 1+c.rng.IntN(3))]
	var holds []store.Hold
	for _, p := range some {
		c.drop(side, p)
		holds = append(holds, p.Hold)
	}
	c.faults[side].of = nil
	if len(holds) == 1 {
		c.sides[side].Release(c.t.Context(), holds[0])
	} else {
		c.sides[side].ReleaseAll(c.t.Context(), holds)
	}
}

// arrives runs the commands that were sent earlier. Each may keep its holds for as long as if it were sent now.
func (c *promises) arrives(f *faults) {
	for _, l := range f.left {
		args := l.args
		args[len(args)-1] = strconv.FormatInt(c.now.Load(), 10)
		if err := c.client.Do(c.t.Context(), args...).Err(); err != nil && !strings.HasPrefix(err.Error(), "NOSCRIPT") { // the script did not run
			c.t.Fatalf("%.100q: %v", args, err)
		}
		for _, p := range l.of {
			p.most = max(p.most, c.now.Load()+max(p.TTL, positionTTL).Microseconds())
		}
	}
	if f.left != nil && c.forgot { // a command for a session may keep what the session kept before
		c.mayLast(1)
	}
	f.left = nil
}

// mayLast allows the server to keep what nobody has for so many TTLs from now on.
func (c *promises) mayLast(ttls int64) {
	for _, p := range c.all {
		p.most = max(p.most, c.now.Load()+ttls*p.TTL.Microseconds())
	}
}

// remember and forget simulate a server that continues with an older state, after a fail-over or a restart.
func (c *promises) remember() {
	keys, err := c.client.Keys(c.t.Context(), "*").Result()
	if err != nil {
		c.t.Fatal(err)
	}
	c.snapshot = map[string]remembrance{}
	for _, key := range keys {
		c.snapshot[key] = remembrance{c.client.Get(c.t.Context(), key).Val(), c.client.PTTL(c.t.Context(), key).Val()}
	}
}

func (c *promises) forget() {
	if err := c.client.FlushDB(c.t.Context()).Err(); err != nil {
		c.t.Fatal(err)
	}
	for key, was := range c.snapshot {
		if err := c.client.Set(c.t.Context(), key, was.value, was.ttl).Err(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.fell()
}

// forgetSome simulates a server that has lost some keys, and the last write of others. Each key is lost separately, so a session can exist
// without a name that it keeps, or a name without its session.
func (c *promises) forgetSome() {
	old := c.snapshot
	c.remember()
	present := c.snapshot
	c.snapshot = map[string]remembrance{}
	for _, all := range []map[string]remembrance{old, present} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if c.rng.IntN(3) > 0 { // otherwise its value is that of the other state, or it is missing
				c.snapshot[key] = all[key]
			}
		}
	}
	c.forget()
	c.snapshot = nil
}

// fell withdraws what was promised before the server lost writes.
func (c *promises) fell() {
	c.forgot = true
	c.mayLast(leftFor + 1) // what was released, and has returned
	for _, p := range c.all {
		p.until = 0
	}
	for range 8 { // other callers are quick
		c.ask(c.rng.IntN(len(c.sides)), strconv.Itoa(c.rng.IntN(randomNames)))
	}
}

// releasedInVain makes the server lose some releases, and then lets the sessions go on undisturbed.
func (c *promises) releasedInVain() {
	for side := range c.sides {
		c.renew(side, true)
	}
	c.remember()
	for side := range c.sides {
		c.release(side)
	}
	c.forget()
	for range 10 {
		c.now.Add(2_000_000)
		for side := range c.sides {
			c.renew(side, true)
		}
		c.check()
	}
}

// check compares what is stored with what was promised.
func (c *promises) check() {
	c.t.Helper()
	now := c.now.Load()
	found := map[store.ID]int64{}
	for st, err := range c.eyes.List(c.t.Context(), "") {
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range st.Entries {
			found[e.ID] = now + e.Expires.Microseconds()
			if p := c.all[e.ID]; found[e.ID] > p.most {
				c.t.Errorf("%q is kept for %v longer than requested", st.Name, duration(found[e.ID]-p.most))
			}
		}
	}
	for id, p := range c.all {
		if p.until > now && found[id] < p.until {
			c.t.Errorf("%q must be held for %v more, but another claim can be granted after %v", p.Name, duration(p.until-now), duration(found[id]-now))
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *promises) step(forgets bool) {
	side := c.rng.IntN(len(c.sides))
	f := c.faults[side]
	f.now = []fault{none, none, none, none, none, unread, late}[c.rng.IntN(7)]
	name := strconv.Itoa(c.rng.IntN(randomNames))
	switch n := c.rng.IntN(100); {
	case n < 35:
		c.ask(side, name)
	case n < 65:
		c.renew(side, c.rng.IntN(4) > 0)
	case n < 75:
		c.release(side)
	case n < 80:
		c.arrives(f)
	case n < 82:
		c.now.Add(5_000_000)
	case n < 84 && forgets:
		c.remember()
	case n < 86 && forgets && c.snapshot != nil:
		c.forget()
	case n < 87 && forgets:
		f.now = none
		c.releasedInVain()
	case n < 88 && forgets && c.snapshot != nil:
		c.forgetSome()
	default:
		c.now.Add(c.rng.Int64N(1_500_000))
	}
	f.now = none
}

// Whichever answer is lost, and whichever command arrives late: a hold lasts as long as its answer promised, and nothing lasts longer than a
// caller asked for.
func TestLostAndLateMessagesBreakNoPromiseOfASession(t *testing.T) {
	t.Parallel()
	c := newPromises(t)
	c.run(false)
}

// A server that continues with an older state has lost the newer promises. It keeps what it promises from then on, no two processes hold one
// name, and what nobody has is free after three TTLs.
func TestAServerThatForgotKeepsWhatItPromisesFromThenOn(t *testing.T) {
	t.Parallel()
	c := newPromises(t)
	c.run(true)
}

func (c *promises) run(forgets bool) {
	c.t.Helper()
	steps := stepsOr(4000)
	for n := range steps {
		c.step(forgets)
		c.check()
		if n%10 == 0 {
			for i := range randomNames {
				if kept(c.t, c.eyes, strconv.Itoa(i)) {
					c.kept++
				}
			}
		}
	}
	c.t.Log(c.kept, "holds were found in sessions")
	if c.kept < steps/20 {
		c.t.Error("too few holds were in sessions: the test shows nothing")
	}
}
