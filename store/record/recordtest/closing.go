package recordtest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

var closePromises = []promise{
	{name: "a call returns when its context ends", run: contextEnded},
	{name: "a call to a frozen server returns with its context", run: frozenCalls, frozen: true},
	{name: "Close of a backend on a frozen server returns", run: frozenClose, frozen: true},
	{name: "Close ends what awaits", run: closeEndsAwait, await: true},
	{name: "Close ends what listens", run: closeEndsListen, notify: true},
	{name: "a backend describes itself the same each time", run: saysTheSame},
}

// A method is one that asks the server.
type method struct {
	name string
	call func(context.Context) error
}

// methods returns all such methods, End last.
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
		t.Fatalf("%s does not return after its context has ended", what)
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
			t.Errorf("%s with a context that has ended: got %v", what, err)
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
			t.Errorf("%s on a frozen server: got %v", what, err)
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
		t.Fatal("Await does not return after Close")
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
	t.never("a closed backend delivers notifications", func() bool { return len(e.all()) > before })
}

func saysTheSame(t *trial) {
	a, b := t.open(), t.open()
	for range 3 {
		for _, one := range []record.Backend{a, b} {
			if one.Traits() != t.traits {
				t.Errorf("Traits: got %+v, and %+v before", one.Traits(), t.traits)
			}
			if one.SessionTraits() != t.sessions {
				t.Errorf("SessionTraits: got %+v, and %+v before", one.SessionTraits(), t.sessions)
			}
		}
		t.write(a, fresh(), "x")
	}
	if d := a.Describe(); d.Store == "" || d.Store != b.Describe().Store || d.Crash == "" || d.Store != a.Describe().Store {
		t.Errorf("Describe: got %+v", d)
	}
	for _, f := range a.Check(t.ctx) {
		if f.About == "" || f.Found == "" && f.Err == nil {
			t.Errorf("Check: got %+v", f)
		}
	}
}
