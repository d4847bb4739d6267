package holdfast

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// If no server listens at the store's address, the caller gets the error within a second.

// A refused connection is reported soon. A claim with a position keeps it nevertheless.
func TestOutage_AClosedPortIsReportedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		down(s, fmt.Errorf("ask: %w", errRefused))
		locks := locker(t, withNotifications{s}, nil)
		start := time.Now()
		_, err := locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrUnavailable, syscall.ECONNREFUSED)
		tried := time.Since(start)
		start = time.Now()
		all := inLine(t, locks, 5)
		for _, w := range all {
			w.failed(ErrUnavailable, syscall.ECONNREFUSED)
		}
		waited := all[4].at.Sub(start)
		t.Logf("TryLock failed after %v, five Locks after %v, %d asks", tried, waited, len(s.made("try", "ask")))
		if tried > time.Second || waited > time.Second {
			t.Errorf("failed after %v and %v, want at most 1s for both", tried, waited)
		}
		if n := len(s.made("try")); n < 6 {
			t.Errorf("%d tries, too few to survive a restart of the server, want at least 6", n)
		}
	})
}

func TestOutage_AWaiterKeepsItsPositionAtAClosedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		down(s, errRefused)
		time.Sleep(9 * time.Second)
		w.waiting()
		s.on(nil)
		o.release()
		w.got()
	})
}

// The same for all other claims of the process: those behind it in the local queue
// fail, and so do later ones.
func TestOutage_AClosedPortIsReportedToTheLocalQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		first := waits(t, locks.Mutex("a").Lock)
		line := inLine(t, locks, 5)
		down(s, errRefused)
		start := time.Now()
		for _, w := range line {
			w.failed(ErrUnavailable, syscall.ECONNREFUSED)
			isNot(t, w.err, ErrHeld)
			if d := w.at.Sub(start); d > third+third/10+time.Second {
				t.Errorf("failed after %v, too late", d)
			}
		}
		for range 3 { // the position is still being asked for
			start = time.Now()
			w := waits(t, locks.Mutex("a").Lock)
			w.failed(ErrUnavailable, syscall.ECONNREFUSED)
			if d := w.at.Sub(start); d > time.Second {
				t.Errorf("a later claim failed after %v, want at most 1s", d)
			}
		}
		first.waiting()
		s.on(nil)
		o.release()
		release(t, first.got())
	})
}

// A call that needs no new hold fails as soon, if it does not wait.
func TestOutage_AClosedPortIsReportedToAdoptAndUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		ref, err := lock(t, locks, "detached").Detach()
		if err != nil {
			t.Fatal(err)
		}
		up, err := locks.RWMutex("a").Upgradeable().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		down(s, errRefused)
		for what, call := range map[string]func() error{
			"Adopt":      func() error { _, err := locks.Adopt(t.Context(), ref); return err },
			"Upgrade":    func() error { return up.Upgrade(t.Context()) },
			"TryUpgrade": func() error { return up.TryUpgrade(t.Context()) },
		} {
			start := time.Now()
			is(t, call(), ErrUnavailable, syscall.ECONNREFUSED)
			if d := time.Since(start); d > time.Second {
				t.Errorf("%s: failed after %v, want at most 1s", what, d)
			}
			if what != "Adopt" { // the weight is changed back before the next call
				s.on(nil)
				time.Sleep(2 * time.Second)
				down(s, errRefused)
			}
		}
		s.on(nil)
		time.Sleep(2 * time.Second)
		release(t, up)
	})
}

// An upgrade that waits for readers survives a restart of the server.
func TestOutage_AnUpgradeThatWaitsSurvivesAClosedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		up, err := locker(t, withNotifications{s}, nil).RWMutex("a").Upgradeable().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reader, err := locker(t, linkTo(t, s.mem), nil).RWMutex("a").Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := waits(t, func(ctx context.Context) (*Lease, error) { return nil, up.Upgrade(ctx) })
		asked := len(s.made("change"))
		down(s, errRefused)
		for len(s.made("change")) == asked { // its next poll meets the closed port
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		w.waiting()
		s.on(nil)
		release(t, reader)
		w.wait()
		if w.err != nil {
			t.Fatal(w.err)
		}
		release(t, up)
	})
}
