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
	// callers is how many call at a time, on two names, so that they meet.
	callers = 8
	// freezes is how often the server freezes while they do.
	freezes = 4
	// After its context has ended, a call may take rounds × moment. On a busy
	// machine the sleeps take longer, too.
	rounds, moment = 100, 10 * time.Millisecond
)

// A frozen is a link to a frozen server, which accepts connections and requests, and
// answers nothing.
type frozen struct {
	*trial
	link Link
}

// frozenServer: every call returns when its context ends, wherever in its work the
// freeze stops it.
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
		t.isFree(here, proc, t.name()) // it can be used again; what was held may be lost
	}
}

// frozenAtFirst: the one-time work of a store object delays no caller beyond the
// end of its own context.
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

// callAll calls each method for the name.
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

// returns makes a call with a bound of silent, and fails the test if the call does not
// return then. The call itself may fail.
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
	f.Errorf("%s did not return within %v after its context ended:\n%s", what, time.Since(ended), underWay())
	f.link.Reset()
	<-done
}

// underWay returns the stacks of the calls that have not returned.
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
