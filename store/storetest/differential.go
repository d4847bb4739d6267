package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Clocked is a store whose clock the test sets.
type Clocked struct {
	// Open makes a fresh backing, in which each operation takes its time only
	// from clock, and returns a function that opens one more store object over
	// it. clock may be called from any goroutine.
	Open func(t *testing.T, clock func() queue.Time) func() store.Store

	// TwoClocks says that expiries are on another clock than the one that
	// tokens begin with. Otherwise both parts of a Time are the same, and are
	// sometimes set back a little.
	TwoClocks bool

	// OneFloor says that the store keeps one newest token for all idle names
	// together, not one for each.
	OneFloor bool

	// Stored reads every field that the store keeps of a name: then the whole
	// state is compared after each step, not only what List shows. It may be
	// nil.
	Stored func(t *testing.T, s store.Store, name string) queue.Queue

	// TooRare returns the cases that have occurred too rarely for that many steps: the comparison then goes on, as it
	// does for the cases that it counts itself. It may be nil.
	TooRare func(steps int) []string
}

// Differential runs random operations against the store and against package queue, one by one and at the same moment,
// and compares answers, notifications and entries after each: HOLDFAST_TEST_STEPS of them, 10,000 by default, from
// HOLDFAST_TEST_SEED or a random seed. If too few of the important cases have occurred by then it goes on, and fails if
// four times as many steps are not enough either. After an operation for which the store gave up waiting for its server
// it goes on with a fresh backing, five times at most. Years pass in it, and it ends with a crowd on one name. A store
// that matches a hold without its token, or keeps a position for longer than it was asked to, is too far from the rule
// to be compared.
func Differential(t *testing.T, c Clocked) { t.Helper(); differential(t, c, nil) }

func differential(t *testing.T, c Clocked, by *Sessioned) {
	t.Helper()
	seed := uint64(setting(t, "HOLDFAST_TEST_SEED", int64(rand.Uint32())))
	many := int64(10_000)
	if by != nil { // each step takes a few requests
		many = 3000
	}
	steps := int(setting(t, "HOLDFAST_TEST_STEPS", many))
	t.Logf("HOLDFAST_TEST_SEED=%d HOLDFAST_TEST_STEPS=%d", seed, steps)
	for d, again := newDuel(t, c, by, seed, 0, map[string]int{}), 0; !d.inTime(steps); again++ {
		if again == 5 {
			t.Fatal("an operation got no answer, five times: this machine is too busy, or the store waits forever")
		}
		for _, s := range d.sides {
			_ = s.Close() // it may be unanswered too
		}
		d.sides = nil
		seed++
		t.Logf("from step %d on the same as with HOLDFAST_TEST_SEED=%d", d.steps, seed)
		d = newDuel(t, c, by, seed, d.steps, d.counts)
	}
}

// inTime compares until that many steps are done, and reports whether the store has answered all operations. An
// unanswered operation may have been done, or may be done later: the remaining steps then need a fresh backing.
func (d *duel) inTime(steps int) bool {
	d.t.Helper()
	return inTime(func() {
		d.begin()
		floors := d.floors()
		// By chance, some cases may be too rare in that many steps: then go on until they are not.
		for ; d.steps < steps || d.steps < 4*steps && len(d.tooRare(floors, steps)) > 0; d.steps++ {
			d.turn()
			if d.steps%500 == 0 {
				d.compareAll()
			}
		}
		d.crowd()
		d.last()
		d.report(floors, steps)
	})
}

// answered ends the comparison if the store has given up waiting for its server.
func (d *duel) answered(before store.Instant, errs ...error) {
	for _, err := range errs {
		d.judge.answered(before, err)
	}
	if d.judge.late() {
		d.t.Logf("step %d: too slow to judge this: %v", d.steps, errors.Join(errs...))
		d.counts = d.counted // an unanswered operation was not compared
		panic(tooSlow)
	}
}

func setting(t *testing.T, name string, or int64) int64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return or
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A duel is a store, the model, and the operations sent to both.
type duel struct {
	t     *testing.T
	c     Clocked
	ctx   context.Context
	rng   *rand.Rand
	d     store.Description
	steps int // of all comparisons
	judge judge

	model *model
	sides []*side // one for each process
	names []*subject
	unit  time.Duration // all durations are a few of these
	sent  op            // the newest

	mu   sync.Mutex
	time queue.Time

	counts  map[string]int // of all comparisons
	counted map[string]int // before the present operation
	history []string

	unlooked bool // see unseen

	// For a store that is compared by its sessions:
	c2      *Sessioned // else nil
	learned map[store.ID]*pairing
	drawn   map[drawnBy]*pairing
	order   map[string][]*pairing // all tokens of a name
}

