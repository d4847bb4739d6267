package engine

import (
	"context"
	"reflect"
)

// leaseKey is the key under which contexts have their leases.
type leaseKey struct{}

// A chain is the leases that a context comes from, the innermost first.
type chain struct {
	lease *Lease
	outer *chain
}

// chainOf is the chain of ctx; nil if it comes from no lease.
func chainOf(ctx context.Context) *chain {
	ls, _ := ctx.Value(leaseKey{}).(*chain)
	return ls
}

// again reports whether the lease of ls has come before it in the list from
// first on: a context can come from one lease twice.
func (ls *chain) again(first *chain) bool {
	for ; first != ls; first = first.outer {
		if first.lease == ls.lease {
			return true
		}
	}
	return false
}

// LeaseFrom is the innermost lease that ctx comes from, or nil.
func LeaseFrom(ctx context.Context) *Lease {
	if ls := chainOf(ctx); ls != nil {
		return ls.lease
	}
	return nil
}

// LeaseOf is the innermost lease of the name that ctx comes from, or nil.
func LeaseOf(ctx context.Context, name string) *Lease {
	ls := chainOf(ctx)
	for ; ls != nil; ls = ls.outer {
		if ls.lease.Name() == name {
			return ls.lease
		}
	}
	return nil
}

// Context returns a context that ends with parent or with the lease.
func (l *Lease) Context(parent context.Context) context.Context {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	// Code in a loop asks for the same again and again.
	comparable := reflect.ValueOf(parent).Comparable()
	if comparable && l.derived != nil && l.parent == parent {
		return l.derived
	}
	ctx := &leaseContext{Context: parent, end: l.join(parent), leases: chain{l, chainOf(parent)}}
	if comparable {
		l.parent, l.derived = parent, ctx
	}
	return ctx
}

// join returns a context that ends with parent or with the lease: with the
// lease at once, before finish returns, and not on another goroutine. It is the
// same for all parents that end together, so that code which makes a context of
// each request or span leaves nothing here. Its values are of no use. The hold's
// lock is held.
func (l *Lease) join(parent context.Context) context.Context {
	done := parent.Done()
	if done == nil {
		parent = context.Background()
	}
	if l.state == held && parent.Err() == nil {
		if j, ok := l.joined[done]; ok { //mutant:context-each-call
			return j.ctx
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	switch {
	case l.state != held:
		cancel(l.errorf(l.why))
		return ctx
	case parent.Err() != nil:
		cancel(context.Cause(parent))
		return ctx
	case l.joined == nil:
		l.joined = map[<-chan struct{}]joined{}
	}
	forget := context.AfterFunc(ctx, func() { // nothing is kept of a parent that has ended
		l.hold.mu.Lock()
		defer l.hold.mu.Unlock()
		delete(l.joined, done) //mutant:ended-parents-kept
	})
	l.joined[done] = joined{ctx, cancel, forget}
	return ctx
}

// joined is a context that ends with its parents or with the lease.
type joined struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	forget func() bool // takes back what is done at its end
}

// A leaseContext is what [Lease.Context] returns: all of its parent but the end.
type leaseContext struct {
	context.Context // the parent
	end             context.Context
	leases          chain
}

func (c *leaseContext) Done() <-chan struct{} { return c.end.Done() }
func (c *leaseContext) Err() error            { return c.end.Err() }

func (c *leaseContext) Value(key any) any {
	switch {
	case key == leaseKey{}:
		return &c.leases
	case ending.Value(key) != nil:
		return c.end.Value(key) //mutant:cause-of-parent
	}
	return c.Context.Value(key)
}

// ending has the values that package context keeps for the end of a context,
// and no others: context.Cause finds the cause by them, and a child the context
// with which it ends.
var ending, _ = context.WithCancel(context.Background())
