package recordtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

var sessionPromises = []promise{
	{name: "a session that is renewed goes on", run: renewedGoesOn},
	{name: "a session ends no earlier than it lasts", run: endsNoEarlier},
	{name: "a session that was renewed lasts from there on", run: lastsFromRenewal},
	{name: "a session that is not renewed ends", run: lapses},
	{name: "sessions are begun with each TTL of the range", run: eachTTL},
	{name: "the end of a session ends no other", run: endsNoOther},
	{name: "a renewal of a session that was ended is lost", run: renewEnded},
	{name: "a renewal of a session that has lapsed is lost", run: renewLapsed},
	{name: "a renewal of no session is lost and begins none", run: renewNothing},
	{name: "a renewal that was given up does no harm", run: renewGivenUp},
	{name: "a renewal whose reply is lost does no harm", run: renewMuted, linked: true},
	{name: "a renewal returns how often its session was called", run: renewTellsCalls},
	{name: "calls of many processes are all counted", run: callsCounted},
	{name: "a call does not renew", run: callDoesNotRenew},
	{name: "a call of an ended session is no error", run: callEnded},
	{name: "a call of no session begins none", run: callNothing},
	{name: "a session whose begin was not answered ends", run: beginMuted, linked: true},
	{name: "a begin and a renewal return which server it is", run: tellsServer, server: true},
}

// end ends a session.
func (t *trial) end(b record.Backend, id session.ID) {
	t.Helper()
	t.answered("End", func() error { return b.End(t.ctx, id) })
}

// lapsed waits until a session has ended by itself.
func (t *trial) lapsed(b record.Backend, id session.ID, ttl time.Duration) {
	t.Helper()
	testwait.UntilPast(t, 2*max(ttl, t.sessions.MinTTL), "a session without renewals has ended", func() bool { return t.left(b, id) <= 0 })
}

// short is the TTL of sessions that must end: long enough to be distinguished from none.
func (t *trial) short() time.Duration {
	return min(max(t.sessions.MinTTL, time.Second), t.sessions.MaxTTL)
}

// beginShort begins a short session. It returns when the request was sent, and how long the session lasts from then.
func (t *trial) beginShort(b record.Backend) (id session.ID, sent store.Instant, lasts time.Duration) {
	t.Helper()
	return t.beginFor(b, t.short())
}

// beginFor begins a session that the end of the test does not end.
func (t *trial) beginFor(b record.Backend, ttl time.Duration) (id session.ID, sent store.Instant, lasts time.Duration) {
	t.Helper()
	ttl -= ttl % t.sessions.Tick
	t.answered("Begin", func() (err error) {
		id, sent = newSession(), store.Now()
		lasts, err = b.Begin(t.ctx, id, ttl)
		return err
	})
	return id, sent, lasts
}

// On a machine that stalls a renewal may come too late, which the clock shows. Then the next session lasts twice as
// long.
func renewedGoesOn(t *trial) {
	a, b := t.open(), t.open()
	ttl := t.short()
	for range 8 {
		if t.goesOn(a, b, ttl) {
			return
		}
		ttl = max(ttl, min(2*ttl, patience, t.sessions.MaxTTL))
	}
	t.Fatalf("this machine is too busy to renew a session of %v in time", ttl)
}

func (t *trial) goesOn(a, b record.Backend, ttl time.Duration) bool {
	t.Helper()
	id, sent, lasts := t.beginFor(a, ttl)
	defer t.end(a, id)
	for begin := sent; sent < begin.Add(3*ttl); time.Sleep(lasts / 6) {
		next := store.Now()
		_, err := a.Renew(t.ctx, id)
		if store.Now() >= sent.Add(lasts) {
			return false
		}
		if err != nil {
			t.Fatalf("Renew, %v after the one before was sent, of a session that lasts %v: got %v", next.Sub(sent), lasts, err)
		}
		sent = next
		left := t.left(b, id)
		if store.Now() < sent.Add(lasts) && left <= 0 {
			t.Fatalf("Left of a session that is renewed: got %v", left)
		}
	}
	return true
}

// small is the most that Left may return if the server does not report how much longer a session lasts.
const small = 100 * time.Millisecond

