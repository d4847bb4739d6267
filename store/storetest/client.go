package storetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A client is one process: a store object of its own, and a mailbox.
type client struct {
	t *trial
	store.Store
	proc store.Process

	mu            sync.Mutex
	notifications []store.Notification       // except zero ones
	waits         map[store.ID]store.Instant // from when the position of a waiting claim counts
}

// client opens one more store object.
func (t *trial) client() *client {
	t.Helper()
	c := &client{t: t, Store: t.open(t.T), proc: store.NewProcess()}
	if l, ok := c.Store.(store.LossTeller); ok {
		l.TellLosses(func(id store.ID, why error) { t.Errorf("got a loss of %v that nothing caused: %v", id, why) })
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// watch begins to collect the notifications of the client's claims.
func (c *client) watch() *client {
	c.t.Helper()
	w, ok := c.Store.(store.Watcher)
	if !ok {
		c.t.Fatal("not a Watcher")
	}
	err := w.Watch(c.t.ctx, c.proc, func(h store.Notification) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if h != (store.Notification{}) {
			c.notifications = append(c.notifications, h)
		}
	})
	if err != nil {
		c.t.Fatalf("Watch: %v", err)
	}
	return c
}

// got returns the notifications that came for the id.
func (c *client) got(id store.ID) []store.Notification {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []store.Notification
	for _, h := range c.notifications {
		if h.ID == id {
			of = append(of, h)
		}
	}
	return of
}

// name is an unused name.
func (t *trial) name() string { return "storetest/" + random() }

func random() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// These change a claim from the default one.
func try(c *store.Claim) { c.Try = true }
func ttl(d time.Duration) func(*store.Claim) {
	return func(c *store.Claim) { c.TTL, c.PositionTTL = d, min(d, c.PositionTTL) }
}
func withPositionTTL(d time.Duration) func(*store.Claim) {
	return func(c *store.Claim) { c.PositionTTL = d }
}
func withMinHold(d time.Duration) func(*store.Claim) { return func(c *store.Claim) { c.MinHold = d } }
func withLockDelay(d time.Duration) func(*store.Claim) {
	return func(c *store.Claim) { c.LockDelay = d }
}
func announced(c *store.Claim)                 { c.Announce = true }
func owned(o store.Owner) func(c *store.Claim) { return func(c *store.Claim) { c.Owner = o.Stored() } }
func (c *client) lock(name string, with ...func(*store.Claim)) store.Claim {
	return c.slots(name, store.Full, store.Full, with...)
}

func (c *client) read(name string, with ...func(*store.Claim)) store.Claim {
	return c.slots(name, store.Full, 1, with...)
}

func (c *client) slots(name string, limit, weight int64, with ...func(*store.Claim)) store.Claim {
	claim := store.Claim{
		Name: name, ID: c.proc.NewID(), Limit: limit, Weight: weight,
		TTL: c.t.long, PositionTTL: cmp.Or(min(c.t.long, store.MaxPositionTTL), store.MaxPositionTTL),
		Owner: store.Owner{Host: "here", PID: 4711, Program: "storetest"}.Stored(),
	}
	for _, f := range with {
		f(&claim)
	}
	return claim
}

// askKept asks. If the position of a waiter may have lapsed because the machine was slow, it ends
// the trial as inconclusive.
func (c *client) askKept(claim store.Claim) (store.Answer, error) {
	c.mu.Lock()
	last, waits := c.waits[claim.ID]
	c.mu.Unlock()
	a, err := c.Ask(c.t.ctx, claim)
	if errors.Is(err, store.ErrLost) && waits && store.Now().Sub(last) > claim.PositionTTL {
		panic(tooSlow)
	}
	return a, err
}

// ask asks, and needs an answer. Where claims share a session, which must begin
// first, the ask can take longer than the claim lasts.
func (c *client) ask(claim store.Claim) store.Answer {
	c.t.Helper()
	before := store.Now()
	a, err := c.askKept(claim)
	if errors.Is(err, store.ErrLost) && store.Now().Sub(before) > claim.TTL/2 && c.t.lacks(store.PromiseExpiry) {
		panic(tooSlow)
	}
	if err != nil {
		c.t.Fatalf("ask: got %v, want an answer", err)
	}
	c.mu.Lock()
	delete(c.waits, claim.ID)
	if !a.Granted {
		if c.waits == nil {
			c.waits = map[store.ID]store.Instant{}
		}
		c.waits[claim.ID] = cmp.Or(a.From, before)
	}
	c.mu.Unlock()
	checkAnswer(c.t, claim, a)
	return a
}

// checkAnswer checks what holds for every answer.
func checkAnswer(t *trial, claim store.Claim, a store.Answer) {
	t.Helper()
	switch {
	case a.Granted && a.Token <= 0:
		t.Fatalf("granted with token %d, want a positive one", a.Token)
	case a.Granted && (a.N < 1 || a.N > claim.Tokens()):
		t.Fatalf("granted with a block of %d, want 1 to %d", a.N, claim.Tokens())
	case a.Granted && (a.Weight < claim.Weight || a.Want < a.Weight):
		t.Fatalf("granted with weight %d and wanted weight %d, want %d", a.Weight, a.Want, claim.Weight)
	case a.Granted && a.Last < a.Token+int64(a.N)-1:
		t.Fatalf("granted token %d, but %d is reported as the newest", a.Token, a.Last)
	case a.Granted && a.TTL < claim.TTL && a.From == 0:
		t.Fatalf("granted for %v, want at least the %v asked for", a.TTL, claim.TTL)
	case a.Granted && a.TTL >= claim.TTL+t.d.Tick && a.From == 0:
		t.Fatalf("granted for %v, want %v rounded up to a multiple of %v", a.TTL, claim.TTL, t.d.Tick)
	case !a.Granted && !claim.Try && a.From == 0 && t.lacks(store.PromiseExpiry) && !t.lacks(store.PromiseNotificationToken):
		// A grant that is notified with its token counts from then, not from the ask.
		t.Fatal("the answer to a waiter does not say from when its session keeps the position")
	case !a.Granted && a.Token != 0:
		t.Fatalf("refused, but with token %d", a.Token)
	case !a.Granted && a.Holding+a.Waiting == 0:
		t.Fatal("refused, but without a holder or waiter that blocks")
	case !a.Granted && !t.lacks(store.PromiseHolders) && len(a.Holders) != min(a.Holding, store.MaxHolders):
		t.Fatalf("refused: got %d of %d holders", len(a.Holders), a.Holding)
	case a.Until < 0:
		t.Fatalf("refused: got until %v", a.Until)
	}
}

// A held is a claim that was granted.
type held struct {
	c     *client
	claim store.Claim
	store.Hold
	n             int           // tokens drawn
	from          store.Instant // from when its time counts; 0: from before
	before, after time.Time     // just before the ask was sent, and when it was answered
}

// take asks for a claim that must be granted.
func (c *client) take(claim store.Claim) *held {
	c.t.Helper()
	before := time.Now()
	a := c.ask(claim)
	if !a.Granted {
		c.t.Fatalf("refused, want granted: %+v", a)
	}
	h := store.Hold{Name: claim.Name, ID: claim.ID, Token: a.Token, TTL: claim.TTL, Announce: claim.Announce}
	return &held{c: c, claim: claim, Hold: h, n: a.N, from: a.From, before: before, after: time.Now()}
}

// refused asks for a claim that must be refused.
func (c *client) refused(claim store.Claim) store.Answer {
	c.t.Helper()
	a := c.ask(claim)
	if a.Granted {
		c.t.Fatalf("granted, want refused")
	}
	return a
}

// lost asks for a claim that must be lost.
func (c *client) lost(claim store.Claim) {
	c.t.Helper()
	if a, err := c.Ask(c.t.ctx, claim); !errors.Is(err, store.ErrLost) {
		c.t.Fatalf("ask: got %+v, %v, want ErrLost", a, err)
	}
}

// push renews with a TTL, and returns the error.
func (h *held) push(d time.Duration) error {
	h.c.t.Helper()
	return h.renewal(d).Err
}

// renewal renews with a TTL, and returns the whole answer.
func (h *held) renewal(d time.Duration) store.Renewal {
	h.c.t.Helper()
	hold := h.Hold
	hold.TTL = d
	return h.c.renewal(hold)
}

func (c *client) renew(h store.Hold) error {
	c.t.Helper()
	return c.renewal(h).Err
}

func (c *client) renewal(h store.Hold) store.Renewal {
	c.t.Helper()
	out := c.Renew(c.t.ctx, []store.Hold{h})
	if len(out) != 1 {
		c.t.Fatalf("got %d renewals for one hold", len(out))
	}
	return out[0]
}

// renewed renews a hold that must not be lost.
func (h *held) renewed() {
	h.c.t.Helper()
	if err := h.push(h.claim.TTL); err != nil {
		h.c.t.Fatalf("renewal: got %v, want it held", err)
	}
}

// release releases a hold that must not be lost.
func (h *held) release() {
	h.c.t.Helper()
	if err := h.c.Release(h.c.t.ctx, h.Hold); err != nil {
		h.c.t.Fatalf("release: %v", err)
	}
}

// withdraw releases with token 0, which never fails.
func (c *client) withdraw(claim store.Claim) {
	c.t.Helper()
	if err := c.Release(c.t.ctx, store.Hold{Name: claim.Name, ID: claim.ID, Announce: claim.Announce}); err != nil {
		c.t.Fatalf("release with token 0: got %v, want nil", err)
	}
}

func (t *trial) isLost(err error, what string) {
	t.Helper()
	if !errors.Is(err, store.ErrLost) {
		t.Fatalf("%s: got %v, want ErrLost", what, err)
	}
}

// state returns what List shows of the name; ok is false if there are no
// entries, or the store cannot list.
func (t *trial) state(name string) (st store.State, ok bool) {
	t.Helper()
	if t.lacks(store.PromiseInspect) {
		return st, false
	}
	if t.eyes == nil {
		t.eyes = t.client()
	}
	in, is := t.eyes.Store.(store.Inspector)
	if !is {
		t.Fatalf("the store is no Inspector, but its Description does not say that it lacks %q", store.PromiseInspect)
	}
	return list(t, t.ctx, in, name)
}

// list returns what List yields for a name, or the first state if name is empty. It
// repeats the read while the store is unavailable: a busy machine may lose a
// connection.
func list(t testing.TB, ctx context.Context, in store.Inspector, name string) (st store.State, ok bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		st, ok, err := listed(t, ctx, in, name)
		switch {
		case err == nil:
			return st, ok
		case !errors.Is(err, store.ErrUnavailable) || time.Since(began) > patience:
			t.Fatalf("list: %v", err)
		}
	}
}

