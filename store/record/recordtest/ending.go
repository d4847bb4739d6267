package recordtest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

var endPromises = []promise{
	{name: "a session that was ended has ended for all", run: endedForAll},
	{name: "a session can be ended again", run: endedAgain},
	{name: "a session that has lapsed can be ended", run: endedLapsed},
	{name: "the end of a session is awaited", run: awaited, await: true},
	{name: "the end of a session that lapses is awaited", run: awaitedLapse, await: true},
	{name: "to await a session that has ended takes no time", run: awaitedEnded, await: true},
	{name: "to await a session ends with its context", run: awaitContext, await: true},
	{name: "without a report of the end Await says so", run: awaitUnsupported},
}

var leftPromises = []promise{
	{name: "Left answers in the order of what it was asked", run: leftInOrder},
	{name: "Left of nothing is nothing", run: leftOfNone},
	{name: "Left of many is answered", run: leftOfMany},
	{name: "Left of what was never begun is an end", run: leftNothing},
	{name: "what Left called ended stays so for every process", run: leftIsFinal},
	{name: "no renewal is answered once Left said it has ended", run: leftEndsRenewals},
	{name: "a renewal held until Left said it has ended is lost", run: renewHeld, linked: true},
	{name: "a session that was renewed has not ended for Left", run: leftOfRenewed},
}

var closePromises = []promise{
	{name: "a call returns when its context ends", run: contextEnded},
	{name: "a call to a frozen server returns with its context", run: frozenCalls, frozen: true},
	{name: "Close of a backend on a frozen server returns", run: frozenClose, frozen: true},
	{name: "Close ends what awaits", run: closeEndsAwait, await: true},
	{name: "Close ends what listens", run: closeEndsListen, notify: true},
	{name: "what a backend says of itself does not change", run: saysTheSame},
}

func endedForAll(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	if left := t.left(b, id); left <= 0 {
		t.Fatalf("Left of a session that was just begun: %v", left)
	}
	t.end(a, id)
	for _, from := range []record.Backend{b, a, t.open()} {
		if left := t.left(from, id); left > 0 {
			t.Errorf("Left of a session that was ended: %v", left)
		}
	}
}

func endedAgain(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for range 3 {
		t.end(a, id)
		if left := t.left(b, id); left > 0 {
			t.Errorf("Left of a session that was ended: %v", left)
		}
	}
}

func endedLapsed(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.lapsed(b, id, t.short())
	t.end(a, id)
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left of a session that was ended: %v", left)
	}
}

// await runs Await until it is true that the session has ended.
func (t *trial) await(b record.Backend, id session.ID) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			err := b.Await(t.ctx, id)
			if err == nil {
				var left []time.Duration
				if left, err = b.Left(t.ctx, []session.ID{id}); err == nil && left[0] > 0 {
					continue // it may be early
				}
			}
			done <- err
			return
		}
	}()
	return done
}

func (t *trial) reported(done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Await: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("after %v still not: the end of a session is told", patience)
	}
}

func awaited(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	byOther, byOwn := t.await(b, id), t.await(a, id)
	again := t.await(b, id)
	t.renew(a, id)
	time.Sleep(moment) // so that most likely they are under way
	t.end(a, id)
	t.reported(byOther)
	t.reported(byOwn)
	t.reported(again)
}

func awaitedLapse(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.reported(t.await(b, id))
}

func awaitedEnded(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	t.end(a, id)
	t.reported(t.await(b, id))
	t.reported(t.await(b, newSession()))
}

func awaitContext(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.ctx, moment)
		err := t.returns("Await", ctx, func(ctx context.Context) error { return b.Await(ctx, id) })
		ended := ctx.Err() != nil
		cancel()
		if err != nil && !ended {
			t.Fatalf("Await of a session that lives: %v", err)
		}
		if err != nil {
			return
		}
	}
	t.Error("Await of a session that lives returns nil each time")
}

func awaitUnsupported(t *trial) {
	if t.sessions.ReportsEnd {
		return
	}
	b := t.open()
	if err := b.Await(t.ctx, newSession()); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Await: %v, want store.ErrUnsupported", err)
	}
}

func leftInOrder(t *trial) {
	a, b := t.open(), t.open()
	var ids []session.ID
	var lives []bool
	for i := range 12 {
		id := newSession() // never begun
		if i%3 > 0 || i > 6 {
			id = t.session(a)
		}
		ends := i%4 == 1
		if ends {
			t.end(a, id)
		}
		ids, lives = append(ids, id), append(lives, !ends && (i%3 > 0 || i > 6))
	}
	for range 2 {
		left := t.leftOf(b, ids...)
		for i := range left {
			if left[i] > 0 != lives[i] {
				t.Errorf("Left of session %d: %v, want alive: %v", i, left[i], lives[i])
			}
		}
		slices.Reverse(ids)
		slices.Reverse(lives)
	}
	if left := t.leftOf(b, ids[1], ids[1]); left[0] > 0 != (left[1] > 0) {
		t.Errorf("Left of one session twice: %v", left)
	}
}