// goes waits for the end of a session, and checks that it comes neither before until nor before Left has said.
func (t *trial) goes(b record.Backend, id session.ID, until store.Instant) {
	t.Helper()
	said := store.Instant(0)
	deadline := store.Now().Add(2*t.short() + patience)
	for {
		sent := store.Now()
		left := t.left(b, id)
		heard := store.Now()
		if left <= 0 {
			if heard < until {
				t.Errorf("the session ended %v too early", until.Sub(heard))
			}
			if heard < said {
				t.Errorf("the session ended %v earlier than Left reported", said.Sub(heard))
			}
			return
		}
		if left > small {
			said = max(said, sent.Add(left))
		}
		if heard > deadline {
			t.Fatal("a session without renewals does not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func endsNoEarlier(t *trial) {
	a, b := t.open(), t.open()
	id, sent, lasts := t.beginShort(a)
	t.goes(b, id, sent.Add(lasts))
}

func lastsFromRenewal(t *trial) {
	a, b := t.open(), t.open()
	id, sent, lasts := t.beginShort(a)
	for range 5 {
		time.Sleep(lasts / 3)
		next := store.Now()
		if _, err := a.Renew(t.ctx, id); err != nil {
			break // it was late
		}
		sent = next
	}
	t.goes(b, id, sent.Add(lasts))
}

func lapses(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.lapsed(b, id, t.short())
	t.lapsed(a, id, t.short())
	t.never("a session that ended is alive again", func() bool { return t.left(b, id) > 0 })
}

func eachTTL(t *trial) {
	b, s := t.open(), t.sessions
	for _, ttl := range []time.Duration{s.MinTTL, s.MinTTL + s.Tick, 2 * s.MinTTL, 7 * s.Tick, s.MaxTTL / 2, s.MaxTTL - s.Tick, s.MaxTTL} {
		if ttl -= ttl % s.Tick; ttl < s.MinTTL || ttl > s.MaxTTL {
			continue
		}
		id := newSession()
		lasts, err := b.Begin(t.ctx, id, ttl)
		if err != nil {
			t.Errorf("Begin with a TTL of %v: %v", ttl, err)
			continue
		}
		if lasts <= 0 || lasts > ttl {
			t.Errorf("Begin with a TTL of %v: the session lasts %v", ttl, lasts)
		}
		t.end(b, id)
	}
}

func endsNoOther(t *trial) {
	a, b := t.open(), t.open()
	lives, beside := t.session(a), t.session(b)
	short, _, _ := t.beginShort(a)
	ended := t.session(a)
	t.end(a, ended)
	t.lapsed(b, short, t.short())
	for _, id := range []session.ID{lives, beside} {
		if left := t.left(b, id); left <= 0 {
			t.Errorf("Left of a living session, after others ended: got %v", left)
		}
	}
	t.renew(a, lives)
	t.renew(b, beside)
}

func (t *trial) lost(b record.Backend, id session.ID) {
	t.Helper()
	if _, err := b.Renew(t.ctx, id); !errors.Is(err, store.ErrLost) {
		t.Errorf("Renew of a session that has ended: got %v, want store.ErrLost", err)
	}
}

func renewEnded(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	t.renew(a, id)
	t.end(a, id)
	for range 3 {
		t.lost(a, id)
	}
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left, after renewals that were lost: got %v", left)
	}
}

func renewLapsed(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.lapsed(b, id, t.short())
	for range 3 {
		t.lost(a, id)
	}
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left, after renewals that were lost: got %v", left)
	}
}

func renewNothing(t *trial) {
	a, b := t.open(), t.open()
	id := newSession()
	t.lost(a, id)
	t.lost(a, id)
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left of a session that was never begun: got %v", left)
	}
}

// The context may end at any time during a renewal.
func renewGivenUp(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.ctx, time.Duration(i)*50*time.Microsecond)
		if _, err := a.Renew(ctx, id); errors.Is(err, store.ErrLost) {
			t.Fatalf("Renew, after some that were given up: got %v", err)
		}
		cancel()
	}
	t.renew(a, id)
	t.renew(a, id)
	if left := t.left(b, id); left <= 0 {
		t.Errorf("Left: got %v", left)
	}
}

