package holdfast

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
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
			same(t, "the error matches fn's", errors.Is(err, mine), own != nil)
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
				t.Error("the context does not have the lease of \"a\", or the lease has ended")
			}
			same(t, "value", ctx.Value(someKey{}), any("kept"))
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Minute {
				t.Error("the deadline is not the one of the parent context")
			}
			<-ctx.Done()
			is(t, ctx.Err(), context.DeadlineExceeded)
			return ctx.Err()
		})
		is(t, err, context.DeadlineExceeded)
		same(t, "ran", ran, true)
		if LeaseFrom(t.Context()) != nil {
			t.Fatal("LeaseFrom found a lease in a context without one")
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
		ran, err := locks.Mutex("a").TryDo(t.Context(), func(context.Context) error { t.Error("fn was called without the lock"); return nil })
		if ran || err != nil {
			t.Fatalf("got %v, %v, want false and no error", ran, err)
		}
		o.release()
		s.on(func(*call) fate { return fate{fail: store.ErrDenied} })
		ran, err = locks.Mutex("a").TryDo(t.Context(), func(context.Context) error { t.Error("fn was called without the lock"); return nil })
		is(t, err, ErrDenied)
		same(t, "ran", ran, false)
	})
}

// The caller's context bounds only the wait.
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
			t.Fatal("the lease was lost when the context of Lock ended")
		}
		release(t, l)
	})
}

func TestContext_OfOneParentIsOneAndNothingIsKeptOfThoseThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock(t, locker(t, newLink(t), nil), "a")
		if l.Context(t.Context()) != l.Context(t.Context()) {
			t.Fatal("one parent context got two contexts")
		}
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			derived := l.Context(ctx)
			cancel()
			is(t, derived.Err(), context.Canceled)
		}
		synctest.Wait()
		if n := l.engine().Probe().Contexts(); n > 1 {
			t.Fatalf("%d contexts are kept, want at most 1", n)
		}
		release(t, l)
	})
}

// The text of a refusal is for people, on one line.
func TestHeldError_SaysWhatIsBlocking(t *testing.T) {
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

// An unasked store has not checked whether the holders are alive.
type unasked struct{ *link }

func (s unasked) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.link.Ask(ctx, c)
	for i := range a.Holders {
		a.Holders[i].Expires, a.Holders[i].Ends = 0, 0
	}
	return a, err
}

func TestHeldError_ShowsNoUnknownEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		time.Sleep(9 * time.Second)
		_, err := locker(t, unasked{s}, nil).Mutex("a").TryLock(t.Context())
		if held := heldBy(t, err); held.Since.IsZero() || !held.Expires.IsZero() || !held.Ends.IsZero() || strings.Contains(err.Error(), "expires") {
			t.Errorf("%+v: %v", held, err)
		}
	})
}

// Every form of Do.
func allDos(locks *Locker) map[string]func(context.Context, func() error) error {
	rw := locks.RWMutex("a")
	plain := func(fn func() error) func(context.Context) error { return func(context.Context) error { return fn() } }
	up := func(fn func() error) func(context.Context, *UpgradeableLease) error {
		return func(context.Context, *UpgradeableLease) error { return fn() }
	}
	return map[string]func(context.Context, func() error) error{
		"Mutex.Do": func(ctx context.Context, fn func() error) error { return locks.Mutex("a").Do(ctx, plain(fn)) },
		"Mutex.TryDo": func(ctx context.Context, fn func() error) error {
			_, err := locks.Mutex("a").TryDo(ctx, plain(fn))
			return err
		},
		"Write.Do": func(ctx context.Context, fn func() error) error { return rw.Write().Do(ctx, plain(fn)) },
		"Write.TryDo": func(ctx context.Context, fn func() error) error {
			_, err := rw.Write().TryDo(ctx, plain(fn))
			return err
		},
		"Read.Do": func(ctx context.Context, fn func() error) error { return rw.Read().Do(ctx, plain(fn)) },
		"Read.TryDo": func(ctx context.Context, fn func() error) error {
			_, err := rw.Read().TryDo(ctx, plain(fn))
			return err
		},
		"Upgradeable.Do": func(ctx context.Context, fn func() error) error { return rw.Upgradeable().Do(ctx, up(fn)) },
		"Upgradeable.TryDo": func(ctx context.Context, fn func() error) error {
			_, err := rw.Upgradeable().TryDo(ctx, up(fn))
			return err
		},
		"Semaphore.Do": func(ctx context.Context, fn func() error) error {
			return locks.Semaphore("s", 3).Slots(2).Do(ctx, plain(fn))
		},
		"Semaphore.TryDo": func(ctx context.Context, fn func() error) error {
			_, err := locks.Semaphore("s", 3).Slots(2).TryDo(ctx, plain(fn))
			return err
		},
		"Several.Do": func(ctx context.Context, fn func() error) error {
			return locks.All(locks.Mutex("a"), locks.Mutex("b")).Do(ctx, plain(fn))
		},
		"Several.TryDo": func(ctx context.Context, fn func() error) error {
			_, err := locks.All(locks.Mutex("a"), locks.Mutex("b")).TryDo(ctx, plain(fn))
			return err
		},
		"Election.Lead": func(ctx context.Context, fn func() error) error { return locks.Election("a").Lead(ctx, plain(fn)) },
	}
}