// A side is one process: its store object and its mailbox.
type side struct {
	store.Store
	proc store.Process
	want []store.Notification // what the model sent to it
	mu   sync.Mutex
	got  []store.Notification
	news chan struct{}

	read, heeded int // of got: before the present operation; and answered by an ask
}

func newDuel(t *testing.T, c Clocked, by *Sessioned, seed uint64, steps int, counts map[string]int) *duel {
	t.Helper()
	d := &duel{
		t: t, c: c, ctx: t.Context(), rng: rand.New(rand.NewPCG(seed, 0)), steps: steps, counts: counts, counted: maps.Clone(counts),
		time: queue.Time{Clock: epoch, Wall: epoch},
	}
	if d.c2 = by; by != nil {
		d.learned, d.drawn, d.order = map[store.ID]*pairing{}, map[drawnBy]*pairing{}, map[string][]*pairing{}
	}
	if c.TwoClocks {
		d.time.Clock = -5_000_000 // this clock may start at any time
	}
	open := c.Open(t, d.clock)
	for i := range 3 {
		s := &side{Store: open(), news: make(chan struct{}, 1), proc: d.process(i)}
		d.sides = append(d.sides, s)
	}
	t.Cleanup(func() {
		for _, s := range d.sides {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	d.d = d.sides[0].Describe()
	d.unit = (max(d.d.MinTTL, 40*d.d.Tick) + d.d.Tick - 1) / d.d.Tick * d.d.Tick
	if by != nil { // no session may end before the comparison does
		d.unit = (max(d.d.MinTTL, 10*time.Minute) + d.d.Tick - 1) / d.d.Tick * d.d.Tick
	}
	d.model = newModel(c.OneFloor)
	d.model.oneLimit, d.model.nobodyAsks, d.model.forgets = d.lacks(store.PromiseTotals), d.lacks(store.PromiseGiveUp), d.lacks(store.PromiseReason)
	d.subjects()
	return d
}

// begin makes each process watch for its notifications.
func (d *duel) begin() {
	d.t.Helper()
	for i, s := range d.sides {
		w, ok := s.Store.(store.Watcher)
		if !ok {
			if i == 0 {
				d.t.Log("the store is no Watcher: notifications are not compared")
			}
			continue
		}
		before := store.Now()
		err := w.Watch(d.ctx, s.proc, s.hear)
		if d.answered(before, err); err != nil {
			d.t.Fatalf("Watch: %v", err)
		}
	}
}

func (d *duel) clock() queue.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time
}

// advance moves the clock by a multiple of the store's tick.
func (d *duel) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	us := by.Microseconds()
	d.time.Wall += us
	if us > 0 || !d.c.TwoClocks {
		d.time.Clock += us
	}
}

func (s *side) hear(h store.Notification) {
	if h == (store.Notification{}) {
		return
	}
	s.mu.Lock()
	s.got = append(s.got, h)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// do sends an operation to both the store and the model, and compares.
func (d *duel) do(o op) {
	d.t.Helper()
	now := d.clock()
	d.counted = maps.Clone(d.counts)
	if !d.unlooked {
		d.count(now, o)
	}
	want, woken := d.model.do(now, o)
	d.begun()
	have := d.send(d.translated(o))
	if d.lacks(store.PromiseUntil) {
		have.Answer.Until, want.Answer.Until = 0, 0
	}
	d.note(now, o, want)
	d.tally(o, want, len(woken))
	if d.c2 != nil {
		d.level(o, &have, &want)
	}
	if !reflect.DeepEqual(have, want) {
		d.fail("got from the store\n%s\nwant as from the model\n%s", have, want)
	}
	d.notifications(woken)
	if !d.unlooked {
		for _, name := range o.names() {
			d.compare(now, name)
		}
	}
	d.sent = o
}

// An outcome is an answer and errors in a form that can be compared.
type outcome struct {
	Answer   store.Answer
	Renewals []store.Renewal
	Errs     []string
}

func (o outcome) String() string { return fmt.Sprintf("%+v %+v %q", o.Answer, o.Renewals, o.Errs) }

func (d *duel) send(o op) outcome {
	s := d.sides[o.side]
	ctx, cancel := context.WithTimeout(d.ctx, patience*time.Duration(1+len(o.holds)/100))
	defer cancel()
	before := store.Now()
	one := func(a store.Answer, err error) outcome {
		d.answered(before, err)
		return plain(a, err)
	}
	switch o.kind {
	case "ask":
		return one(s.Ask(ctx, o.claim))
	case "poll":
		return one(s.Store.(store.Poller).Poll(ctx, o.claim))
	case "renew":
		var out outcome
		for i, r := range s.Renew(ctx, o.holds) {
			d.answered(before, r.Err)
			out.Errs = append(out.Errs, errorText(r.Err))
			out.Renewals = append(out.Renewals, returnedOf(r))
			if r.Err == nil && r.From == 0 && r.TTL != o.holds[i].TTL {
				d.fail("renewed for %v, want %v", r.TTL, o.holds[i].TTL)
			}
		}
		return out
	case "change":
		return one(s.Change(ctx, o.holds[0], o.turn, o.weight))
	case "release all":
		var out outcome
		for _, err := range s.ReleaseAll(ctx, o.holds) {
			d.answered(before, err)
			out.Errs = append(out.Errs, errorText(err))
		}
		return out
	case "release":
		if !d.chance(50) {
			return one(store.Answer{}, s.Release(ctx, o.holds[0]))
		}
		// The same hold, together with one that does not exist.
		batch := []store.Hold{o.holds[0], {Name: "storetest/" + random(), ID: s.proc.NewID(), Token: 1}}
		out := s.ReleaseAll(ctx, batch)
		d.answered(before, out...)
		if !errors.Is(out[1], store.ErrLost) {
			d.fail("release of a hold that does not exist: got %v", out[1])
		}
		return plain(store.Answer{}, out[0])
	default:
		return one(store.Answer{}, s.Store.(store.Inspector).BreakHold(ctx, o.broken))
	}
}

// returnedOf returns the part of a renewal that is compared.
func returnedOf(r store.Renewal) store.Renewal {
	if r.Err != nil {
		return store.Renewal{}
	}
	return store.Renewal{Weight: r.Weight, Want: r.Want, UpgradeToken: r.UpgradeToken, GiveUp: r.GiveUp}
}

// plain drops the fields in which stores may differ.
func plain(a store.Answer, err error) outcome {
	if err != nil {
		return outcome{Errs: []string{errorText(err)}}
	}
	if a.From, a.Unsure = 0, 0; !a.Granted {
		a.TTL = 0
	}
	if len(a.Holders) == 0 {
		a.Holders = nil
	}
	return outcome{Answer: a, Errs: []string{""}}
}

func errorText(err error) string {
	var m *store.MismatchError
	var l *store.LostError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &m):
		return fmt.Sprintf("mismatch of %d and %d", m.Have, m.Want)
	case errors.As(err, &l) && l.Reason != "":
		return "lost: " + l.Reason
	case errors.Is(err, store.ErrLost):
		return "lost"
	case errors.Is(err, store.ErrInvalid):
		return "invalid"
	}
	return "neither lost nor a mismatch: " + err.Error()
}

// note records an operation, for the report of a failure.
func (d *duel) note(now queue.Time, o op, out outcome) {
	d.history = append(d.history, fmt.Sprintf("step %d at %d: %s\n    %s", d.steps, now.Clock, o, out))
	if len(d.history) > 4000 {
		d.history = slices.Clone(d.history[2000:])
	}
}

// fail prints the newest steps on the name of the last one.
func (d *duel) fail(format string, args ...any) {
	d.t.Helper()
	var of []string
	name := "" // empty matches all names, if the newest step has none
	if len(d.history) > 0 {
		if _, after, ok := strings.Cut(d.history[len(d.history)-1], "name "); ok {
			name, _, _ = strings.Cut(after, ",")
		}
	}
	for i := len(d.history) - 1; i >= 0 && len(of) < 15; i-- {
		if strings.Contains(d.history[i], name) {
			of = append(of, d.history[i])
		}
	}
	slices.Reverse(of)
	d.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(of, "\n"))
}
