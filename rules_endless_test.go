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

	"github.com/holdfast-go/holdfast/store"
)

// A session is a link to a store whose holds have no deadline. It reports a loss
// when the test says so.
type session struct {
	*link
	reported func(store.ID, error)
}

// eternity stands for no TTL in the store behind the link.
const eternity = 300 * 24 * time.Hour

func newSession(t testing.TB) *session {
	s := &session{link: newLink(t)}
	s.desc.MinTTL, s.desc.MaxTTL, s.desc.Tick = 0, 0, 0
	why := "it is held by a session"
	s.desc.Lacks = map[store.Promise]string{
		store.PromiseDeadline: why, store.PromiseMinHold: why, store.PromiseLockDelay: why, store.PromiseBlock: why,
		store.PromiseDetach: why, store.PromiseTokens: why, store.PromiseHolders: why,
	}
	return s
}

func (s *session) TellLosses(reported func(store.ID, error)) { s.reported = reported }

func (s *session) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if c.TTL != 0 {
		s.t.Errorf("got an ask with a TTL of %v, want none", c.TTL)
	}
	c.TTL, c.Block = eternity, 1
	a, err := s.link.Ask(ctx, c)
	a.TTL = 0
	return a, err
}

func (s *session) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	long := append([]store.Hold(nil), holds...)
	for i := range long {
		if long[i].TTL != 0 {
			s.t.Errorf("got a renewal with a TTL of %v, want none", long[i].TTL)
		}
		long[i].TTL = eternity
	}
	out := s.link.Renew(ctx, long)
	for i := range out {
		out[i].TTL = 0
	}
	return out
}

// lose lets the store lose the lease, and reports that to the engine.
func (s *session) lose(l *Lease) {
	s.mem.Break(l.Name())
	s.reported(l.engine().Probe().Hold().ID, fmt.Errorf("%w: the session is gone", ErrLost))
}

func TestEndless_LastsUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(48 * time.Hour)
		suspend(time.Hour)
		time.Sleep(2 * time.Second)
		if !l.Valid() || over(l.Lost()) || l.Context(t.Context()).Err() != nil {
			t.Fatal("the lease has ended, although no loss was reported")
		}
		same(t, "deadline", l.Deadline(), time.Time{})
		same(t, "token", l.Token(), 0)
		_, err := locker(t, linkTo(t, s.mem), nil).Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
		release(t, l)
		same(t, "deadline after the end", l.Deadline(), time.Time{})
		empty(t, s.mem)
	})
}

func TestEndless_AReportedLossEndsTheLeaseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		locks := locker(t, s, nil)
		l, other := lock(t, locks, "a"), lock(t, locks, "b")
		lostAt, ctx := l.Lost(), l.Context(t.Context())
		calls := len(s.made())
		s.lose(l)
		if l.Valid() || ctx.Err() == nil || !over(lostAt) {
			t.Fatal("the lease is valid after its loss was reported")
		}
		is(t, context.Cause(ctx), ErrLost)
		err := l.Release()
		if is(t, err, ErrLost); !strings.Contains(err.Error(), "the session is gone") {
			t.Fatalf("error %q does not give the reason", err)
		}
		same(t, "calls since the loss", len(s.made())-calls, 0)
		if !other.Valid() {
			t.Fatal("another lease was lost too")
		}
		release(t, other)
	})
}

// A driver's own timeout, which matches the end of a context, is not the caller's.
func TestEndless_AReportedLossMatchesNoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := lock(t, locker(t, s, nil), "a")
		ctx := l.Context(t.Context())
		s.mem.Break("a")
		s.reported(l.engine().Probe().Hold().ID, fmt.Errorf("%w: the session has ended: %w: %w", ErrLost, errLink, context.DeadlineExceeded))
		for _, err := range []error{context.Cause(ctx), l.Release()} {
			is(t, err, ErrLost, errLink)
			isNot(t, err, context.DeadlineExceeded, context.Canceled)
		}
	})
}

// The connection breaks while the answer with the grant is under way.
func TestEndless_ALossReportedBeforeTheGrantIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		s.on(func(c *call) fate {
			if c.op != "try" {
				return fate{}
			}
			time.AfterFunc(time.Millisecond, func() {
				s.mem.Break("a")
				s.reported(c.id, ErrLost)
			})
			return fate{back: 2 * time.Millisecond}
		})
		l := lock(t, locker(t, s, nil), "a")
		select {
		case <-l.Lost():
		case <-time.After(10 * time.Millisecond):
			t.Fatal("the lease is not lost after 10 ms")
		}
		is(t, l.Release(), ErrLost)
	})
}

func TestEndless_TheStoreIsPolledNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(16 * time.Second)
		same(t, "asked", fmt.Sprint(sent(s.made("renew"), start)), "[5s 10s 15s]")
		s.mem.Break("a") // and does not report it
		time.Sleep(4100 * time.Millisecond)
		if l.Valid() {
			t.Fatal("the lease is valid, want it lost")
		}
		often := lock(t, locker(t, s, &Options{RenewEvery: time.Minute}), "b")
		before := len(s.made("renew"))
		time.Sleep(61 * time.Second)
		same(t, "asks in a minute", len(s.made("renew"))-before, 1)
		release(t, often)
	})
}

