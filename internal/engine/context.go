package engine

import (
	"context"
	"reflect"
)

// leaseKey is the context key of a *chain.
type leaseKey struct{}

// A chain lists the leases from which a context is derived, innermost first.
type chain struct {
	lease *Lease
	outer *chain
}

// chainOf returns the chain of ctx, or nil if ctx is derived from no lease.
func chainOf(ctx context.Context) *chain {
	ls, _ := ctx.Value(leaseKey{}).(*chain)
	return ls
}

// again reports whether the lease of ls occurs before ls in the chain that begins
// with first: a context can be derived from one lease twice.
func (ls *chain) again(first *chain) bool {
	for ; first != ls; first = first.outer {
		if first.lease == ls.lease {
			return true
		}
	}
	return false
}

// LeaseFrom returns the innermost lease that ctx is derived from, or nil.
func LeaseFrom(ctx context.Context) *Lease {
	if ls := chainOf(ctx); ls != nil {
		return ls.lease
	}
	return nil
}

// LeaseOf returns the innermost lease of the name that ctx is derived from, or nil.
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
	// Cache it: code in a loop asks for the same context each time.
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

// join returns a context that ends with parent or with the lease. When the lease
// ends, the context ends before finish returns, not later on another goroutine.
// Parents with the same Done channel share one context, so that contexts made for
// each request or span do not pile up here. The values of the returned context are
// not used. The hold's lock is held.
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
	forget := context.AfterFunc(ctx, func() { // keep nothing of a parent that has ended
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
	forget func() bool // cancels the removal from Lease.joined that happens when ctx ends
}

// A leaseContext is what [Lease.Context] returns: the parent with another end.
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

// ending has only the values by which package context finds the end of a context.
// context.Cause uses them to look up the cause; a child context uses them to find
// the parent that ends it.
var ending, _ = context.WithCancel(context.Background())
