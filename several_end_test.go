package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

func TestSeveral_B44_AreLostAsSoonAsOneIs(t *testing.T) {
	for _, which := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, s, nil)
			leases := all(t, locks, "a", "b", "c")
			lost, free, early := leases.Lost(), leases.Context(context.Background()), leases.Context(t.Context())
			time.Sleep(time.Minute)
			same(t, "valid", leases.Valid(), true)
			same(t, "lost", over(lost), false)
			s.mem.Break(which)
			time.Sleep(11 * time.Second) // the next renewal
			same(t, "valid", leases.Valid(), false)
			same(t, "lost", over(lost), true)
			for _, ctx := range []context.Context{free, early, leases.Context(t.Context())} {
				is(t, context.Cause(ctx), ErrLost)
			}
			for _, name := range leases.Names() {
				same(t, name+" valid", leases.Lease(name).Valid(), name != which)
			}
			if leases.Deadline().After(time.Now()) {
				t.Fatal("the deadline is in the future, although a lease was lost")
			}
			is(t, leases.Release(), ErrLost)
			empty(t, s.mem)
		})
	}
}

func TestSeveral_ReleaseIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := all(t, locker(t, newLink(t), nil), "a", "b")
		lost, ctx := leases.Lost(), leases.Context(t.Context())
		release(t, leases)
		same(t, "lost", over(lost) || over(leases.Lost()), false)
		is(t, context.Cause(ctx), ErrReleased)
		same(t, "valid", leases.Valid(), false)
	})
}

func TestSeveral_EveryReleaseIsTriedAndEveryFailureReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		leases := all(t, locker(t, s, nil), "a", "b", "c", "d")
		s.mem.Break("d")
		s.on(func(c *call) fate {
			if c.op == "release" && (c.name == "a" || c.name == "c") {
				return fate{fail: errors.New("no release of " + c.name)}
			}
			return fate{}
		})
		time.Sleep(11 * time.Second)
		err := leases.Release()
		is(t, err, ErrLost, ErrUnavailable)
		for _, part := range []string{"no release of a", "no release of c", `"d"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		if len(stored(s.mem, "b").Entries) != 0 {
			t.Error("b was not released")
		}
		s.on(nil)
	})
}

func TestSeveral_CloseEndsTheWaitAndReleasesEarlierNames(t *testing.T) {
	for _, o := range []*Options{nil, {MinHold: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			b := other(t, s.mem, "b", time.Hour)
			w, _ := waitsAll(t, locks.With(o).All(mutexes(locks, "a", "b")...))
			if err := locks.Close(); err != nil {
				t.Fatal(err)
			}
			w.failed(ErrClosed)
			isNot(t, w.err, ErrLost)
			b.release()
			empty(t, s.mem)
			_, err := locks.All(mutexes(locks, "a", "b")...).Lock(t.Context())
			is(t, err, ErrClosed)
		})
	}
}

// onLog is a log that calls a function before each write.
type onLog func(msg string)

func (f onLog) Enabled(context.Context, slog.Level) bool { return true }
func (f onLog) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f onLog) WithGroup(string) slog.Handler            { return f }
func (f onLog) Handle(_ context.Context, r slog.Record) error {
	f(r.Message)
	return nil
}

// Close ends the leases that were granted, and with that the wait for the others:
// the caller's own context has not ended.
func TestSeveral_CloseBetweenTwoNamesIsErrClosed(t *testing.T) {
	for _, try := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			var locks *Locker
			closed := make(chan error, 1)
			locks = locker(t, withNotifications{s}, &Options{Logger: slog.New(onLog(func(msg string) {
				if msg == "holdfast: granted" {
					go func() { closed <- locks.Close() }()
					synctest.Wait() // until Close waits for the caller
				}
			}))})
			ab := locks.All(mutexes(locks, "a", "b")...)
			take := ab.Lock
			if try {
				take = ab.TryLock
			}
			_, err := take(t.Context())
			is(t, err, ErrClosed)
			isNot(t, err, context.Canceled, ErrLost, ErrUnavailable)
			if err := <-closed; err != nil {
				t.Error("Close:", err)
			}
			same(t, "asked for", fmt.Sprint(namesOf(s.made("try", "ask"))), "[a]")
			empty(t, s.mem)
		})
	}
}

// The same at any time, also while the leases are being passed to the caller.
func TestSeveral_CloseAtAnyMomentLeavesNothing(t *testing.T) {
	for _, o := range []*Options{nil, {MinHold: time.Second}, {MaxHold: time.Hour}, {NoRenew: On}} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			var got, not int
			for i := range 40 {
				s := linkTo(t, mem)
				s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
				locks := locker(t, withNotifications{s}, nil)
				closed := make(chan struct{})
				time.AfterFunc(time.Duration(i)*500*time.Microsecond+1, func() {
					defer close(closed)
					locks.Close()
				})
				leases, err := locks.With(o).All(mutexes(locks, "a", "b", "c")...).Lock(t.Context())
				if <-closed; err == nil {
					got++
					is(t, leases.Release(), ErrClosed)
				} else {
					not++
					is(t, err, ErrClosed)
				}
				time.Sleep(2 * time.Second) // for a minimum hold that was shown
				empty(t, mem)
			}
			if got < 3 || not < 3 {
				t.Fatalf("%d granted, %d ended by Close: too few of one kind to prove anything", got, not)
			}
		})
	}
}

func TestSeveral_DoEndsWithTheFirstLossAndReleasesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		two := locks.All(mutexes(locks, "a", "b")...)
		mine := errors.New("mine")
		err := two.Do(t.Context(), func(ctx context.Context) error {
			if LeaseOf(ctx, "a") == nil || LeaseOf(ctx, "b") == nil {
				t.Error("the context does not have both leases")
			}
			s.mem.Break("a")
			<-ctx.Done()
			is(t, context.Cause(ctx), ErrLost)
			return mine
		})
		is(t, err, ErrLost, mine)
		ran, err := two.TryDo(t.Context(), func(ctx context.Context) error {
			ran, err := two.TryDo(t.Context(), func(context.Context) error { return mine })
			same(t, "the second call ran", ran, false)
			is(t, err, nil)
			return LeaseOf(ctx, "b").Release() // on its own
		})
		same(t, "ran", ran, true)
		is(t, err, nil)
		func() {
			defer func() { same(t, "recovered", recover(), any("boom")) }()
			two.Do(t.Context(), func(context.Context) error { panic("boom") })
		}()
		empty(t, s.mem)
	})
}

func TestSeveral_OneReleasedOnItsOwnEndsTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		leases := all(t, locker(t, s, nil), "a", "b")
		ctx := leases.Context(t.Context())
		release(t, leases.Lease("a"))
		is(t, context.Cause(ctx), ErrReleased)
		same(t, "valid", leases.Valid(), false)
		same(t, "b", leases.Lease("b").Valid(), true)
		err := leases.Release()
		is(t, err, ErrReleased)
		empty(t, s.mem)
	})
}