// A caller never has to guess whether fn was called: ErrNotRun says that it
// was not, and no other error does.
func TestDo_SaysWhetherFnWasCalled(t *testing.T) {
	mine := errors.New("mine")
	for name := range allDos(locker(t, newLink(t), nil)) {
		for how, c := range map[string]struct {
			prepare func(*link)
			cancel  bool  // the context has ended before
			returns error // of fn
			ran     bool
			is      []error
			isNot   []error
		}{
			"fn succeeded":              {ran: true},
			"fn failed":                 {returns: mine, ran: true, is: []error{mine}},
			"the store does not answer": {prepare: func(s *link) { down(s, errLink) }, is: []error{ErrUnavailable, errLink}},
			"denied":                    {prepare: func(s *link) { down(s, store.ErrDenied) }, is: []error{ErrDenied}},
			"the context had ended":     {cancel: true, is: []error{context.Canceled}},
			"fn succeeded, the release indeterminate": {prepare: loseReleases, ran: true, isNot: []error{ErrUnavailable, errLink, ErrLost}},
			"fn failed, the release indeterminate":    {prepare: loseReleases, returns: mine, ran: true, is: []error{mine}, isNot: []error{ErrUnavailable, errLink}},
			"a call inside fn was not run":            {returns: notRun(fmt.Errorf("inner: %w", ErrUnavailable)), ran: true, is: []error{ErrUnavailable}},
			"that, and the release was indeterminate": {prepare: loseReleases, returns: notRun(mine), ran: true, is: []error{mine}, isNot: []error{ErrUnavailable}},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newLink(t)
					locks := locker(t, s, nil)
					if c.prepare != nil {
						c.prepare(s)
					}
					// A campaign continues while the store does not answer.
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if c.cancel {
						cancel()
					}
					ran := false
					err := allDos(locks)[name](ctx, func() error { ran = true; return c.returns })
					s.on(nil)
					same(t, "ran", ran, c.ran)
					is(t, err, c.is...)
					isNot(t, err, c.isNot...)
					same(t, fmt.Sprintf("%v matches ErrNotRun", err), errors.Is(err, ErrNotRun), !c.ran)
					after := (*ReleaseError)(nil)
					indeterminate := strings.Contains(how, "the release")
					same(t, fmt.Sprintf("%v is a *ReleaseError", err), errors.As(err, &after), indeterminate)
					if indeterminate {
						same(t, "fn's error", after.Err, c.returns)
						is(t, after.Lease, ErrUnavailable, errLink)
					}
				})
			})
		}
	}
}

// loseReleases loses the answers to releases.
func loseReleases(s *link) {
	s.on(func(c *call) fate {
		if c.op == "release" {
			return fate{lose: errLink}
		}
		return fate{}
	})
}

func TestDo_ALossAfterFnWasCalledIsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		err := locker(t, s, nil).Mutex("a").Do(t.Context(), func(ctx context.Context) error {
			s.mem.Break("a")
			<-ctx.Done()
			return nil
		})
		is(t, err, ErrLost)
		isNot(t, err, ErrNotRun)
		after := (*ReleaseError)(nil)
		if !errors.As(err, &after) || after.Err != nil {
			t.Fatalf("got %v, want a *ReleaseError without an error of fn", err)
		}
		for _, part := range []string{"fn has run and returned nil", "lost"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	})
}

// If a candidate has led before and cannot lead again, its function was run.
func TestDo_LeadHasRunOnceATermHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := locks.Election("a").Lead(ctx, func(ctx context.Context) error {
			s.mem.Break("a")
			<-ctx.Done()
			down(s, store.ErrDenied)
			return nil
		})
		s.on(nil)
		is(t, err, ErrDenied)
		isNot(t, err, ErrNotRun)
	})
}
