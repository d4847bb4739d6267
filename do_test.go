package holdfast

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func TestDo_JoinsTheLossToItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		mine := errors.New("mine")
		for _, own := range []error{nil, mine} {
			err := locks.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
				s.mem.Break("a")
				<-ctx.Done()
				is(t, context.Cause(ctx), ErrLost)
				time.Sleep(time.Second) // Do does not return before this
				return own
			})
			is(t, err, ErrLost)
			same(t, "fn's error is in it", errors.Is(err, mine), own != nil)
		}
		is(t, locks.Mutex("a").Do(t.Context(), func(context.Context) error { return mine }), mine)
		empty(t, s.mem)
	})
}

func TestDo_ItsContextEndsWithBothAndHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, newLink(t), nil)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), someKey{}, "kept"), time.Minute)
		defer cancel()
		ran, err := locks.Mutex("a").TryDo(ctx, func(ctx context.Context) error {
			l := LeaseFrom(ctx)
			if l == nil || l.Name() != "a" || !l.Valid() {
				t.Error("the context does not have the lease")
			}
			same(t, "value", ctx.Value(someKey{}), any("kept"))
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Minute {
				t.Error("the deadline is not the parent's")
			}
			<-ctx.Done()
			is(t, ctx.Err(), context.DeadlineExceeded)
			return ctx.Err()
		})
		is(t, err, context.DeadlineExceeded)
		same(t, "ran", ran, true)
		if LeaseFrom(t.Context()) != nil {
			t.Fatal("a lease out of nothing")
		}
	})
}

func TestDo_PanicAndGoexitRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		func() {
			defer func() { same(t, "recovered", recover(), any("boom")) }()
			locks.Mutex("a").Do(t.Context(), func(context.Context) error { panic("boom") })
		}()
		empty(t, s.mem)
		done := make(chan struct{})
		go func() {
			defer close(done)
			locks.Mutex("a").Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		empty(t, s.mem)
	})
}

func TestTryDo_RefusedIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		o := other(t, s.mem, "a", time.Hour)
		ran, err := locks.Mutex("a").TryDo(t.Context(), func(context.Context) error { t.Error("run"); return nil })
		if ran || err != nil {
			t.Fatalf("%v, %v, want false and no error", ran, err)
		}
		o.release()
		s.on(func(*call) fate { return fate{fail: store.ErrDenied} })
		ran, err = locks.Mutex("a").TryDo(t.Context(), func(context.Context) error { t.Error("run"); return nil })
		is(t, err, ErrDenied)
		same(t, "ran", ran, false)
	})
}

// The caller's context bounds the waiting only.
func TestLock_ItsContextDoesNotEndTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, newLink(t), nil)
		ctx, cancel := context.WithCancel(t.Context())
		l, err := locks.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Hour)
		if !l.Valid() {
			t.Fatal("lost")
		}
		release(t, l)
	})
}

func TestContext_OfOneParentIsOneAndNothingIsKeptOfThoseThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock(t, locker(t, newLink(t), nil), "a")
		if l.Context(t.Context()) != l.Context(t.Context()) {
			t.Fatal("two contexts of one parent")
		}
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			derived := l.Context(ctx)
			cancel()
			is(t, derived.Err(), context.Canceled)
		}
		synctest.Wait()
		if len(l.joined) > 1 {
			t.Fatalf("%d contexts are kept", len(l.joined))
		}
		release(t, l)
	})
}

// A refusal is for people, on one line.
func TestHeldError_SaysWhoIsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		theirs := locker(t, s, &Options{Owner: Owner{Host: "web-3", PID: 4711, Program: "backup.sh"}, Note: "the nightly one"})
		l := lock(t, theirs, "a")
		other(t, s.mem, "a", time.Hour) // waits
		time.Sleep(9 * time.Second)
		_, err := locker(t, s, nil).Mutex("a").TryLock(t.Context())
		const want = `lock "a" on a link: held by host web-3, pid 4711 (backup.sh), "the nightly one", since 00:00:00 (9s), expires in 21s, 1 waiting`
		same(t, "error", err.Error(), want)
		held := heldBy(t, err)
		same(t, "id", held.ID, l.ID())
		same(t, "token", held.Token, l.Token())
	})
}