func TestEndless_NoAnswerIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		var log strings.Builder
		l := lock(t, locker(t, s, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), "a")
		s.renewalsFail(time.Now().Add(time.Hour))
		time.Sleep(2 * time.Hour)
		if !l.Valid() {
			t.Fatal("the lease expired, although it has no deadline")
		}
		release(t, l)
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || strings.Contains(log.String(), "left=") || strings.Contains(log.String(), "runs out") {
			t.Fatalf("got %d warnings, want one that announces no end:\n%s", n, &log)
		}
	})
}

// Without a deadline it is unknown whether that was our own release, repeated.
func TestEndless_AReleaseThatFindsNothingIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := lock(t, locker(t, s, nil), "a")
		s.mem.Break("a")
		is(t, l.Release(), ErrLost)
	})
}

func TestEndless_MaxHoldEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := lock(t, locker(t, s, &Options{MaxHold: time.Minute}), "a")
		time.Sleep(59 * time.Second)
		if !l.Valid() {
			t.Fatal("the lease ended before MaxHold")
		}
		time.Sleep(time.Second)
		if !over(l.Lost()) || l.Valid() {
			t.Fatal("MaxHold did not end the lease")
		}
		empty(t, s.mem)
	})
}

func TestEndless_AWaiterIsGrantedHoweverLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := lock(t, locker(t, s, nil), "a")
		w := waits(t, locker(t, s, nil).Mutex("a").Lock)
		time.Sleep(time.Hour)
		w.waiting()
		release(t, l)
		release(t, w.got())
		cancelled := lock(t, locker(t, s, nil), "a")
		w = waits(t, locker(t, s, nil).Mutex("a").Lock)
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
		release(t, cancelled)
		synctest.Wait()
		empty(t, s.mem)
	})
}

func TestEndless_SeveralNamesAreLostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		locks := locker(t, s, &Options{MaxHold: time.Hour}) // so that all begin again once all are held
		all, err := locks.All(locks.Mutex("a"), locks.Mutex("b")).TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "deadline", all.Deadline(), time.Time{})
		s.lose(all.Lease("b"))
		if all.Valid() || !over(all.Lost()) || !all.Lease("a").Valid() {
			t.Fatal("the loss of one name did not end the set, or ended the other lease")
		}
		is(t, all.Release(), ErrLost)
		empty(t, s.mem)
	})
}

func TestEndless_WhatNeedsADeadlineIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		for what, o := range map[string]Options{
			"a TTL": {TTL: time.Minute}, "NoRenew": {NoRenew: On}, "MinHold": {MinHold: time.Second}, "LockDelay": {LockDelay: time.Second},
		} {
			if _, err := New(s, &o); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "held by a session") {
				t.Errorf("%s: got %v, want ErrUnsupported with the reason", what, err)
			}
		}
		if _, err := New(s, &Options{RenewEvery: -1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("RenewEvery below zero: got %v, want ErrInvalid", err)
		}
		l := lock(t, locker(t, s, nil), "a")
		is(t, l.Renew(t.Context(), time.Minute), ErrUnsupported)
		_, err := l.Detach()
		is(t, err, ErrUnsupported)
		is(t, l.SetNote("new"), ErrUnsupported)
		if !l.Valid() {
			t.Fatal("a refused call ended the lease")
		}
		release(t, l)
	})
}

// For example, a wrapper of a store that hides TellLosses.
func TestEndless_AStoreThatReportsNoLossesIsRefused(t *testing.T) {
	if _, err := New(struct{ store.Store }{newSession(t)}, nil); !errors.Is(err, ErrInvalid) {
		t.Fatalf("got error %v, want ErrInvalid", err)
	}
}

func TestEndless_ARefusalReturnsNoUnknownTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := lock(t, locker(t, s, &Options{Owner: Owner{Host: "web-3", PID: 4711, Program: "backup"}}), "a")
		_, err := locker(t, s, nil).Mutex("a").TryLock(t.Context())
		h := heldBy(t, err)
		same(t, "holder", h, Holder{Owner: Owner{Host: "web-3", PID: 4711, Program: "backup"}})
		if text := err.Error(); !strings.HasSuffix(text, "held by host web-3, pid 4711 (backup)") {
			t.Fatalf("the refusal shows unknown times: %s", text)
		}
		release(t, l)
	})
}

// A notification reports a hold with a position's time, and this store has no such time.
func TestEndless_ANotificationIsOnlyAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		s2 := struct {
			*session
			store.Watcher
		}{s, withNotifications{s.link}}
		l := lock(t, locker(t, s2, nil), "a")
		w := waits(t, locker(t, s2, nil).Mutex("a").Lock)
		before := len(s.made("ask"))
		release(t, l)
		got := w.got()
		same(t, "asks after the notification", len(s.made("ask"))-before, 1)
		release(t, got)
	})
}
