package holdfast

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// B96: the defaults are part of what we promise.
func TestDefaults(t *testing.T) { // B96
	for name, o := range map[string]*Options{"nil": nil, "empty": {}} {
		l, err := New(memstore.New(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := l.engine.Options()
		same(t, name+": TTL", s.TTL, 30*time.Second)
		same(t, name+": RenewEvery", s.RenewEvery, 10*time.Second)
		same(t, name+": place", l.engine.PositionTTL(), 10*time.Second)
		same(t, name+": poll from", s.PollMin, 2*time.Millisecond)
		same(t, name+": poll to", s.PollMax, 800*time.Millisecond)
		same(t, name+": Wait, MinHold, MaxHold, LockDelay", s.Wait+s.MinHold+s.MaxHold+s.LockDelay, 0)
		same(t, name+": HandOver", HandOver(*s.HandOver), HandOver{Times: 64, For: 50 * time.Millisecond})
		same(t, name+": Logger", s.Logger, slog.Default())
		if s.Owner.Host == "" || s.Owner.PID == 0 || s.Owner.Program == "" {
			t.Errorf("%s: owner %+v", name, s.Owner)
		}
	}
}

// B90, B91, B92, B93, B98: each error names the option, before anything is sent.
func TestNonsenseIsRefused(t *testing.T) { // B91, B92, B98
	s := newLink(t)
	s.desc.MinTTL, s.desc.MaxTTL = time.Second, time.Hour
	for _, c := range []struct {
		o    Options
		says string // "" : it is good
	}{
		{Options{TTL: -1}, "TTL is negative"},
		{Options{TTL: time.Second - 1}, "under the store's least"},
		{Options{TTL: time.Second}, ""},
		{Options{TTL: time.Hour + 1}, "over the store's greatest"},
		{Options{TTL: time.Hour}, ""},
		{Options{RenewEvery: -1}, "RenewEvery is negative"},
		{Options{RenewEvery: 15*time.Second + 1}, "more than half"},
		{Options{RenewEvery: 15 * time.Second}, ""},
		{Options{TTL: 10 * time.Second, RenewEvery: 6 * time.Second}, "more than half"},
		{Options{Wait: -2}, "Wait is negative"},
		{Options{Wait: None}, ""},
		{Options{MinHold: -2}, "MinHold is negative"},
		{Options{MinHold: None}, ""},
		{Options{MinHold: 2 * time.Minute, MaxHold: time.Minute}, "MinHold 2m0s is more than MaxHold 1m0s"},
		{Options{MinHold: time.Minute, MaxHold: time.Minute}, ""},
		{Options{MinHold: time.Hour + 1}, "over the store's greatest"},
		{Options{MaxHold: -2}, "MaxHold is negative"},
		{Options{MaxHold: None}, ""},
		{Options{LockDelay: -2}, "LockDelay is negative"},
		{Options{LockDelay: None}, ""},
		{Options{LockDelay: time.Hour + 1}, "over the store's greatest"},
		{Options{MaxWaiting: -2}, "MaxWaiting -2 is negative"},
		{Options{MaxWaiting: None, AskToGiveUp: AskNobody}, ""},
		{Options{PollMin: -1}, "PollMin is negative"},
		{Options{PollMax: -1}, "PollMax is negative"},
		{Options{PollMin: 2 * time.Second, PollMax: time.Second}, "PollMin 2s is more than PollMax 1s"},
		{Options{PollMin: 2 * time.Second}, ""},
		{Options{PollMax: time.Millisecond}, ""},
		{Options{Note: strings.Repeat("x", store.MaxNote+1)}, "the note has 101 bytes"},
		{Options{Note: strings.Repeat("x", store.MaxNote)}, ""},
		{Options{HandOver: &HandOver{Times: -1, For: 1}}, "HandOver.Times -1 is not 0 or 2 to 64"},
		{Options{HandOver: &HandOver{Times: 1, For: 1}}, "HandOver.Times 1 is not 0 or 2 to 64"},
		{Options{HandOver: &HandOver{Times: 65, For: 1}}, "HandOver.Times 65 is not 0 or 2 to 64"},
		{Options{HandOver: &HandOver{Times: 2, For: -1}}, "HandOver.For is negative"},
		{Options{HandOver: &HandOver{Times: 2}}, "HandOver needs both bounds"},
		{Options{HandOver: &HandOver{For: time.Second}}, "HandOver needs both bounds"},
		{Options{HandOver: &HandOver{Times: 2, For: 1}}, ""},
		{Options{HandOver: &HandOver{}}, ""},
	} {
		_, err := New(s, &c.o)
		l, ok := New(s, nil)
		if ok != nil {
			t.Fatal(ok)
		}
		later := l.With(&c.o)
		_, first := later.RWMutex("a").Read().TryLock(t.Context())
		if c.says == "" {
			if err != nil || first != nil {
				t.Errorf("%+v: %v, %v", c.o, err, first)
			}
		} else {
			for _, err := range []error{err, first} {
				is(t, err, ErrInvalid)
				if text := err.Error(); !strings.Contains(text, c.says) || !strings.Contains(text, "a link") {
					t.Errorf("%+v: got %v, want it to say %q", c.o, err, c.says)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.made("ask")); n != 0 {
		t.Errorf("%d asks, want none", n)
	}
}

func TestOptions_WithKeepsUnsetOptions(t *testing.T) {
	l := locker(t, memstore.New(), &Options{TTL: time.Minute, Note: "mine", MinHold: time.Second, Reentrant: On, NoRenew: On, HandOver: &HandOver{}})
	m := l.With(&Options{MinHold: 2 * time.Second}).With(nil)
	same(t, "TTL", m.engine.Options().TTL, time.Minute)
	same(t, "RenewEvery", m.engine.Options().RenewEvery, 20*time.Second)
	same(t, "note", m.engine.Options().Owner.Note, "mine")
	same(t, "Reentrant, NoRenew", m.engine.Options().Reentrant && m.engine.Options().NoRenew, true)
	off := m.With(&Options{Reentrant: Off, NoRenew: Off})
	same(t, "Reentrant or NoRenew, turned off", off.engine.Options().Reentrant || off.engine.Options().NoRenew, false)
	same(t, "Reentrant by default", locker(t, memstore.New(), nil).engine.Options().Reentrant, false)
	same(t, "HandOver", HandOver(*m.engine.Options().HandOver), HandOver{})
	same(t, "MinHold", m.engine.Options().MinHold, 2*time.Second)
	same(t, "MinHold of the parent", l.engine.Options().MinHold, time.Second)
}

func TestOptions_ASwitchIsOnOrOff(t *testing.T) {
	for option, o := range map[string]*Options{"NoRenew": {NoRenew: 7}, "Reentrant": {Reentrant: -9}} {
		_, err := New(memstore.New(), o)
		is(t, err, ErrInvalid)
		if !strings.Contains(err.Error(), option+" is ") {
			t.Errorf("%v does not name the option %s", err, option)
		}
	}
}

func TestOptions_WithTurnsOffWhatTheParentHas(t *testing.T) {
	on := &Options{
		MaxWaiting: 3, Wait: time.Hour, MinHold: time.Second, MaxHold: time.Minute, LockDelay: time.Second, AskToGiveUp: "a deploy",
		NoRenew: On, Reentrant: On,
	}
	off := &Options{
		MaxWaiting: None, Wait: None, MinHold: None, MaxHold: None, LockDelay: None, AskToGiveUp: AskNobody,
		NoRenew: Off, Reentrant: Off,
	}
	l := locker(t, memstore.New(), on)
	want := locker(t, memstore.New(), nil).engine.Options()
	for name, m := range map[string]*Locker{"a child": l.With(off), "its child": l.With(off).With(nil), "one of New": locker(t, memstore.New(), off)} {
		if err := m.engine.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o := m.engine.Options()
		same(t, name+": MaxWaiting", o.MaxWaiting, want.MaxWaiting)
		same(t, name+": Wait", o.Wait, want.Wait)
		same(t, name+": MinHold", o.MinHold, want.MinHold)
		same(t, name+": MaxHold", o.MaxHold, want.MaxHold)
		same(t, name+": LockDelay", o.LockDelay, want.LockDelay)
		same(t, name+": AskToGiveUp", o.AskToGiveUp, want.AskToGiveUp)
		same(t, name+": NoRenew, Reentrant", o.NoRenew || o.Reentrant, false)
	}
	again := l.With(off).With(on).engine.Options()
	same(t, "turned on again: MaxWaiting", again.MaxWaiting, 3)
	same(t, "turned on again: AskToGiveUp", again.AskToGiveUp, "a deploy")
}

func TestOptions_WhatTheStoreLacksIsUnsupported(t *testing.T) {
	s := newLink(t)
	s.desc.Lacks = map[store.Promise]string{
		store.PromiseMinHold: "no clock", store.PromiseLockDelay: "no memory", store.PromiseSlots: "no counting",
	}
	for o, why := range map[*Options]string{{MinHold: 1}: "no clock", {LockDelay: 1}: "no memory"} {
		_, err := New(s, o)
		is(t, err, ErrUnsupported)
		if !strings.Contains(err.Error(), why) {
			t.Errorf("%v does not give the reason", err)
		}
	}
	_, err := locker(t, s, nil).Semaphore("a", 3).TryAcquire(t.Context(), 1)
	is(t, err, ErrUnsupported)
	same(t, "calls", len(s.made()), 0)
}

func TestArguments_AreCheckedBeforeAnythingIsSent(t *testing.T) {
	s := newLink(t)
	locks := locker(t, s, nil)
	for says, err := range map[string]error{
		"the name is empty": second(locks.Mutex("").TryLock(t.Context())),
		"has 513 bytes":     second(locks.RWMutex(strings.Repeat("x", 513)).Read().TryLock(t.Context())),
		"not UTF-8":         second(locks.Mutex("\xff").Lock(t.Context())),
		"not 0":             second(locks.Semaphore("a", 0).TryAcquire(t.Context(), 1)),
		"not -1":            second(locks.Semaphore("a", -1).TryAcquire(t.Context(), 1)),
		"not 1073741824":    second(locks.Semaphore("a", store.Full).TryAcquire(t.Context(), 1)),
		"1 to 3":            second(locks.Semaphore("a", 3).TryAcquire(t.Context(), 4)),
		"1 to 5":            second(locks.Semaphore("a", 5).TryAcquire(t.Context(), 0)),
	} {
		is(t, err, ErrInvalid)
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	same(t, "calls", len(s.made()), 0)
	release(t, lock(t, locks, strings.Repeat("x", 512)))
	same(t, "slots", locks.Semaphore("s", 3).Total(), 3)
	_, err := New(nil, nil)
	is(t, err, ErrInvalid)
}

func second(_ *Lease, err error) error { return err }

// goroutines returns how many there are, and turns the garbage collector off until the test ends: while it runs,
// goroutines of earlier tests are counted, too.
func goroutines(t testing.TB) int {
	t.Helper()
	was := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	runtime.GC()
	return runtime.NumGoroutine()
}

// The memory store and the engine on it need no goroutine while
// nothing waits.
func TestAnUncontendedPairInMemoryStartsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, memstore.New(), nil)
		before := goroutines(t)
		for range 1000 {
			l, err := locks.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := runtime.NumGoroutine(); n > before {
				t.Fatalf("got %d more goroutines, want none", n-before)
			}
			release(t, l)
			if n := runtime.NumGoroutine(); n > before {
				t.Fatalf("got %d more goroutines, want none", n-before)
			}
		}
	})
}
