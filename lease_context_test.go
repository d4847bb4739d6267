package holdfast

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestContext_NothingIsKeptOfSpansOverOneRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, newLink(t), nil)
		both, err := locks.All(locks.Mutex("a"), locks.Mutex("b")).Lock(t.Context())
		is(t, err, nil)
		a, b := both.Lease("a"), both.Lease("b")
		locking := a.engine().Probe().Contexts() + b.engine().Probe().Contexts()
		root, cancel := context.WithCancel(t.Context())
		defer cancel()
		const calls = 20_000
		before := heapInUse()
		goroutines := runtime.NumGoroutine()
		for i := range calls {
			both.Context(context.WithValue(root, someKey{}, i))
			both.Context(context.WithValue(context.Background(), someKey{}, i))
		}
		if kept := heapInUse() - before; kept > 1<<20 {
			t.Errorf("%d bytes are kept after %d calls, want at most 1 MiB", kept, calls)
		}
		same(t, "goroutines", runtime.NumGoroutine(), goroutines)
		if n := a.engine().Probe().Contexts() + b.engine().Probe().Contexts() - locking; n > 4 {
			t.Errorf("%d contexts are kept, want at most 4", n)
		}
		release(t, a)
		release(t, b)
	})
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The contexts of parents that end together share only their end.
func TestContext_OfParentsThatEndTogether(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancel context.CancelCauseFunc, l *Lease)
		want error
	}{
		"the parent ends":     {func(cancel context.CancelCauseFunc, _ *Lease) { cancel(errMine) }, errMine},
		"the lease ends":      {func(_ context.CancelCauseFunc, l *Lease) { l.Release() }, ErrReleased},
		"the lease had ended": {nil, ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := lock(t, locker(t, newLink(t), nil), "a")
				root, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.end == nil {
					release(t, l)
				}
				timed, stop := context.WithTimeout(root, time.Hour)
				defer stop()
				one := l.Context(context.WithValue(root, someKey{}, 1))
				two := l.Context(context.WithValue(root, otherKey{}, 2))
				three := l.Context(timed)
				child, stopChild := context.WithCancel(two)
				defer stopChild()
				called := make(chan struct{})
				context.AfterFunc(one, func() { close(called) })
				same(t, "one", one.Value(someKey{}), any(1))
				same(t, "context two has no value of context one", two.Value(someKey{}), nil)
				same(t, "two", two.Value(otherKey{}), any(2))
				_, bounded := two.Deadline()
				same(t, "context two has a deadline", bounded, false)
				if d, ok := three.Deadline(); !ok || time.Until(d) != time.Hour {
					t.Errorf("the deadline of context three is %v, %v, want an hour from now", d, ok)
				}
				if LeaseFrom(child) != l {
					t.Error("the child context does not have the lease")
				}
				if c.end != nil {
					is(t, one.Err(), nil)
					c.end(cancel, l)
				}
				for _, ctx := range []context.Context{one, two, three, child, l.Context(context.WithValue(root, someKey{}, 3))} {
					is(t, ctx.Err(), context.Canceled)
					is(t, context.Cause(ctx), c.want)
				}
				<-called
				synctest.Wait()
				same(t, "contexts kept", l.engine().Probe().Contexts(), 0)
			})
		})
	}
}

type otherKey struct{}

var errMine = errors.New("mine")