// listed is list without repeats.
func listed(t testing.TB, ctx context.Context, in store.Inspector, name string) (st store.State, ok bool, err error) {
	t.Helper()
	for s, err := range in.List(ctx, name) {
		if err != nil {
			return st, false, err
		}
		if name == "" {
			return s, true, nil
		}
		if s.Name != name || ok {
			t.Fatalf("the list of %q has %q", name, s.Name)
		}
		st, ok = s, true
	}
	return st, ok, nil
}

// entries checks that the name has exactly these entries, in order, not counting
// freed ones. A store that cannot list is not checked.
func (t *trial) entries(name string, want ...store.ID) {
	t.Helper()
	if t.lacks(store.PromiseInspect) {
		return
	}
	st, _ := t.state(name)
	var have []store.ID
	for _, e := range st.Entries {
		if !e.Freed {
			have = append(have, e.ID)
		}
	}
	if !slices.Equal(have, want) {
		t.Fatalf("got %d entries, want %d:\ngot %v\nwant %v", len(have), len(want), have, want)
	}
}

// entry returns what List shows of one entry. It needs PromiseInspect.
func (t *trial) entry(name string, id store.ID) (store.Entry, bool) {
	t.Helper()
	st, _ := t.state(name)
	for _, e := range st.Entries {
		if e.ID == id {
			return e, true
		}
	}
	return store.Entry{}, false
}

// expired waits until the entry of the claim has expired for its owner, without
// an operation that could drop it.
func (t *trial) expired(claim store.Claim) {
	t.Helper()
	if t.lacks(store.PromiseInspect) {
		d := max(claim.TTL, claim.PositionTTL)
		d += d/8 + 2*t.d.Tick + 50*time.Millisecond // the store's clock may be slightly slow
		time.Sleep(d)
		t.judge.waits(d)
		return
	}
	t.until("the entry has expired", func() bool {
		e, there := t.entry(claim.Name, claim.ID)
		return !there || e.Expires <= 0
	})
}

// empty checks that nothing is left of the name: nothing is listed, and a claim
// for all of it, with any limit, is granted at once.
func (t *trial) empty(name string) {
	t.Helper()
	t.entries(name)
	c := t.client()
	if !t.lacks(store.PromiseSlots) {
		c.take(c.slots(name, 7, 7, try)).release()
	}
	c.take(c.lock(name, try)).release()
}
