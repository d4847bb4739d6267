package storetest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// callers call at a time, on two names: they have to meet each other.
	callers = 8
	// freezes is how often the server freezes while they do.
	freezes = 4
	// After its context has ended a call may take so many rounds of a goroutine that
	// sleeps for a moment in each. On a busy machine these take longer, too.
	rounds, moment = 100, 10 * time.Millisecond
)

// A frozen server accepts connections and requests, and answers nothing. This is the
// link of a store object to one.
type frozen struct {
	*trial
	link Link
}

// Every call returns when its context ends, at whatever point of its work the freeze
// has met it.
func frozenServer(t *trial, c Linked, after int) {
	here, link, proc := t.linked(c)
	there, _, other := t.linked(c)
	f := &frozen{t, link}
	t.warm(here, proc)
	t.warm(there, other)
	defer link.Reset()
	names := []string{t.name(), t.name()}
	for i := range freezes {
		link.MuteAfter(after + i*callers)
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() { f.callAll(here, proc, names[n%len(names)]) })
		}
		for _, name := range names {
			all.Go(func() { f.callAll(there, other, name) })
		}
		all.Wait()
		link.Reset()
		if t.Failed() {
			return
		}
		t.isFree(here, proc, t.name()) // it is used again; what was held may be lost
	}
}

// Nothing that a store object does only once, for all who call, takes any of them
// longer than until the end of its own context.
func frozenAtFirst(t *trial, c Linked, after int) {
	s, link, proc := t.linked(c)
	f := &frozen{t, link}
	link.MuteAfter(after)
	ctx, cancel := context.WithCancel(t.ctx)
	var calling sync.WaitGroup
	defer calling.Wait()
	defer link.Reset()
	defer cancel()
	patient := t.lasting(proc, t.name(), t.lasts())
	calling.Go(func() { s.Ask(ctx, patient) })
	t.fallSilent(link, after, over(&calling))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { f.callAll(s, proc, patient.Name) })
	}
	if w, ok := s.(store.Watcher); ok {
		f.returns("Watch", func(ctx context.Context) { w.Watch(ctx, proc, func(store.Notification) {}) })
	}
	all.Wait()
}

// callAll calls each method, on the name.
func (f *frozen) callAll(s store.Store, p store.Process, name string) {
	claim := f.lasting(p, name, f.lasts())
	if !f.lacks(store.PromiseUpgrade) {
		claim.Weight = store.Upgradeable
	}
	hold := store.Hold{Name: name, ID: claim.ID, TTL: claim.TTL}
	f.returns("Ask", func(ctx context.Context) {
		if a, err := s.Ask(ctx, claim); err == nil && a.Granted {
			hold.Token = a.Token
		}
	})
	if l, ok := s.(store.Poller); ok {
		f.returns("Poll", func(ctx context.Context) { l.Poll(ctx, claim) })
	}
	if in, ok := s.(store.Inspector); ok {
		f.returns("List", func(ctx context.Context) {
			for range in.List(ctx, name) {
			}
		})
		nobodys := store.Break{Name: name, ID: p.NewID(), Token: 1}
		f.returns("BreakHold", func(ctx context.Context) { in.BreakHold(ctx, nobodys) })
	}
	if ch, ok := s.(store.Checker); ok {
		f.returns("Check", func(ctx context.Context) { ch.Check(ctx) })
	}
	if hold.Token != 0 {
		f.returns("Renew", func(ctx context.Context) { s.Renew(ctx, []store.Hold{hold}) })
		if !f.lacks(store.PromiseUpgrade) {
			f.returns("Change", func(ctx context.Context) { s.Change(ctx, hold, 1, store.Full) })
		}
		f.returns("ReleaseAll", func(ctx context.Context) { s.ReleaseAll(ctx, []store.Hold{hold}) })
	}
	hold.Token = 0
	f.returns("Release", func(ctx context.Context) { s.Release(ctx, hold) })
}

// returns makes a call whose context ends after as long as a connection is silent, and
// fails if it does not return then. It is no failure of this that the call fails.
func (f *frozen) returns(what string, call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(f.ctx, silent)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call(ctx)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	ended := time.Now()
	for range rounds {
		select {
		case <-done:
			return
		case <-time.After(moment):
		}
	}
	f.Errorf("%s has not returned %v after its context ended:\n%s", what, time.Since(ended), underWay())
	f.link.Reset()
	<-done
}

// underWay is the stacks of the calls that have not returned.
func underWay() string {
	all := make([]byte, 1<<20)
	var calls []string
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "storetest.(*frozen).returns.func1") {
			calls = append(calls, stack)
		}
	}
	return strings.Join(calls, "\n\n")
}