func leftOfNone(t *trial) {
	t.leftOf(t.open())
}

func leftOfMany(t *trial) {
	a, b := t.open(), t.open()
	const living, never = 40, 260
	var ids []session.ID
	for i := range living + never {
		if i < never {
			ids = append(ids, newSession())
		} else {
			ids = append(ids, t.session(a))
		}
	}
	left := t.leftOf(b, ids...)
	for i := range left {
		if left[i] > 0 != (i >= never) {
			t.Fatalf("Left of session %d: %v", i, left[i])
		}
	}
}

func leftNothing(t *trial) {
	for _, b := range []record.Backend{t.open(), t.open()} {
		if left := t.left(b, newSession()); left > 0 {
			t.Errorf("Left of a session that was never begun: %v", left)
		}
	}
}

func leftIsFinal(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.lapsed(b, id, t.short())
	t.never("a session has ended and lives", func() bool {
		if _, err := a.Renew(t.ctx, id); err == nil {
			return true
		}
		return t.left(a, id) > 0 || t.left(b, id) > 0
	})
	if left := t.left(t.open(), id); left > 0 {
		t.Errorf("Left, of a process that comes later: %v", left)
	}
}

// The owner renews sooner or later, another asks for the end: either may be
// first.
func leftEndsRenewals(t *trial) {
	a, b := t.open(), t.open()
	for _, percent := range []time.Duration{60, 80, 95, 100} {
		id, _, lasts := t.beginShort(a)
		over := make(chan struct{}) // when Left has returned the end
		var failed error            // or this
		go func() {
			defer close(over)
			for {
				left, err := b.Left(t.ctx, []session.ID{id})
				if err != nil && !store.Definite(err) && t.ctx.Err() == nil { // a connection is lost while the machine stands still
					continue
				}
				if failed = err; err != nil || left[0] <= 0 {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		for range 2 {
			time.Sleep(lasts * percent / 100)
			after := false
			select {
			case <-over:
				after = failed == nil
			default:
			}
			_, err := a.Renew(t.ctx, id)
			if err == nil && after {
				t.Fatal("a renewal is answered that was sent after Left had said that the session has ended")
			}
			if err != nil {
				break
			}
		}
		t.end(a, id)
		select {
		case <-over:
		case <-time.After(patience):
			t.Fatalf("Left of a session that was ended says that it goes on")
		}
		if failed != nil {
			t.Fatalf("Left: %v", failed)
		}
	}
}

func renewHeld(t *trial) {
	b := t.open()
	a, link := t.linked()
	id := t.heldRenewal(a, link)
	t.lapsed(b, id, t.short())
	link.Reset()
	link.Deliver()
	t.never("a renewal that was late has its session go on", func() bool { return t.left(b, id) > 0 })
	t.until("the next renewal is lost", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, 2*time.Second)
		defer cancel()
		_, err := a.Renew(ctx, id)
		if err == nil {
			t.Fatal("a session is renewed that has ended for another process")
		}
		return errors.Is(err, store.ErrLost)
	})
}

// heldRenewal begins a short session, and has its renewal be held by the link. On a machine that stalls the session may have ended before that,
// which the clock shows: then it is done again.
func (t *trial) heldRenewal(a record.Backend, link storetest.Link) (id session.ID) {
	t.Helper()
	t.until("a renewal is held before its session has ended", func() bool {
		began, sent, lasts := t.beginShort(a)
		id = began
		link.HoldAfter(0)
		var ended atomic.Bool
		t.givenUp("the renewal is held", func() bool { return link.Met() > 0 || ended.Load() }, func(ctx context.Context) error {
			_, err := a.Renew(ctx, id)
			if errors.Is(err, store.ErrLost) && store.Now() >= sent.Add(lasts) {
				ended.Store(true)
				err = errors.New("its session has ended before")
			}
			return err
		})
		if ended.Load() {
			link.Reset()
		}
		return !ended.Load()
	})
	return id
}

func leftOfRenewed(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for range 5 {
		if left := t.left(b, id); left <= 0 {
			t.Fatalf("Left of a session that lives: %v", left)
		}
		t.renew(a, id)
	}
}

// A method asks the server.
type method struct {
	name string
	call func(context.Context) error
}

// methods are all that do, End last.
func (t *trial) methods(b record.Backend, id session.ID) []method {
	return []method{
		{"Load", func(ctx context.Context) error { _, err := b.Load(ctx, fresh()); return err }},
		{"Swap", func(ctx context.Context) error {
			_, err := b.Swap(ctx, &record.Swap{Name: fresh(), Data: []byte("x")})
			return err
		}},
		{"List", func(ctx context.Context) (failed error) {
			for _, err := range b.List(ctx, 0) {
				if failed = err; err != nil {
					break
				}
			}
			return failed
		}},
		{"Begin", func(ctx context.Context) error {
			_, err := b.Begin(ctx, newSession(), t.sessions.MinTTL)
			return err
		}},
		{"Renew", func(ctx context.Context) error { _, err := b.Renew(ctx, id); return err }},
		{"Call", func(ctx context.Context) error { return b.Call(ctx, id) }},
		{"Left", func(ctx context.Context) error {
			_, err := b.Left(ctx, []session.ID{id, newSession()})
			return err
		}},
		{"End", func(ctx context.Context) error { return b.End(ctx, id) }},
	}
}

// returns runs a call whose context ends, or has ended, and returns its error.
func (t *trial) returns(what string, ctx context.Context, f func(context.Context) error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s goes on after its context has ended", what)
		return nil
	}
}