func renewMuted(t *trial) {
	b := t.open()
	a, link := t.linked()
	id := t.session(a)
	t.renew(a, id)
	for range 2 {
		link.MuteAfter(0)
		t.unanswered(link, func(ctx context.Context) error {
			_, err := a.Renew(ctx, id)
			return err
		})
		link.Reset()
		t.until("a renewal is answered, after one whose reply was lost", func() bool {
			ctx, cancel := context.WithTimeout(t.ctx, 2*time.Second)
			defer cancel()
			_, err := a.Renew(ctx, id)
			if errors.Is(err, store.ErrLost) {
				t.Fatalf("Renew, after one whose reply was lost: got %v", err)
			}
			return err == nil
		})
	}
	if left := t.left(b, id); left <= 0 {
		t.Errorf("Left: got %v", left)
	}
}

func renewTellsCalls(t *trial) {
	a, b := t.open(), t.open()
	id, other := t.session(a), t.session(a)
	for want := range int64(4) {
		for range 2 { // it returns them again
			if calls := t.renew(a, id); calls != want {
				t.Errorf("Renew: got %d calls, want %d", calls, want)
			}
		}
		t.called([]record.Backend{a, b}[want%2], id)
	}
	if calls := t.renew(a, other); calls != 0 {
		t.Errorf("Renew: got %d calls of a session that was not called", calls)
	}
}

func callsCounted(t *trial) {
	a := t.open()
	id := t.session(a)
	var calling sync.WaitGroup
	const processes, each = 4, 8
	for range processes {
		b := t.open()
		calling.Go(func() {
			for range each {
				for { // it may race with a renewal
					err := b.Call(t.ctx, id)
					if err == nil {
						break
					}
					if store.Definite(err) || t.ctx.Err() != nil {
						t.Errorf("Call: %v", err)
						return
					}
				}
			}
		})
	}
	last := int64(0)
	for range 10 {
		calls := t.renew(a, id)
		if calls < last {
			t.Errorf("Renew: got %d calls, after %d", calls, last)
		}
		last = calls
	}
	calling.Wait()
	for range 2 { // it is returned each time
		if calls := t.renew(a, id); calls < processes*each {
			t.Errorf("Renew: got %d calls, want %d", calls, processes*each)
		}
	}
}

func callDoesNotRenew(t *trial) {
	a, b := t.open(), t.open()
	id, _, lasts := t.beginShort(a)
	testwait.UntilPast(t, 2*t.short(), "a session that is called and not renewed ends", func() bool {
		t.called(b, id)
		time.Sleep(lasts / 10)
		return t.left(b, id) <= 0
	})
}

func callEnded(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	t.end(a, id)
	t.called(a, id)
	t.called(b, id)
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left of an ended session, after a Call: got %v", left)
	}
	t.lost(a, id)
}

func callNothing(t *trial) {
	a, b := t.open(), t.open()
	id := newSession()
	t.called(a, id)
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left of a session that was never begun, after a Call: got %v", left)
	}
	t.lost(a, id)
}

func beginMuted(t *trial) {
	b := t.open()
	a, link := t.linked()
	link.MuteAfter(0)
	id := newSession()
	ttl := t.short() - t.short()%t.sessions.Tick
	t.unanswered(link, func(ctx context.Context) error {
		_, err := a.Begin(ctx, id, ttl)
		return err
	})
	link.Reset()
	link.Deliver()
	t.lapsed(b, id, ttl)
	t.never("a session that ended is alive again", func() bool { return t.left(b, id) > 0 })
}

func tellsServer(t *trial) {
	a, b := t.open(), t.open()
	server := func(of record.Backend) int64 { return of.(session.Replaceable).Server() }
	if n := server(a); n != 0 {
		t.Errorf("Server: got %d, before a session was begun", n)
	}
	id := t.session(a)
	first := server(a)
	if first == 0 {
		t.Fatal("Server: got 0, after a session was begun")
	}
	for range 3 {
		t.called(b, id)
		if t.renew(a, id); server(a) != first {
			t.Fatalf("Server: got %d after a renewal, and %d before", server(a), first)
		}
	}
	if t.session(b); server(b) != first {
		t.Errorf("Server: got %d in another process, want %d: it is the same server", server(b), first)
	}
}