func contextEnded(t *trial) {
	b := t.open()
	id := t.session(b)
	t.load(b, fresh())
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for _, m := range t.methods(b, id) {
		what := m.name
		if what == "End" {
			continue // it may be sent
		}
		if err := t.returns(what, ctx, m.call); err == nil || errors.Is(err, store.ErrLost) {
			t.Errorf("%s with a context that has ended: %v", what, err)
		}
	}
	t.renew(b, id)
}

func frozenCalls(t *trial) {
	b, freeze := t.s.Freeze(t.T)
	t.Cleanup(func() { b.Close() })
	id, _, _ := t.beginFor(b, t.long()) // the end of the test cannot end it
	freeze()
	for _, m := range t.methods(b, id) {
		what := m.name
		ctx, cancel := context.WithTimeout(t.ctx, moment)
		if err := t.returns(what, ctx, m.call); err == nil || errors.Is(err, store.ErrLost) {
			t.Errorf("%s on a frozen server: %v", what, err)
		}
		cancel()
	}
}

func frozenClose(t *trial) {
	b, freeze := t.s.Freeze(t.T)
	if t.traits.Notifies {
		t.listen(b)
	}
	freeze()
	_ = t.returns("Close", t.ctx, func(context.Context) error { return b.Close() })
}

func closeEndsAwait(t *trial) {
	a, b := t.open(), t.s.Open(t.T)
	id := t.session(a)
	done := make(chan struct{})
	begun := make(chan struct{}, 1)
	go func() {
		defer close(done)
		for {
			select {
			case begun <- struct{}{}:
			default:
			}
			if err := b.Await(t.ctx, id); err != nil {
				return
			}
			if t.left(a, id) <= 0 {
				return
			}
		}
	}()
	<-begun
	time.Sleep(moment / 2) // so that most likely it is under way
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Await goes on after Close")
	}
}

func closeEndsListen(t *trial) {
	a, b, name := t.open(), t.s.Open(t.T), fresh()
	e, stays := t.listen(b), t.listen(a)
	n := granted(name, e.p, 1)
	t.notify(a, name, n)
	t.hears(e, n)
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	before := len(e.all())
	last := granted(name, stays.p, 2)
	t.notify(a, name, granted(name, e.p, 2), last)
	t.hears(stays, last)
	t.never("a backend that was closed delivers notifications", func() bool { return len(e.all()) > before })
}

func saysTheSame(t *trial) {
	a, b := t.open(), t.open()
	for range 3 {
		for _, one := range []record.Backend{a, b} {
			if one.Traits() != t.traits {
				t.Errorf("Traits: %+v, and %+v before", one.Traits(), t.traits)
			}
			if one.SessionTraits() != t.sessions {
				t.Errorf("SessionTraits: %+v, and %+v before", one.SessionTraits(), t.sessions)
			}
		}
		t.write(a, fresh(), "x")
	}
	if d := a.Describe(); d.Store == "" || d.Store != b.Describe().Store || d.Crash == "" || d.Store != a.Describe().Store {
		t.Errorf("Describe: %+v", d)
	}
	for _, f := range a.Check(t.ctx) {
		if f.About == "" || f.Found == "" && f.Err == nil {
			t.Errorf("Check: %+v", f)
		}
	}
}
